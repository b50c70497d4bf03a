import pytest
from spacy.strings import get_string_id

from spacy_biomed import BiomedError
from spacy_biomed.notes import CueMatcher, expand

GROUPS = {
    "negated forward": ["no", "no evidence of"],
    "negated backward 2": ["negative"],
    "uncertain forward": ["possible"],
    "family forward": ["mother"],
    "stop": ["but"],
    "stop negated forward": [","],
    "none": ["no increase"],
    "negated backward 1": ["no {¶,.}", "no ,"],
    "negated forward 0": ["isn't", "¶ -"],
    "between": ["clear", "ct"],
    "negated backward 9 item": ["stopped"],
}


def find(text, own=None):
    """The categories of the words in capitals, adjacent ones as one mention."""
    words = text.split()
    mentions = []
    for place, word in enumerate(words):
        if word.isupper() and word.isalpha() and mentions and mentions[-1][1] == place:
            mentions[-1] = (mentions[-1][0], place + 1)
        elif word.isupper() and word.isalpha():
            mentions.append((place, place + 1))
    matcher = CueMatcher(GROUPS, own or {}, str.split)
    sentences, number = [], 0
    for word in words:
        sentences.append(number)
        number += word == "."
    return matcher.find([get_string_id(word.lower()) for word in words], sentences, mentions)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no FEVER or COUGH", [{"negated"}, {"negated"}]),
        ("no FEVER but COUGH", [{"negated"}, set()]),
        ("no FEVER , COUGH", [{"negated"}, set()]),
        ("no FEVER . COUGH", [{"negated"}, set()]),
        ("no increase of PAIN", [set()]),
        ("TEST was negative", [{"negated"}]),
        ("TEST that was clearly negative", [set()]),
        ("TEST but negative", [set()]),
        ("mother no ASTHMA", [{"negated", "family"}]),
        ("no CHANGE", [{"negated"}]),
        ("no EVIDENCE OF X", [{"negated"}]),
        ("MOTHER with ASTHMA", [set(), {"family"}]),
        ("no clear evidence of X", [{"negated"}]),
        ("no clear increase of X", [set()]),
        ("clear ct X", [set()]),
        ("no sign of possible GOUT", [{"uncertain"}]),
        ("possible GOUT , no FEVER", [{"uncertain"}, {"negated"}]),
        ("no FEVER negative COUGH", [{"negated"}, {"negated"}]),
        ("FEVER", [set()]),
        ("FEVER : no", [{"negated"}]),
        ("FEVER : no . COUGH", [{"negated"}, set()]),
        ("FEVER no , COUGH no , PAIN", [{"negated"}, {"negated"}, set()]),
        ("FEVER no COUGH", [set(), {"negated"}]),
        ("isn’t ILL", [{"negated"}]),
        ("isn't so ILL", [set()]),
        ("ASPIRIN daily , METFORMIN stopped", [set(), {"negated"}]),
        ("GOUT , ASPIRIN and METFORMIN , stopped", [set(), {"negated"}, {"negated"}]),
        ("PAIN daily , FEVER negative", [set(), {"negated"}]),
        ("PAIN , FEVER , COUGH negative", [{"negated"}, {"negated"}, {"negated"}]),
        ("GOUT in PAIN , FEVER negative", [set(), set(), {"negated"}]),
        ("PAIN , which comes and goes , negative", [set()]),
        ("- ILL - FEVER . - COUGH", [{"negated"}, set(), {"negated"}]),
    ],
)
def test_scopes(text, found):
    assert find(text) == found


def test_own_terms_replace_terms_of_the_same_words():
    assert find("no FEVER", {"none": ["no"]}) == [set()]
    assert find("sin FEVER", {"negated forward": ["sin"]}) == [{"negated"}]


def test_a_stop_does_not_hide_a_cue_within_it():
    assert find("possible FEVER with no COUGH", {"stop": ["with no"]}) == [
        {"uncertain"},
        {"negated"},
    ]


@pytest.mark.parametrize("name", ["denied forward", "negated", "forward", "negated left", ""])
def test_an_unknown_group_is_refused(name):
    with pytest.raises(BiomedError, match="no group of cues"):
        CueMatcher({name: ["x"]}, {}, str.split)


def test_accents_do_not_count():
    matcher = CueMatcher({"negated forward": ["suspensión de"]}, {}, str.split)
    for words in (
        ["suspension", "de", "x"],
        ["suspensión", "de", "x"],
        ["suspensio\u0301n", "de", "x"],
    ):
        assert matcher.find(list(map(get_string_id, words)), [0] * 3, [(2, 3)]) == [{"negated"}]


def test_alternatives():
    assert expand("a {b,c d}") == ["a b", "a c d"]
    assert expand("plain") == ["plain"]
