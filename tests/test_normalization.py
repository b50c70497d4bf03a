"""What the encoder reads in place of a text, and which characters of the text that is."""

import time

import numpy as np
import pytest
import spacy

from spacy_biomed.corpora.tokenizer import create_tokenizer
from spacy_biomed.normalization import normalize_text

NOTE = "Paciente: Marta Ochoa Ibáñez, de 64 años, ingresa por dolor torácico."


def read(text):
    normalized = normalize_text(text)
    return text if normalized is None else normalized.text


@pytest.mark.parametrize(
    "text",
    [
        NOTE,
        "EGFR and KRAS were sequenced; BRCA1, BRCA2, MLH1 and MSH2 were not.",
        "Nombre: Ana.\nApellidos: Ruiz.\n\nMotivo: disnea",
        "Paciente de 64 años con adenocarcinoma\nTAC craneal normal, sin lesiones focales\nTos",
        "TNFα, β-catenin y 10 µg/ml: x ≥ 3 · H₂O",
        "",
    ],
)
def test_a_text_as_corpora_print_it_stays(text):
    assert normalize_text(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Marta  Ochoa\tIbáñez", "Marta Ochoa Ibáñez"),
        ("Marta\u00a0Ochoa\u2009Ibáñez", "Marta Ochoa Ibáñez"),
        ("Mar\u00adta O\u200bchoa \u2060Ibá\u200dñez", "Marta Ochoa Ibáñez"),
        ("Iba\u0301n\u0303ez", "Ibáñez"),
        ("IL\u20102 y 3\u20135 \u2212 ‘a’ “b”", "IL-2 y 3-5 - 'a' \"b\""),
        ("Ｍａｒｔａ y ﬁbrosis", "Marta y fibrosis"),
        ("M\u0430rt\u0430 \u041echoa", "Marta Ochoa"),
        ("  Ana \r\n  Ruiz\r\n", "Ana\nRuiz\n"),
        ("Iba-\nñez y adeno\u00ad\r\ncarcinoma", "Ibañez y adenocarcinoma"),
        ("PACIENTE CON CÁNCER DE COLON, BRCA1 +", "paciente con cáncer de colon, BRCA1 +"),
        ("Ingresa MARTA OCHOA con tos.", "Ingresa Marta Ochoa con tos."),
        ("Firmado por la doctora: OCHOA, MARTA.", "Firmado por la doctora: Ochoa, Marta."),
        (
            "Refiere dolor torácico desde hace días\nque cede con reposo.",
            "Refiere dolor torácico desde hace días que cede con reposo.",
        ),
        (
            "Colombian families with the severe form of\n"
            "MPS IVA were studied, and the mutations of\n"
            "GALNS (and no other gene) were found in\nall",
            "Colombian families with the severe form of MPS IVA were studied, and the mutations of "
            "GALNS (and no other gene) were found in all",
        ),
    ],
)
def test_what_carries_no_meaning_is_read_as_corpora_print_it(text, expected):
    assert read(text) == expected


def test_a_line_in_capitals_is_read_in_small_letters_within_a_note():
    note = "ANTECEDENTES: DIABETES MELLITUS TIPO II.\nRefiere disnea de esfuerzo desde hace años."
    assert read(note).splitlines()[0] == "antecedentes: diabetes mellitus tipo ii."


@pytest.mark.parametrize(
    "text",
    [
        "aspirin 81 mg by mouth every day\nmetoprolol 25 mg twice a day",
        "Medications:\ncalcium carbonate 500 mg by mouth daily\ndigoxin 125 mcg by mouth daily",
        "Tratamiento: enalapril 10 mg cada 24 horas\nmetformina 850 mg cada 12 horas",
        "worsening chronic kidney disease\nhypertension and hyperlipidemia",
        "left leg swelling for three days now\nright sided chest pain today\nfever and chills",
    ],
)
def test_a_list_in_small_letters_is_no_wrapped_prose(text):
    assert normalize_text(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "denies chest pain, fever and shortness of\nbreath",
        "admitted with cough and shortness of breath,\nfever and chills",
        "afebril. refiere dolor lumbar y disuria leve\ndesde ayer",
        "He took aspirin 81 mg every morning and\nmetoprolol 25 mg at night",
    ],
)
def test_prose_in_small_letters_is_read_as_one_line(text):
    assert read(text) == text.replace("\n", " ")


def test_a_cyrillic_word_stays():
    assert normalize_text("Пациент Мария") is None


@pytest.mark.parametrize("insert", ["\u00ad", "\u200b", "  ", "\n"])
def test_each_character_knows_what_it_stands_for(insert):
    text = insert.join(NOTE)
    normalized = normalize_text(text)
    for character, start, end in zip(
        normalized.text, normalized.starts, normalized.ends, strict=True
    ):
        # Spaces and line ends may stand for each other; every other character is itself.
        assert character.isspace() or character[0] in text[start:end]
    assert np.all(np.diff(normalized.starts) >= 0)
    assert np.all(normalized.starts < normalized.ends)


def test_tokens_are_the_words_of_the_new_text():
    nlp = spacy.blank("es")
    nlp.tokenizer = create_tokenizer()(nlp)
    doc = nlp("MAR\u00adTA  OCHOA \u200b ingresa Iba-\nñez")
    words = normalize_text(doc.text).words_of(doc)
    assert [word for word in words if word][:3] == ["Marta", "Ochoa", "ingresa"]
    read = dict(zip([token.text for token in doc], words, strict=True))
    assert read["Iba"] == "Ibañez"
    assert read["ñez"] == read["\n"] == read["-"] == ""


def test_tokens_without_anything_between_them_are_no_parts_of_a_word():
    nlp = spacy.blank("es")
    nlp.tokenizer = create_tokenizer()(nlp)
    doc = nlp("G3pT2N0M0  G2")
    assert normalize_text(doc.text).words_of(doc) == ["G3", "pT2N0M0", "", "G2"]


def test_characters_that_cannot_be_seen_do_not_split_words():
    nlp = spacy.blank("es")
    nlp.tokenizer = create_tokenizer()(nlp)
    assert [token.text for token in nlp("Mar\u00adta O\u200bchoa")] == [
        "Mar\u00adta",
        "O\u200bchoa",
    ]


def test_a_long_line_takes_no_time_of_its_own():
    line = "One " + "word " * 200_000
    assert normalize_text(f"{line}end\nNew") is None
    assert normalize_text(f"{line}end\nnew").text == f"{line}end new"


@pytest.mark.parametrize(
    "text",
    [
        f"{'seen in clinic today ' * 60_000}\nACUTE RENAL\n{'ABC 123 ' * 50_000}",
        f"a code of {'9' * 20_000} with\naspirin 100 mg daily",
    ],
)
def test_codes_and_digits_take_no_quadratic_time(text):
    start = time.perf_counter()
    normalize_text(text)
    assert time.perf_counter() - start < 20
