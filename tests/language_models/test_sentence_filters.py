"""Noisy and ill-formed sentences."""

import time
from string import ascii_lowercase

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.sentences import RULES, SentenceFilter, Thresholds

WORDS = [f"be{a}{b}" for a in ascii_lowercase for b in ascii_lowercase]

# Sentences that break the rule, and similar sentences that just do not.
EXAMPLES = {
    "broken_encoding": (
        [
            "El paciente presentÃ³ fiebre y tos.",
            "The dose was 5 Âµg a day.",
            "The patient\ufffds fever went down.",
            "Itâ€™s not a tumour of the lung.",
            "\uf0b7 Treatment with aspirin was begun.",
            "It was\x00 a tumour of the lung.",
        ],
        ["SÃO Paulo has ten hospitals of this kind.", "Â is a letter in French."],
    ),
    "markup": (
        [
            "The <b>dose</b> was raised to ten.",
            "See the figure<br/> of the heart.",
            "Fever &amp; pain were found in ten.",
            "The rate \\frac{a}{b} was lower than before.",
            "It was p { color: red } in the end.",
        ],
        ["The rate was 3 < x and y > 2 in both.", "It was in the set {1, 2} of the whole."],
    ),
    "address": (
        ["See http://a.org for it all.", "See www.a.org for more.", "Write to ana@mail.es again."],
        ["It was measured @ 37 degrees again."],
    ),
    "repeated_characters": (
        ["Introduction ...... page seven of it", "It was noooooo tumour at all."],
        ["The sum was 1000000 of all cells.", "Wait ..... for the next result."],
    ),
    "too_many_digits": (
        ["Room 1234 56 had beds.", "NHC: 123456 78."],
        ["In 2004 ten were ill again."],
    ),
    "too_many_symbols": (
        ["A + (b) = [c] * d;", "HER2 (+++) and ER (-) and PR (+)."],
        ["It (was) seen here [2]."],
    ),
    "too_few_letters": (
        ["abc1, de23; e5-g at 7.8."],
        ["T4 (1.2) and T3 (3.4) fell again."],
    ),
    "too_short": (["Results.", "Ten days.", "Ten grams 10."], ["No metastasis found."]),
    "too_long": ([" ".join(WORDS[:251])], [" ".join(WORDS[:250])]),
    "long_word": (
        ["The sequence was " + "acgt" * 15 + "a again."],
        ["The sequence was " + "acgt" * 15 + " again."],
    ),
    "all_capitals": (
        ["ALL OF THEM WERE ILL.", "DO NOT COPY or PRINT THIS."],
        ["MRI AND PET.", "HIV, HBV, HCV were not found."],
    ),
    "repeated_words": (
        ["home care home care home care home care home care"],
        ["home care work home care work home care work here now"],
    ),
    "unbalanced": (
        ["The dose was (5 mg a day.", "It was seen before].", "It (was (seen) before."],
        [
            "It a) rose and b) fell again.",
            "The range [0, 1) was left out.",
            "It (was) all seen here [2].",
        ],
    ),
    "cut_off": (
        ["The dose was raised to...", "The dose was raised to…", "It was found in aspirin,"],
        ["The symptoms were as follows:", "The dose was raised", "It was then ... raised."],
    ),
}


@pytest.fixture(scope="module")
def english():
    return SentenceFilter("en", Thresholds())


def test_every_rule_has_examples():
    assert list(EXAMPLES) == list(RULES)


@pytest.mark.parametrize(
    ("rule", "sentence"), [(rule, s) for rule, (bad, _) in EXAMPLES.items() for s in bad]
)
def test_noise_counts_for_its_rule(english, rule, sentence):
    assert english.broken_rule(sentence) == rule


@pytest.mark.parametrize("sentence", [s for _, good in EXAMPLES.values() for s in good])
def test_what_only_resembles_noise_passes(english, sentence):
    assert english.broken_rule(sentence) is None


@pytest.mark.parametrize(
    "sentence",
    [
        "Serum sodium was 142 mmol/l, potassium 4.1 mmol/l, and creatinine 1.2 mg/dl.",
        "Mutations of BRCA1 (c.68_69delAG) and TP53 were found in 12 of 61 families.",
        "Se observó una masa de 14 x 10 x 13 cm en el lóbulo inferior derecho.",
        "¿Qué dosis se administró? Paracetamol 500 mg/8 h.",
    ],
)
def test_sentences_of_medicine_pass(english, sentence):
    assert english.broken_rule(sentence) is None


def test_a_sentence_counts_for_the_first_rule_that_it_breaks(english):
    assert english.broken_rule("<p>......") == "markup"
    assert english.broken_rule("...... 12") == "repeated_characters"
    assert english.broken_rule("12 345.") == "too_many_digits"


@pytest.mark.parametrize("text", ["{;" * 50_000, "{" + ";:" * 50_000, "<a " * 50_000, "(" * 50_000])
def test_what_is_no_sentence_takes_no_quadratic_time(english, text):
    start = time.process_time()
    assert english.broken_rule(text) == "too_long"
    assert english.broken_rule(text[:19_999]) is not None
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("threshold", "value", "sentence", "rule"),
    [
        ("min_words", 5, "No metastasis was found.", "too_short"),
        ("max_words", 3, "No metastasis was found.", "too_long"),
        ("max_word_length", 9, "No metastasis was found.", "long_word"),
        ("max_digits", 0.1, "All 12 were ill.", "too_many_digits"),
        ("max_symbols", 0.05, "They were, then, ill.", "too_many_symbols"),
        ("min_letters", 0.99, "They were all ill.", "too_few_letters"),
        ("max_repeats", 1, "They were all here.", "repeated_characters"),
        ("max_capitals", 0.05, "They were here again.", "all_capitals"),
        ("capitals_from", 3, "MRI AND PET.", "all_capitals"),
        ("min_distinct", 0.95, "it is as it was and as it had been", "repeated_words"),
        ("distinct_from", 4, "so so so so", "repeated_words"),
    ],
)
def test_thresholds_move_the_rules(english, threshold, value, sentence, rule):
    assert english.broken_rule(sentence) is None
    moved = SentenceFilter("en", Thresholds(**{threshold: value}))
    assert moved.broken_rule(sentence) == rule


def test_a_long_sentence_has_a_stop_word_of_its_language(english):
    listing = "aspirin ibuprofen codeine morphine " * 4
    assert english.lacks_stop_words(listing)
    assert not english.lacks_stop_words(f"{listing} and naloxone")
    assert SentenceFilter("es", Thresholds()).lacks_stop_words(f"{listing} and naloxone")
    short = "aspirin ibuprofen codeine"
    assert not english.lacks_stop_words(short)
    assert SentenceFilter("en", Thresholds(stop_words_from=3)).lacks_stop_words(short)
    norwegian = SentenceFilter("nn", Thresholds())  # spaCy has none of its stop words
    assert not norwegian.lacks_stop_words(f"{listing} og naloxon")


def test_an_unknown_language_is_bad_input():
    with pytest.raises(BiomedError, match="spaCy knows no language 'klingon'"):
        SentenceFilter("klingon", Thresholds())
