"""Patterns of e-mail and web addresses, telephones and postal codes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import phonenumbers
from spacy.lang.lex_attrs import like_url

_Found = Iterator[tuple[re.Match[str], str]]

# An incomplete address ("name@hospital") is an address too: nothing else is written like it.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]*\w\s?@\s?\w[\w-]*(?:\s?\.\s?[a-z]\w+)*(?:\.\w+)*")
# Only what says that it is an address: in notes, "intervención.es" is two sentences.
_URL = re.compile(r"\b(?:(?:https?|ftp)://|www\.)[^\s<>\"']*[\w/]", re.IGNORECASE)

_SEPARATED = r"(?:[\s().\-–/]{0,3}\d)"
_REGIONS = {"es": "ES", "en": "US"}
_DIGITS = {"es": 8, "en": 9}
_PHONES = {
    language: re.compile(
        rf"(?<![\w.,/-])(?:\+\s?|\()?\d{_SEPARATED}{{{count},13}}(?![\w/-])(?![.,]\d)"
    )
    for language, count in _DIGITS.items()
}
# Written as the numbers of North America are, whether the area exists or not.
_US_FORM = re.compile(r"(?:\+?1[\s.-]?)?(?:\(\d{3}\)\s?|\d{3}[.-])\d{3}[.-]\d{4}")
_FAX_CUES = {"es": r"fax", "en": r"fax"}
_PHONE_CUES = {
    "es": r"tel[eé]fonos?|tel[eé]f|telf|tel|tfnos?|tfn|tlfnos?|tlfn|tlf|m[óo]vil|busca|contacto",
    "en": r"telephone|phone|tel|pager|beeper|cell|mobile|call|contact|ext",
}


def _after(cue: str) -> re.Pattern[str]:
    """A number of six digits or more after a word such as "tel."."""
    value = rf"(?P<value>(?:\+\s?|\()?\d{_SEPARATED}{{5,14}})(?!\d)"
    return re.compile(rf"\b(?:{cue})\b\.?(?:\s*n[ºo°]?\.?)?\s*[:.]?\s*{value}", re.IGNORECASE)


_FAXES_BY_CUE = {language: _after(cue) for language, cue in _FAX_CUES.items()}
_PHONES_BY_CUE = {language: _after(cue) for language, cue in _PHONE_CUES.items()}

_SPANISH_CODE = r"(?:0[1-9]|[1-4]\d|5[0-2])\d{3}"
_STATES = (
    "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ "
    "NM NY NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY"
)
_POSTAL_CODES = {
    "es": (
        re.compile(r"\b(?:C\.?\s?P\.?|c[óo]digo postal)[\s:.]*(?P<value>\d{5})\b", re.IGNORECASE),
        # Between the end of an address and a town: a laboratory value has its name before it.
        re.compile(
            rf"(?:^|[\n,.;()–-])[ \t]*(?P<value>{_SPANISH_CODE})(?=[ \t,.–-]+[A-ZÁÉÍÓÚÑ][a-zà-ÿ])"
        ),
    ),
    "en": (
        re.compile(rf"\b(?:{'|'.join(_STATES.split())})\.?,?\s+(?P<value>\d{{5}}(?:-\d{{4}})?)\b"),
        re.compile(r"\bzip(?: code)?[\s:]*(?P<value>\d{5}(?:-\d{4})?)\b", re.IGNORECASE),
        # British: the letters C, I, K, M, O and V never come last, so "B12 5MG" is none.
        re.compile(
            r"\b(?:[A-PR-UWYZ]\d{1,2}|[A-PR-UWYZ][A-HK-Y]\d{1,2}|[A-PR-UWYZ]\d[A-HJKPSTUW]|"
            r"[A-PR-UWYZ][A-HK-Y]\d[A-Z]) \d[ABD-HJLNP-UW-Z]{2}\b"
        ),
    ),
}


def find_emails(text: str, language: str) -> _Found:
    """Find e-mail addresses, also with a space beside the @."""
    if "@" in text:
        for match in _EMAIL.finditer(text):
            yield match, "email"


def find_urls(text: str, language: str) -> _Found:
    """Find web addresses that begin with a protocol or www."""
    for match in _URL.finditer(text):
        if like_url(match[0]):
            yield match, "url"


def find_phones(text: str, language: str) -> _Found:
    """Find numbers that are in use in the language's country, or are called a telephone or fax."""
    for forms, pattern in ((_FAXES_BY_CUE, "fax"), (_PHONES_BY_CUE, "phone")):
        for match in forms[language].finditer(text):
            yield match, pattern
    for match in _PHONES[language].finditer(text):
        if (language == "en" and _US_FORM.fullmatch(match[0])) or _is_in_use(match[0], language):
            yield match, "phone"


def find_postal_codes(text: str, language: str) -> _Found:
    """Find postal codes beside the name of a town or state, or called so; British ones anywhere."""
    for form in _POSTAL_CODES[language]:
        for match in form.finditer(text):
            yield match, "postal_code"


def _is_in_use(number: str, language: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(number, _REGIONS[language]))
    except phonenumbers.NumberParseException:
        return False
