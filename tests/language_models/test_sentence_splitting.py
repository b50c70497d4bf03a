"""Splitting text into sentences."""

import time

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.sentences import SentenceSplitter


@pytest.fixture(scope="module")
def english():
    return SentenceSplitter("en")


def test_a_text_is_split_where_sentences_end(english):
    text = 'Is it inherited ? Yes! It was 39 °C. It is "dominant." (See below.) IL-2 rose.'
    assert english.split(text) == [
        "Is it inherited ?",
        "Yes!",
        "It was 39 °C.",
        'It is "dominant."',
        "(See below.)",
        "IL-2 rose.",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "Lowe et al. 2000 saw 3.5 mg in Fig. 2 of vol. 7.",
        "Given i.v. by Dr. House, e.g. Monday at 5 p.m. Tuesday it was not.",
        "E. coli and S. Aureus grew at approx. 37 °C.",
        "The vein was tied (Smith 1999. See also p. 3. It is long.) early on.",
        "The tumour was 5 cm. in diameter.",
    ],
)
def test_a_full_stop_inside_a_sentence_does_not_split_it(english, sentence):
    assert english.split(sentence) == [sentence]


def test_abbreviations_are_those_of_the_language():
    text = "Lo vio la Dra. Ruiz aprox. 3 días."
    assert SentenceSplitter("es").split(text) == [text]
    assert SentenceSplitter("en").split(text) == ["Lo vio la Dra.", "Ruiz aprox. 3 días."]


def test_an_abbreviation_is_one_with_its_own_case_only(english):
    assert english.split("She had a mass. It grew. Ill. Mass. General did it.") == [
        "She had a mass.",
        "It grew.",
        "Ill. Mass. General did it.",
    ]


def test_a_parenthesis_that_is_never_closed_ends_sometime(english):
    text = "It rose (by half. " + "It fell. " * 200
    sentences = english.split(text)
    assert 1000 <= len(sentences[0]) < 1100
    assert set(sentences[1:]) == {"It fell."}


def test_a_blank_line_ends_a_sentence_and_a_line_break_is_white_space(english):
    text = "Case report\n\nA man of 60\nhad  pain. \n \nIt\twent."
    assert english.split(text) == ["Case report", "A man of 60 had pain.", "It went."]


@pytest.mark.parametrize("text", ["", " \n\n \t"])
def test_white_space_has_no_sentences(english, text):
    assert english.split(text) == []


@pytest.mark.parametrize(
    "text",
    ["." * 100_000, " " * 100_000, "\n" * 100_000, "a" * 100_000, "a. " * 30_000, "(a. B" * 20_000],
)
def test_what_is_no_text_takes_no_quadratic_time(english, text):
    start = time.process_time()
    english.split(f"It.{text}<")
    assert time.process_time() - start < 2


def test_no_character_but_white_space_is_lost(english):
    text = "A b. C (d. E) f?! “G.” h… I [2]. J… K."
    assert " ".join(english.split(text)) == text


def test_an_unknown_language_is_bad_input():
    with pytest.raises(BiomedError, match="spaCy knows no language 'xx9'"):
        SentenceSplitter("xx9")
