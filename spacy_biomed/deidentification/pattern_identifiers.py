"""Patterns of identifiers of people, with check digits where they have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from stdnum import iban, luhn
from stdnum.es import dni, nie
from stdnum.gb import nhs
from stdnum.us import ssn

_Check = Callable[[str], bool]

# Digits in groups, and letters joined to them. That it has some digits is checked afterwards.
_VALUE = (
    r"(?P<value>(?:[A-Z]{1,4}[-/ ]?)?\d(?:[-/. ]?\d|[-/]?[A-Z](?![a-zà-ÿ]))*)"
    r"(?!\w)(?!\s?[%/]|[.,]\d)"
)
_FEWEST_DIGITS = 4
_SIGNS = r"[\s:.#ºª°-]*"
# The words that introduce an identifier. After them, a value needs no right check digits: in notes
# many are mistyped.
_CUES = {
    "es": {
        "record": r"NHC|N\.H\.C|(?:n[ºo°.]*\s*(?:de\s+)?)?h(?:istoria|\.ª|ª|ist\.)\s*"
        r"(?:cl[íi]nica|cl[íi]n?\.)"
        r"|historia n[ºo°.]*|expediente|HC",
        "insurance": r"NASS|NUSS|n[ºo°.]*\s*(?:de\s+)?(?:afiliaci[óo]n|seguridad social|s\.?\s?s\b)"
        r"|seguridad social|afiliaci[óo]n|p[óo]liza|aseguramiento",
        "national_id": r"DNI|D\.N\.I|NIF|N\.I\.F|NIE|CIF|pasaporte|CIPA?|TSI|SIP|NUHSA"
        r"|tarjeta sanitaria|documento nacional de identidad|c[ée]dula",
        "license": r"n[ºo°.]*\s*(?:de\s+)?col(?:egiad[oa])?|colegiad[oa](?:\s+n[ºo°.]*)?"
        r"|n[ºo°]?col",
        "encounter": r"episodio|n[ºo°.]*\s*(?:de\s+)?(?:ingreso|episodio|urgencias)|CIAS",
    },
    "en": {
        "record": r"MRN|medical record(?: (?:number|no))?|chart(?: (?:number|no))"
        r"|hospital (?:number|no)|patient (?:id|number|no)|unit (?:number|no)|record (?:number|no)",
        "insurance": r"NHS(?: (?:number|no))?"
        r"|(?:insurance|policy|member|medicare|medicaid|health plan)(?: (?:id|number|no))|HICN|MBI",
        "national_id": r"SSN|social security(?: (?:number|no))?|passport(?: (?:number|no))?|"
        r"driver'?s? licen[cs]e(?: (?:number|no))?",
        "license": r"NPI|DEA(?: (?:number|no))?|GMC(?: (?:number|no))?"
        r"|(?:medical )?licen[cs]e (?:number|no)",
        "encounter": r"accession(?: (?:number|no))?|encounter(?: (?:id|number|no))?"
        r"|visit (?:id|number|no)|account (?:number|no)",
    },
}
_BY_CUE = {
    language: {
        pattern: re.compile(
            rf"(?<!\w)(?i:{cue})(?!\w){_SIGNS}(?i:n[úu]mero|number|no)?{_SIGNS}{_VALUE}"
        )
        for pattern, cue in cues.items()
    }
    for language, cues in _CUES.items()
}


def is_social_security_number(number: str) -> bool:
    """Whether the check digits of a Spanish social security number (NUSS, NAF) are right.

    The last two of the twelve digits are those before them modulo 97; where the number after the
    province has a leading zero, that zero does not count.

    Examples:
        >>> is_social_security_number("28 12345678 40"), is_social_security_number("28 12345678 41")
        (True, False)
    """
    digits = re.sub(r"\D", "", number)
    if len(digits) != 12:
        return False
    province, serial, check = digits[:2], digits[2:10], int(digits[10:])
    base = province + (serial[1:] if serial.startswith("0") else serial)
    return int(base) % 97 == check


def _is_dni(number: str) -> bool:
    return dni.is_valid(number.replace(".", ""))


def _is_card(number: str) -> bool:
    return luhn.is_valid(re.sub(r"\D", "", number))


_GROUPED = r"(?<![\w.,/-])(?<!\d )"
_END = r"(?![\w/-])(?![.,]\d)"
_WITH_CHECKS: dict[str, list[tuple[str, re.Pattern[str], _Check]]] = {
    "es": [
        (
            "national_id",
            re.compile(rf"{_GROUPED}\d\d?\.?\d{{3}}\.?\d{{3}}[ -]?[A-Za-z]{_END}"),
            _is_dni,
        ),
        (
            "national_id",
            re.compile(rf"{_GROUPED}[XYZxyz][ -]?\d{{7}}[ -]?[A-Za-z]{_END}"),
            nie.is_valid,
        ),
        (
            "insurance",
            re.compile(rf"{_GROUPED}\d\d[ /-]?\d{{8}}[ /-]?\d\d{_END}"),
            is_social_security_number,
        ),
    ],
    "en": [
        ("national_id", re.compile(rf"{_GROUPED}\d{{3}}-\d\d-\d{{4}}{_END}"), ssn.is_valid),
        (
            "insurance",
            re.compile(rf"{_GROUPED}\d{{3}}[ -]?\d{{3}}[ -]?\d{{4}}{_END}"),
            nhs.is_valid,
        ),
    ],
}
_EVERYWHERE: list[tuple[str, re.Pattern[str], _Check]] = [
    (
        "account",
        re.compile(r"\b[A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        iban.is_valid,
    ),
    ("account", re.compile(rf"{_GROUPED}[3-6]\d{{3}}(?:[ -]?\d{{4}}){{3}}{_END}"), _is_card),
    ("account", re.compile(rf"{_GROUPED}3[47]\d\d[ -]?\d{{6}}[ -]?\d{{5}}{_END}"), _is_card),
]


def find_identifiers(text: str, language: str) -> Iterator[tuple[re.Match[str], str]]:
    """Find identifiers whose check digits are right, or that a word such as "NHC" introduces."""
    for pattern, form, is_valid in (*_EVERYWHERE, *_WITH_CHECKS[language]):
        for match in form.finditer(text):
            if is_valid(match[0]):
                yield match, pattern
    for pattern, form in _BY_CUE[language].items():
        for match in form.finditer(text):
            if sum(map(str.isdigit, match["value"])) >= _FEWEST_DIGITS:
                yield match, pattern
