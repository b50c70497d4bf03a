import json
from pathlib import Path

import pytest

from spacy_biomed.notes import find_sentence_starts

STARTER = Path(__file__).parents[2] / "assets" / "starter_notes"


def split(text, language="en"):
    starts = find_sentence_starts(text, language)
    ends = [*starts[1:], len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Seen by Dr. Lee for pain"),
        ("en", "Aspirin 81 mg q.d. with food"),
        ("en", "Lesion (see Fig. 2) vs. artefact"),
        ("en", "E. coli in 0.05 ml"),
        ("es", "Enalapril 10 mg v.o. c/ 24 h"),
        ("es", "Remitido por la Dra. Gil por HTA"),
        ("es", "Dolor de 3 sem. de evolución"),
        ("en", "b. Rest and fluids"),
        ("en", "Impression: ? Pneumonia"),
        ("en", "Rash? No"),
        ("es", "Fiebre? SÍ, alta"),
        ("en", "Signed at 7 J. Doe"),
    ],
)
def test_an_abbreviation_does_not_end_a_sentence(language, text):
    assert split(text, language) == [text]


def test_full_stops_end_sentences_also_before_small_letters_and_without_a_space():
    assert split("No refiere fiebre. no vómitos.Niega disuria.", "es") == [
        "No refiere fiebre.",
        "no vómitos.",
        "Niega disuria.",
    ]


@pytest.mark.parametrize(
    ("language", "text"), [("en", "Rest for 7 d. See me again"), ("es", "Cada 8 h. Control mañana")]
)
def test_a_unit_of_one_letter_ends_a_sentence_before_a_capital(language, text):
    assert len(split(text, language)) == 2


@pytest.mark.parametrize("text", ["It reached c. 0.07 in roots", "See p. 12 of it", "J. Doe"])
def test_no_other_letter_ends_a_sentence(text):
    assert split(text, "en") == [text]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\u2028"])
def test_items_headings_and_rows_end_with_their_line(line_end):
    lines = ["PLAN", "- aspirin", "- losartan", "1. Rest.", "2. Walk", "Sodium\t138", "CRP\t4"]
    assert split(line_end.join(lines)) == lines


def test_the_end_of_a_wrapped_line_ends_no_sentence():
    text = (
        "He was admitted with three days of dyspnea and cough, and treated by\n"
        "Ortiz and colleagues in the intensive care unit for five days, after\n"
        "Nurse Hale had called.  The discharge was planned."
    )
    assert len(split(text)) == 2


def test_short_lines_are_no_wrapped_prose():
    lines = ["no fever", "no cough", "Aspirin 100 mg", "Losartan 50 mg"]
    assert split("\n".join(lines)) == lines


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        ("en", ["no longer takes aspirin 81 mg by mouth", "metoprolol 25 mg twice a day"]),
        ("en", ["Held warfarin 5 mg by mouth every day", "apixaban 5 mg twice a day"]),
        ("en", ["no chest pain or shortness of breath", "hypertension", "type 2 diabetes"]),
        ("es", ["sin dolor en el pecho ni palpitaciones", "diabetes mellitus con nefropatía"]),
        (
            "en",
            [
                "stopped warfarin 5 mg by mouth every evening at home",
                "losartan potassium 50 mg by mouth every morning",
                "calcium carbonate 500 mg tablet by mouth daily",
            ],
        ),
    ],
)
def test_each_line_of_a_list_in_small_letters_is_a_sentence(language, lines):
    assert split("\n".join(lines), language) == lines


@pytest.mark.parametrize(
    "text",
    [
        "denies any chest pain, fever, palpitations, cough and\nshortness of breath",
        "denies any chest pain, fever, palpitations or worsening\nshortness of breath at night, "
        "cough, and swelling of the\nlegs",
        "denies any chest pain, fever, palpitations, cough\nor shortness of breath",
    ],
)
def test_wrapped_prose_in_small_letters_is_one_sentence(text):
    assert split(text) == [text]


@pytest.mark.parametrize(("language", "least"), [("en", 0.98), ("es", 0.98)])
def test_no_line_of_the_starter_notes_is_joined_with_the_next(language, least):
    right = wrong = 0
    for line in (STARTER / f"{language}.jsonl").read_text(encoding="utf8").splitlines():
        note = json.loads(line)
        found, gold = set(find_sentence_starts(note["text"], language)), set(note["sentences"])
        assert gold <= found
        right, wrong = right + len(gold), wrong + len(found - gold)
    assert right / (right + wrong) >= least


@pytest.mark.parametrize("text", ["", " \n\t", "\n\n"])
def test_a_text_without_words_has_no_sentence(text):
    assert find_sentence_starts(text, "en") == []


def test_a_long_row_of_stops_takes_no_time_of_its_own():
    text = "Nombre ." + " ." * 200_000 + " Edad: 40"
    assert find_sentence_starts(text, "es") == [0, 9]
