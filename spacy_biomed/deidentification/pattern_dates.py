"""Patterns of dates and ages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from .surrogate_dates import MONTHS, find_month, one_of
from .term_lists import normalize

_MONTH = {language: rf"(?P<name>{one_of({language: MONTHS[language]})})" for language in MONTHS}
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_BEFORE, _AFTER = r"(?<![\w/.,-])(?<!\d )", r"(?![\w/-])(?![.,]\d)"
_DAY, _NUMBER = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})"
_FIRST, _SECOND = r"(?P<first>\d{1,2})", r"(?P<second>\d{1,2})"

# Forms with a year in numbers. All three numbers have the same sign between them.
_NUMERIC = (
    rf"{_BEFORE}{_FIRST}(?P<sign>\s?[/-]\s?|\.)\s?{_SECOND}(?P=sign)\s?{_YEAR}{_AFTER}",
    rf"{_BEFORE}{_YEAR}(?P<sign>[/.-]){_NUMBER}(?P=sign){_DAY}{_AFTER}(?!:)",
    rf"{_BEFORE}{_FIRST}(?P<sign>[/-]){_SECOND}(?P=sign)(?P<short_year>\d\d){_AFTER}",
    rf"{_BEFORE}(?P<month>\d{{1,2}})[/-]{_YEAR}{_AFTER}",
)
# Words before a month, or a year, that is a date by itself.
_CUES = {
    "en": r"in|since|until|till|during|from|by|of|early|late|mid|last|year|and|to",
    "es": r"en|desde|hasta|durante|mes de|a[ñn]o|a (?:principios|mediados|finales) de|y|a|de",
}
# What follows a number from 1900 to 2099 that is a quantity.
_NO_QUANTITY = (
    r"(?!\s?(?:%|[µμmk]?[glLUu]\b|m[gl]\b|UI\b|IU\b|mcg|cc\b|kcal|cal\b|cel|cop|cells|copies|pacient"
    r"|patient|c[ée]lulas|días|days|horas|hours|h\b|/))"
)
_WORDED = {
    "es": (
        rf"\b{_DAY}[º°]?(?:\s+de\s+|\s*[-/. ]\s*){{month}}\b"
        rf"(?:\.?(?:\s+del?\s+(?:año\s+)?|\s*[-/,. ]\s*){_YEAR})?",
        rf"\b{{month}}\b\.?(?:\s+del?\s+(?:año\s+)?|\s*[-/,. ]\s*){_YEAR}\b",
        rf"\b(?:{_CUES['es']})\s+(?P<value>{{month}})\b",
        rf"\b(?:en|desde|hasta|durante|a[ñn]o(?: de)?|del)\s+(?P<value>{_YEAR})"
        rf"{_AFTER}{_NO_QUANTITY}",
    ),
    "en": (
        rf"\b{_DAY}(?:st|nd|rd|th)?(?:\s+of)?[\s/-]*{{month}}\b(?:\.?[\s,/-]*{_YEAR})?",
        rf"\b{{month}}\b\.?\s+{_DAY}(?:st|nd|rd|th)?\b(?:,?\s+{_YEAR}\b)?",
        rf"\b{{month}}\b\.?[\s,/-]*(?:of\s+)?{_YEAR}\b",
        rf"\b(?:{_CUES['en']})\s+(?P<value>{{month}})\b",
        rf"\b(?:in|since|until|during|year|from)\s+(?P<value>{_YEAR}){_AFTER}{_NO_QUANTITY}",
    ),
}
_NUMERIC_FORMS = [re.compile(form) for form in _NUMERIC]
_WORDED_FORMS = {
    language: [
        re.compile(form.replace("{month}", _MONTH[language]), re.IGNORECASE) for form in forms
    ]
    for language, forms in _WORDED.items()
}

# Numbers and units of Spanish ages, which are in other patterns too.
COUNT = (
    r"(?:\d{1,3}|un[oa]?|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|trece|catorce|quince"
    r"|diecis[ée]is|diecisiete|dieciocho|diecinueve|veinte|veinti\w+|(?:treinta|cuarenta|cincuenta"
    r"|sesenta|setenta|ochenta|noventa)(?: y \w+)?)"
)
UNIT = r"(?:años?|meses|mes|semanas?|d[íi]as?)"
_UNITS = rf"{UNIT}(?:\s+y\s+(?:medio|{COUNT}\s+(?:meses|mes|semanas?|d[íi]as?)))?"
_PERSON = (
    r"paciente|var[óo]n|mujer|hombre|niñ[oa]|lactante|chic[oa]|joven|neonato|gestante|señora?"
    r"|reci[ée]n nacid[oa]|ancian[oa]|enferm[oa]|adolescente"
)
_AGES = {
    "es": (
        rf"\bedad(?: gestacional)?(?:\s+de\b|\s*:)?\s*(?P<value>{COUNT}\s*{_UNITS})\b",
        r"\bedad(?::\s*|\s+)(?P<value>\d{1,3}(?:\s+a)?)(?=\s*[.,;\n]|\s+sexo|\s*$)",
        rf"\b{COUNT}\s+{_UNITS}\s+de\s+edad\b",
        rf"\b(?:{_PERSON})(?:\s+\w+)?(?:\s*,\s*(?:de\s+)?|\s+de\s+)"
        rf"(?P<value>{COUNT}\s+{_UNITS})\b",
        rf"\b(?:tiene|tenía|cumpl\w+|contaba con)\s+(?P<value>{COUNT}\s+años)\b",
        rf"\b(?:desde|hasta)\s+los\s+(?P<value>{COUNT}\s+años)\b",
        # "a los 3 años de la cirugía" is a time.
        rf"\ba los\s+(?P<value>(?:{COUNT}\s+y\s+)?{COUNT}\s+años)\b"
        r"(?!\s+(?:de|del|tras|después|posterior)\b)",
        rf"\b(?:{_PERSON})\s+de\s+(?P<value>\d{{1,3}})(?=\s*[,.;])",
        rf"\b{COUNT}\s+{_UNITS}\s+de\s+vida\b",
    ),
    "en": (
        r"\baged?[:\s]+(?P<value>\d{1,3}(?:\s+(?:years?|months?|weeks?))?)\b(?!\s*[-%/])",
        r"\b\d{1,3}[\s-]+(?:years?|months?|weeks?|yrs?|y/?o)(?=[\s-]+old\b)",
    ),
}
_AGE_FORMS = {
    language: [re.compile(form, re.IGNORECASE) for form in forms]
    for language, forms in _AGES.items()
}


def find_dates(text: str, language: str) -> Iterator[tuple[re.Match[str], str]]:
    """Find dates whose day exists; months and years alone only after words such as "since"."""
    for form in (*_NUMERIC_FORMS, *_WORDED_FORMS[language]):
        for match in form.finditer(text):
            if _is_date(match, language):
                yield match, "date"


def find_ages(text: str, language: str) -> Iterator[tuple[re.Match[str], str]]:
    """Find numbers of years, months and so on that are called an age."""
    for form in _AGE_FORMS[language]:
        for match in form.finditer(text):
            yield match, "age"


def _is_date(match: re.Match[str], language: str) -> bool:
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    name = fields.get("name")
    if name is not None and "year" not in fields and not _is_clear(name, fields, language):
        return False
    year = int(fields.get("year", 2000))
    if "first" in fields:
        numbers = int(fields["first"]), int(fields["second"])
        return any(_exists(year, month, day) for day, month in (numbers, numbers[::-1]))
    month = find_month(name, language) if name is not None else int(fields.get("month", 1))
    return _exists(year, month, int(fields.get("day", 1)))


def _is_clear(name: str, fields: dict[str, str], language: str) -> bool:
    """Whether a month without a year is a month, and not another word ("may", "mar")."""
    is_full = normalize(name) in MONTHS[language][0].split()
    return is_full and (language == "es" or "day" in fields or name[0].isupper())


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True
