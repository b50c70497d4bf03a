import time

import pytest

from spacy_biomed.annotations.abbreviations import abbreviate_binomial, find_abbreviations


def pairs(text):
    return [
        (text[found.short_start : found.short_end], text[found.long_start : found.long_end])
        for found in find_abbreviations(text)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A transient ischemic attack (TIA) passed.", ("TIA", "transient ischemic attack")),
        ("hydrochlorothiazide [HCTZ; 5 mg]", ("HCTZ", "hydrochlorothiazide")),
        ("tumour necrosis factor-alpha ( TNF-a )", ("TNF-a", "tumour necrosis factor-alpha")),
        ("the heat shock protein 70 (Hsp 70)", ("Hsp 70", "heat shock protein 70")),
        ("carcinoma ductal infiltrante (CDI)", ("CDI", "carcinoma ductal infiltrante")),
    ],
)
def test_a_definition_is_found_with_its_long_form(text, expected):
    assert pairs(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "Twelve patients (43%) recovered.",
        "The drug was given (see table 2 for doses).",
        "Renal failure (XYZ) developed.",  # the letters do not occur
        "in an enzyme (MTHFR) of folate",
        "(TIA) alone",
        "TIA (TIA)",
        "p (p)",
        "stroke ()",
        "TIA (transient ischemic attack)",  # the reverse
        "transient (often ischemic) attack (TIA)",
        "transient\nischemic attack (TIA)",
    ],
)
def test_other_brackets_define_nothing(text):
    assert pairs(text) == []


def test_the_long_form_begins_with_the_first_letter_of_a_word():
    # The t of "acute" is inside a word.
    assert pairs("acute ischemic attack (TIA)") == []


def test_the_long_form_is_near_the_brackets():
    text = "transient " + "very " * 20 + "ischemic attack (TIA)"
    assert pairs(text) == []


def test_all_definitions_are_found_in_order():
    text = "magnetic resonance imaging (MRI) and computed tomography (CT)"
    assert [short for short, _ in pairs(text)] == ["MRI", "CT"]


@pytest.mark.parametrize("text", ["(" * 40_000, "a (b " * 10_000, "(AB)" * 10_000, "x" * 40_000])
def test_the_time_is_linear(text):
    start = time.process_time()
    list(find_abbreviations(text))
    single = time.process_time() - start
    start = time.process_time()
    list(find_abbreviations(text * 4))
    assert time.process_time() - start < 16 * max(single, 0.05)


def test_the_first_part_of_a_binomial_is_abbreviated():
    assert abbreviate_binomial("Escherichia coli") == "E. coli"


@pytest.mark.parametrize("name", ["E. coli", "mice", "Escherichia", "House Mouse", "De novo x"])
def test_other_names_are_no_binomials(name):
    assert abbreviate_binomial(name) is None
