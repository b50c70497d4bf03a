import pytest

from spacy_biomed.errors import escape, quote


@pytest.mark.parametrize(
    "character", ["\r", "\n", "\x1b", "\0", "\u202e", "\u2066", "\ud800", "\x85"]
)
def test_what_cannot_be_seen_is_written_as_an_escape(character):
    assert quote(f"a{character}b") == f"'a{ascii(character)[1:-1]}b'"


def test_a_quotation_has_at_most_eighty_characters():
    assert quote("ü" * 80) == f"'{'ü' * 80}'"
    assert quote("ü" * 1_000_000) == f"'{'ü' * 79}…'"
    assert len(quote("\x1b" * 1000)) == 82


def test_values_of_any_size_are_quoted_in_a_few_characters():
    number = 10**5000
    for value in (number, -number, [number], {"a": [number]}, [[]] * 10**5, {"a": "x" * 10**6}):
        assert len(quote(value)) <= 80


def test_a_value_of_any_depth_is_quoted():
    value = []
    for _ in range(100_000):
        value = [value]
    assert quote(value) == "[[[...]]]"


def test_ordinary_values_are_quoted_as_they_are():
    assert [quote(value) for value in ("Crohn's", "a b", 12, None, [1, "a"], 1.5)] == [
        '"Crohn\'s"',
        "'a b'",
        "12",
        "None",
        "[1, 'a']",
        "1.5",
    ]


def test_a_line_is_cut_at_its_limit():
    assert escape("tumour", 6) == "tumour"
    assert escape("tumours", 6) == "tumou…"
