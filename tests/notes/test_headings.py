import json
from pathlib import Path

import pytest

from spacy_biomed.notes.headings import find_headings, read_headings

STARTER = Path(__file__).parents[2] / "assets" / "starter_notes"


def sections(text, language="es"):
    return [
        (one.section, text[one.start : one.end])
        for one in find_headings(text, read_headings(language))
    ]


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("ANTECEDENTES FAMILIARES: padre con HTA", "ANTECEDENTES FAMILIARES:"),
        ("  2.- Antecedentes familiares\nPadre con HTA", "Antecedentes familiares"),
        ("Sin fiebre. AF: padre con HTA", "AF:"),
        ("Antecedentes familiares (rama materna): HTA", "Antecedentes familiares (rama materna):"),
        ("**Antecedentes familiares**: HTA", "Antecedentes familiares**:"),
        ("antecedentes familiares.- HTA", "antecedentes familiares.-"),
        ("A.F.: padre con HTA", "A.F.:"),
    ],
)
def test_a_heading_has_many_forms(text, heading):
    assert sections(text) == [("family_history", heading)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\n\r\n", "\f", "\u2028"])
def test_a_heading_without_a_colon_ends_with_its_line_of_any_system(end):
    text = end.join(
        ["Juicio clínico", "ANTECEDENTES FAMILIARES ", "padre con HTA", "Alergias", "no"]
    )
    assert [one.section for one in find_headings(text, read_headings("es"))] == [
        "assessment",
        "family_history",
        "allergies",
    ]


def test_an_abbreviation_needs_its_capitals():
    assert sections("af: padre") == []


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("Sin fiebre\nEvolución en planta y urgencias: buena", "hospital_course"),
        ("EXPLORACIÓN AL ALTA", "physical_examination"),
        ("Antecedentes familiares relevantes: asma", "family_history"),
    ],
)
def test_more_words_may_follow_the_name_of_a_heading(text, section):
    assert [found for found, _ in sections(text)] == [section]


def test_one_word_is_no_heading_of_a_history():
    assert sections("Familia informada: sí\nAnalítica pedida\nMadre: asma") == []


def test_words_of_a_sentence_are_no_heading():
    assert sections("Refiere alergias a penicilina. Alergias y asma en la familia") == []


def test_an_unknown_heading_ends_the_section_before_it():
    text = "AF: padre con HTA\nESCALA DE BARTHEL\n60\nCosas varias:\nnada\nTA: 120/80"
    assert [section for section, _ in sections(text)] == ["family_history", "other", "other"]


def test_a_name_after_an_empty_line_ends_the_section_before_it():
    text = "AF: padre con HTA\n\nOtra cosa: nada\nMás cosas: nada"
    assert [section for section, _ in sections(text)] == ["family_history", "other"]


def test_a_section_that_begins_within_a_line_ends_with_its_paragraph():
    text = "Varón sano. AF: padre con HTA\ny asma.\n\nAcude por tos."
    assert sections(text) == [("family_history", "AF:"), ("other", "")]
    text = "AF:\n\npadre con HTA\n\nmadre con asma"
    assert sections(text) == [("family_history", "AF:")]


def test_a_long_run_of_line_ends_takes_no_time_of_its_own():
    text = "Varón sano. AF: padre con HTA" + "\n" * 200_000
    assert sections(text) == [("family_history", "AF:")]


def test_auscultation_is_not_history():
    text = "AP: asma. \nEF: AC rítmica. AP: murmullo normal.\nAP: asma"
    wanted = ["past_history", "physical_examination", "past_history"]
    assert [section for section, _ in sections(text)] == wanted


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_sections_of_the_starter_notes_are_found(language):
    for line in (STARTER / f"{language}.jsonl").read_text(encoding="utf8").splitlines():
        note = json.loads(line)
        gold = [(one["start"], one["label"]) for one in note["sections"]]
        found = find_headings(note["text"], read_headings(language))
        assert [(one.start, one.section) for one in found] == gold


@pytest.mark.parametrize(
    "text",
    [
        "PAST MEDICAL HISTORY:\n1. COPD\n2. GERD\n3. Gout",
        "PMH:\n- COPD, severe\n- ATRIAL FIBRILLATION\n- gout, on allopurinol",
        "Past medical history:\nCOPD\nNSTEMI\nGout, well controlled",
        "PAST MEDICAL HISTORY:\nDIABETES MELLITUS TYPE 2\nATRIAL FIBRILLATION\nHYPERTENSION",
        "Past medical history:\n1. ATRIAL FIBRILLATION: on apixaban\n2. Gout",
    ],
)
def test_diseases_in_capitals_are_not_headings(text):
    headings = list(find_headings(text, read_headings("en")))
    assert [heading.section for heading in headings] == ["past_history"]
