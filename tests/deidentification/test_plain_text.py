import pytest

from spacy_biomed.deidentification.pattern_matches import find_patterns
from spacy_biomed.deidentification.plain_text import PlainText


@pytest.mark.parametrize(
    ("original", "plain"),
    [
        ("Marta  Ochoa\u00a0Ruiz\tGil", "Marta Ochoa Ruiz Gil"),
        ("Mar\u00adta O\u200bchoa\u2060", "Marta Ochoa"),
        ("Jose\u0301 Pen\u0303a", "José Peña"),
        ("12\u201103\u20112019", "12-03-2019"),
        ("М\u0430rt\u0430", "Marta"),
        ("M a r t a   O c h o a vino", "Marta Ochoa vino"),
        ("Eche-\nverría", "Echeverría"),
        ("el paciente\nvino", "el paciente vino"),
        ("NHC 331\r\nMadre sana", "NHC 331\nMadre sana"),
        ("Sexo: M\nEdad: 40", "Sexo: M\nEdad: 40"),
        ("uno dos\n\ntres", "uno dos\n\ntres"),
    ],
)
def test_a_text_is_read_as_a_person_sees_it(original, plain):
    assert PlainText(original).text == plain


@pytest.mark.parametrize(
    "original", ["a\u200bb  c\r\nd", "Jose\u0301 a", "M a r t a x", "a-\nb \u00ad c"]
)
def test_places_come_back(original):
    plain = PlainText(original)
    for i, char in enumerate(plain.text):
        start, end = plain.to_original(i, i + 1)
        assert plain.to_plain(start, end) == (i, i + 1)
        assert char in (original[start], " ", "\n", "é")


@pytest.mark.parametrize("width", [40, 78])
def test_dates_and_names_are_found_where_lines_are_wrapped(width):
    import textwrap

    sentence = "El paciente Juan Echeverría Ruiz ingresó el 12 de marzo de 2019 por disnea y tos. "
    text = textwrap.fill(sentence * 6, width)
    found = [" ".join(text[start:end].split()) for start, end, _ in find_patterns(text, "es")]
    assert found.count("12 de marzo de 2019") == found.count("Juan Echeverría Ruiz") == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        "a ",
        "1 ",
        "- ",
        "-",
        "(",
        "Ana, ",
        "12/",
        "a-\n",
        " ",
        "Hospital de ",
        "C/ ",
        "1.",
        "|",
        "a-",
        "A'",
        "A-",
        "Ab&-",
    ],
)
def test_a_long_text_of_one_kind_takes_linear_time(part):
    """Twice the length may not take four times the steps: a quadratic form would need minutes."""
    find_patterns(part * (100_000 // len(part)), "es")
