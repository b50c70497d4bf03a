import base64
import doctest

import pytest

from spacy_biomed.deidentification import encoded_text
from spacy_biomed.deidentification.encoded_text import find_encodings, repair


def test_the_example_of_the_function():
    assert doctest.testmod(encoded_text).failed == 0


NOTE = "Paciente: José Núñez, ingresa por neumonía el lunes."


@pytest.mark.parametrize(
    ("text", "decoded", "how"),
    [
        (NOTE.encode("utf-7").decode(), NOTE, "UTF-7"),
        (NOTE.encode("utf-7").decode().replace("+", "&"), NOTE, "UTF-7"),
        (NOTE.encode("utf-16-le").decode("latin-1"), NOTE, "UTF-16"),
        (base64.b64encode(NOTE.encode()).decode().rstrip("="), NOTE, "Base64"),
        (base64.urlsafe_b64encode(NOTE.encode("cp1252")).decode(), NOTE, "Base64"),
        (base64.b64encode(NOTE.encode("utf-16-le")).decode(), NOTE, "Base64"),
        (base64.b32encode(NOTE.encode()).decode(), NOTE, "Base64"),
        (NOTE.encode().hex(), NOTE, "Base64"),
        (f"Adjunto:\n{base64.b64encode(NOTE.encode()).decode()}", f"Adjunto:\n{NOTE}", "Base64"),
        (f"=?utf-8?B?{base64.b64encode(NOTE.encode()).decode()}?=", NOTE, "words of a mail"),
        ("=?iso-8859-1?Q?Jos=E9_N=FA=F1ez?= alta", "José Núñez alta", "words of a mail"),
        ("Jos%E9 N%FA%F1ez, alta", "José Núñez, alta", "percent"),
        ("Jos%25C3%25A9%2520N%25C3%25BA%25C3%25B1ez", "José Núñez", "percent"),
        ("Jos%u00E9 N%u00FA%u00F1ez", "José Núñez", "escapes"),
        (r"Jos\'E9 N\u250?\u241 ez", "José Núñez", "escapes"),
        (r"Jos\u{e9} N<U+00FA>\0000f1ez", "José Núñez", "escapes"),
        (r"Jos\303\251 N\372\361ez", "José Núñez", "escapes"),
        (r"Jos<c3><a9> N\xc3\xba\xc3\xb1ez", "José Núñez", "escapes"),
        (r"Jos\\u00e9 Nu\\u00f1ez", "José Nuñez", "escapes"),
        ("José Núñez".encode().decode("cp1250"), "José Núñez", "UTF-8 read"),
        ("José Núñez".encode().decode("cp1251"), "José Núñez", "UTF-8 read"),
        ("Jos&eacute; Nu&ntilde;ez", "José Nuñez", "HTML entities"),
        ("Jos&#233; N&#xfa;&ntilde;ez", "José Núñez", "HTML entities"),
        ("Jos=C3=A9 N=C3=BA=C3=B1ez", "José Núñez", "quoted-printable"),
        ("Jos=E9 Ib=E1=\n=F1ez", "José Ibáñez", "quoted-printable"),
        ("JosÃ© NÃºÃ±ez", "José Núñez", "UTF-8 read as Latin-1"),
        ("Jos&#XE9; N&#XDA;&ntildeez", "José NÚñez", "HTML entities"),
        ("Jos&amp;eacute; Nu&amp;amp;#241;ez", "José Nuñez", "HTML entities"),
        ("Ana&nbsp;Ruiz", "Ana\xa0Ruiz", "HTML entities"),
        ("Jos=c3=a9 N=c3=ba=c3=b1ez", "José Núñez", "quoted-printable"),
        ("José Núñez".encode().decode("mac-roman"), "José Núñez", "UTF-8 read"),
        ("José Núñez".encode().decode("cp850"), "José Núñez", "UTF-8 read"),
        ("José Núñez".encode().decode("cp437"), "José Núñez", "UTF-8 read"),
        ("JosÃƒÂ© NÃƒÂºÃƒÂ±ez", "José Núñez", "UTF-8 read"),
        ("Jos%C3%A9%20N%C3%BA%C3%B1ez", "José Núñez", "percent"),
        ("Ana%20Ruiz%20tose%20hoy", "Ana Ruiz tose hoy", "percent"),
        (r"Jos\u00e9 N\xfa\u00f1ez", "José Núñez", "escapes"),
        (r"Jos\'e9 N\'fa\'f1ez", "José Núñez", "escapes"),
        (r"Jos\XC3A9\ N\XC3BA\ñez", "José Núñez", "escapes"),
        (
            "UGFjaWVudGUgQW5hIFJ1aXosIGRlIDQ1IGHDsW9z\nIGRlIGVkYWQu",
            "Paciente Ana Ruiz, de 45 años de edad.",
            "Base64",
        ),
        *(
            (text.encode(written).decode(read), text, "read in another encoding")
            for text in ["Médico: Núñez. Diagnóstico: neumonía de tres años."]
            for written, read in [
                ("cp1252", "cp850"),
                ("cp850", "cp1252"),
                ("mac-roman", "cp1252"),
                ("cp1252", "mac-roman"),
                ("cp1252", "cp1251"),
                ("cp1252", "cp1253"),
                ("mac-roman", "latin-1"),
            ]
        ),
        ("Eche-\rverría, Go\u00ad\nmez y Mon¬\ntes", "Echeverría, Gomez y Montes", "words hyphen"),
        ("Eche-\nverría, Go-\nmez y Mon-\ntes", "Echeverría, Gomez y Montes", "words hyphenated"),
    ],
)
def test_encoded_texts_are_found_and_decoded(text, decoded, how):
    assert find_encodings(text)[0].startswith(how)
    assert repair(text) == decoded
    assert find_encodings(decoded) == []


@pytest.mark.parametrize(
    "text",
    [
        "pH=7.35, Na=140, T=38",
        "hernia nivel=C5, dermatoma=D1 y L=C3",
        "R&D; TA < 120 &lt; 130",
        "São Paulo, Âmbar",
        "anti-\ninflamatorio",
        "mean±SD, x±y, 5±2 µg·kg; D’Angelo, l’Hospitalet – “sí” — 37°C, √2",
        "https://es.wikipedia.org/wiki/Le%C3%B3n y http://a.org/Ring%2020%20a.pdf",
        "fiebre?no, tos?si, dolor?no, ¿alergias?sí",
        "omeprazol+AMOXICILINA, R&AM-2, A+AND, saturación 95%EC",
        "SHA-256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "secuencia ACGTACGTTAGCACGTACGTTAGCACGTACGTTAGCACGTACGTTAGC",
        r"C:\notas\303 y \u2264 o \\x41 <b3> <U>",
        "Miguel ¿viene? α-SMA, PDGFRα y β2",
    ],
)
def test_other_texts_stay(text):
    assert find_encodings(text) == []
    assert repair(text) == text


@pytest.mark.parametrize(
    "text", ["Jos� P�rez Mu�oz", "Mu?oz, a?os, m?dico, neumon?a", "N??ez, I?aki, G?mez"]
)
def test_letters_that_are_lost_are_found_and_stay(text):
    assert find_encodings(text)[0].startswith("letters lost")
    assert repair(text) == text
