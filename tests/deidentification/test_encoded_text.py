import doctest

import pytest

from spacy_biomed.deidentification import encoded_text
from spacy_biomed.deidentification.encoded_text import find_encodings, repair


def test_the_example_of_the_function():
    assert doctest.testmod(encoded_text).failed == 0


@pytest.mark.parametrize(
    ("text", "decoded", "how"),
    [
        ("Jos&eacute; Nu&ntilde;ez", "José Nuñez", "HTML entities"),
        ("Jos&#233; N&#xfa;&ntilde;ez", "José Núñez", "HTML entities"),
        ("Jos=C3=A9 N=C3=BA=C3=B1ez", "José Núñez", "quoted-printable"),
        ("Jos=E9 Ib=E1=\n=F1ez", "José Ibáñez", "quoted-printable"),
        ("JosÃ© NÃºÃ±ez", "José Núñez", "UTF-8 read as Latin-1"),
        ("Eche-\nverría, Go-\nmez y Mon-\ntes", "Echeverría, Gomez y Montes", "words hyphenated"),
    ],
)
def test_encoded_texts_are_found_and_decoded(text, decoded, how):
    assert find_encodings(text)[0].startswith(how)
    assert repair(text) == decoded
    assert find_encodings(decoded) == []


@pytest.mark.parametrize(
    "text",
    ["pH=7.35, Na=140, T=38", "R&D; TA < 120 &lt; 130", "São Paulo, Âmbar", "anti-\ninflamatorio"],
)
def test_other_texts_stay(text):
    assert find_encodings(text) == []
    assert repair(text) == text
