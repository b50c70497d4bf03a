"""Patterns of identifiers of people and of what they own, some with check digits."""

from __future__ import annotations

import re
from collections.abc import Callable

from stdnum import iban, luhn
from stdnum.ar import cuit
from stdnum.cl import rut
from stdnum.es import ccc, dni, nie
from stdnum.gb import nhs
from stdnum.ie import pps
from stdnum.in_ import aadhaar
from stdnum.us import ssn

from .pattern_dates import is_compact_date
from .pattern_rules import Found, Rule, apply_rules, is_of_person, number, rule
from .plain_text import PlainText
from .term_lists import name_words

# Digits in groups, and letters joined to them.
_VALUE = (
    r"(?P<value>(?:[A-Z]{1,4}[-/ ]?|[a-z]{1,3}-?)?\d(?:[-/. ]?\d|[-/]?[A-Z](?![a-zà-ÿ])"
    r"|[a-z](?!\w))*)"
    r"(?!\w)(?![ ]?%|/(?! )|[ ]/[a-z]|[.,]\d)"
)
# Signs between the name of an identifier and its value, also of JSON and XML.
_SIGNS = r"[\s:.#ºª°\"'=>|_-]{0,8}"
# The words that introduce an identifier. After them, a value needs no right check digits: in notes
# many are mistyped.
_CUES = {
    "es": {
        "record": r"NHC|N\.H\.C|(?:n[ºo°.]*\s*(?:de\s+)?)?h(?:istoria|\.ª|ª|ist\.)\s*"
        r"(?:cl[íi]nica|cl[íi]n?\.)"
        r"|historia(?: n[ºo°.]*)?|expediente|HC|(?:id|num|n[ºo°.]*)[_ ]?(?:de[l_ ])?(?:paciente"
        r"|historia)"
        r"|idpaciente|numhistoria|patient_?id|MRN",
        "insurance": r"NASS|NUSS|n[ºo°.]*\s*(?:de\s+)?(?:afiliaci[óo]n|seguridad social|s\.?\s?s\b)"
        r"|seguridad social|afiliaci[óo]n|p[óo]liza|aseguramiento",
        "national_id": r"DNI|D\.N\.I|NIF|N\.I\.F|NIE|CIF|pasaporte|CIPA?|TSI|SIP|NUHSA|RUT|RUN"
        r"|CUI[TL]"
        r"|CURP|RFC|C\.?I(?=[:.]| n)"
        r"|tarjeta sanitaria|documento nacional de identidad|c[ée]dula",
        "license": r"n[ºo°.]*\s*(?:de\s+)?col(?:egiad[oa])?|colegiad[oa](?:\s+n[ºo°.]*)?"
        r"|n[ºo°]?col",
        "encounter": r"episodio|n[ºo°.]*\s*(?:de\s+)?(?:ingreso|episodio|urgencias)|CIAS|icu",
        "account": r"cuenta(?: corriente| bancaria)?|n[ºo°.]*\s*(?:de\s+)?cuenta|IBAN",
    },
    "en": {
        "record": r"MRN?|medical record(?: (?:number|no))?|chart(?: (?:number|no))"
        r"|(?:hosp(?:ital)?\.?|patient|unit|record|case|file|chart|ref(?:erence)?|study|subject"
        r"|enrol?lment)"
        r" (?:id|number|no|num|ref(?:erence)?)|URN?|FIN|CSN|EMPI|NHI|CHI|subject|participant",
        "insurance": r"NHS(?: (?:number|no))?"
        r"|(?:insurance|policy|member|medicaid|health plan|claim|group|authori[sz]ation)"
        r"(?: (?:id|number|no))|medicare(?: (?:card|id|number|no))*|HICN|MBI",
        "national_id": r"SSN|social security(?: (?:number|no))?|passport(?: (?:number|no))?|"
        r"(?:driver'?s?|driving) licen[cs]e(?: (?:number|no))?|(?:DL|DLN)(?=[ ]?#|[ ]no)|state id"
        r"|NI(?:NO)?(?: (?:number|no))?|national insurance(?: (?:number|no))?|PPSN?|PPS no|SIN|TFN"
        r"|Aadhaa?r(?: (?:number|no))?|PAN(?: (?:card|number|no))|visa (?:number|no)|CURP|RUT",
        "license": r"NPI|DEA(?: (?:number|no))?|(?:GMC|NMC|HCPC|GPhC|AHPRA)(?: (?:number|no|pin"
        r"|reg))?"
        r"|(?:medical |RN |nursing )?lic(?:en[cs]e)? ?(?:number|no|(?=#))"
        r"|(?:employee|staff|badge|payroll)(?: (?:id|number|no))?",
        "encounter": r"accession(?: (?:number|no))?|encounter(?: (?:id|number|no))?"
        r"|visit (?:id|number|no)",
        "account": r"acct|account(?: (?:number|no))?",
    },
}
# Names of identifiers that are nothing else, so that two digits are enough.
# They may be joined to the number, as in "NHC778899".
_JOINED = rule(
    "record",
    r"(?<![^\W_])(?i:NHC|HC|MRN|DNI|NIF|NIE|NASS|NUSS|SIP|CIPA?|TIS|TSI|SSN|ID|PAC|HIST)[-_]?"
    r"(?P<value>\d{4,12}[A-Za-z]?)(?![^\W_])",
    is_of_person,
)
_CERTAIN = r"NHC|N\.H\.C|MRN|DNI|D\.N\.I|NIE|NASS|NUSS|SSN|n[ºo°.]+\s*(?:de\s+)?(?:historia|hc)"
_FEWEST_DIGITS = 4


def _has_digits(match: re.Match[str]) -> bool:
    fewest = 2 if re.match(_CERTAIN, match[0], re.IGNORECASE) else _FEWEST_DIGITS
    return sum(map(str.isdigit, match["value"])) >= fewest


def _by_cue(pattern: str, cue: str) -> Rule:
    between = rf"{_SIGNS}(?i:n[úu]mero|number|no|n[º°])?{_SIGNS}"
    return rule(pattern, rf"(?<![^\W_])(?i:{cue})(?![^\W_]){between}{_VALUE}", _has_digits)


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


def _checked(is_valid: Callable[[str], bool]) -> Callable[[re.Match[str]], bool]:
    return lambda match: is_of_person(match) and is_valid(match[0])


def _is_dni(number: str) -> bool:
    """Whether it is a valid DNI, or one with a wrong letter, which is as rare in other numbers."""
    compact = number.replace(".", "").replace("-", "")
    return dni.is_valid(compact) or re.fullmatch(r"\d{8}[A-HJ-NP-TV-Z]", compact) is not None


def _is_card(number: str) -> bool:
    return luhn.is_valid(re.sub(r"\D", "", number))


_GROUPED = r"(?<![\w.,/-])(?<!\d )(?=\d)"
_END = r"(?![\w/-])(?![.,]\d)"
_WITH_CHECKS: dict[str, list[tuple[str, str, Callable[[str], bool]]]] = {
    "es": [
        ("national_id", rf"{_GROUPED}\d\d?\.?\d{{3}}\.?\d{{3}}[ -]?[A-Za-z]{_END}", _is_dni),
        (
            "national_id",
            rf"(?<![\w.,/-])(?<!\d )[XYZxyz][ -]?\d{{7}}[ -]?[A-Za-z]{_END}",
            nie.is_valid,
        ),
        ("insurance", rf"{_GROUPED}\d\d[ /-]?\d{{8}}[ /-]?\d\d{_END}", is_social_security_number),
        ("account", rf"{_GROUPED}\d{{4}}[ -]?\d{{4}}[ -]?\d\d[ -]?\d{{10}}{_END}", ccc.is_valid),
        ("national_id", rf"{_GROUPED}\d\d?\.?\d{{3}}\.?\d{{3}}-[\dkK]{_END}", rut.is_valid),
        ("national_id", rf"{_GROUPED}(?:2[0347]|3[0-4])-?\d{{8}}-?\d{_END}", cuit.is_valid),
    ],
    "en": [
        ("national_id", rf"{_GROUPED}\d{{3}}-\d\d-\d{{4}}{_END}", ssn.is_valid),
        ("insurance", rf"{_GROUPED}\d{{3}}[ -]?\d{{3}}[ -]?\d{{4}}{_END}", nhs.is_valid),
        ("national_id", rf"{_GROUPED}\d{{4}}[ -]?\d{{4}}[ -]?\d{{4}}{_END}", aadhaar.is_valid),
        ("national_id", rf"{_GROUPED}\d{{7}}[A-W][A-IW]?{_END}", pps.is_valid),
        # British national insurance, a Medicare beneficiary and an American drug licence.
        (
            "national_id",
            r"[A-CEGHJ-PR-TW-Z](?<!\w[A-Z])[A-CEGHJ-NPR-TW-Z](?:[ -]?\d\d){3}[ -]?[A-D]\b",
            bool,
        ),
        (
            "insurance",
            rf"{_GROUPED}[1-9][AC-HJ-NP-RT-Y][0-9AC-HJ-NP-RT-Y]\d-?[AC-HJ-NP-RT-Y][0-9AC-HJ-NP-RT-Y]\d-?"
            r"[AC-HJ-NP-RT-Y]{2}\d\d\b",
            bool,
        ),
    ],
}
_EVERYWHERE: list[tuple[str, str, Callable[[str], bool]]] = [
    (
        "account",
        r"[A-Z]{2}(?<!\w[A-Z]{2})\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
        iban.is_valid,
    ),
    # Mexican CURP and RFC, and others of four letters and a date.
    (
        "national_id",
        r"[A-ZÑ&]{4}(?<!\w[A-ZÑ&]{4})\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])[A-Z0-9]{3,10}\b",
        bool,
    ),
    ("account", rf"{_GROUPED}[3-6]\d{{3}}(?:[ -]?\d{{4}}){{3}}{_END}", _is_card),
    ("account", rf"{_GROUPED}3[47]\d\d[ -]?\d{{6}}[ -]?\d{{5}}{_END}", _is_card),
]

# Segments of HL7 that have to do with people.
SEGMENTS = "MSH|PID|PD1|NK1|PV1|PV2|ORC|OBR|OBX|IN1|GT1|AL1|DG1|SCH|AIP|ROL"
# Registers of studies, genes, terms and papers.
_REGISTERS = re.compile(
    r"(?:NCT|PM|PMC|PMID|[NXY][MPRG]|RS|CVE|GS[EM]|SRR|ENS|ORPHA|OMIM|DOI|CD|C|D)\W?\d"
)
_PROVINCES = (
    "A AB AL AV B BA BI BU C CA CC CE CO CR CS CU GC GE GI GR GU H HU IB J L LE LO LU LR M MA ML "
    "MU NA O OR OU P PM PO S SA SE SG SO SS T TE TF TO V VA VI Z ZA"
)
_BED = r"\d{1,4}(?:[ -]?[A-Za-z]\b|[-/.]\d{1,3})?(?![\w%])(?![.,]\d)"


def _is_no_register(match: re.Match[str]) -> bool:
    return is_of_person(match) and not _REGISTERS.match(match[0])


def _is_serial(match: re.Match[str]) -> bool:
    """Whether it is not a postal code after "s/n", which means "without number" in an address."""
    digits = sum(map(str.isdigit, match["value"]))
    return digits >= 6 or (digits >= 2 and not match["value"].isdigit())


def _is_plate(match: re.Match[str]) -> bool:
    """Whether the letters are not an acronym and no number follows, as in a row of values."""
    is_row = re.compile(r"[ |;,]{1,3}\d").match(match.string, match.end()) is not None
    return not is_row and match[0][-3:].lower() not in name_words("es").ordinary


def _is_mixed(match: re.Match[str]) -> bool:
    """Whether there are digits, and letters that do not name a unit, five or more in all."""
    value = match["value"]
    letters = "".join(filter(str.isalpha, value)).lower()
    is_word = letters in ("mph", "kph", "kmh", "hrs", "min", "rpm")
    has_digits = any(map(str.isdigit, value))
    return bool(letters) and has_digits and not is_word and sum(map(str.isalnum, value)) >= 5


def _is_segment(match: re.Match[str]) -> bool:
    """Whether a number is in a segment of HL7 and is not a date."""
    return is_hl7(match) and not is_compact_date(match[0])


def is_hl7(match: re.Match[str]) -> bool:
    """Whether the line of a match is a segment of HL7, such as "PID|1||4482913"."""
    start = match.string.rfind("\n", 0, match.start()) + 1
    line = match.string[start : match.start()]
    return re.match(rf"\W?[A-Z][A-Z0-9]{{2}}[|]|.{{0,40}}\b(?:{SEGMENTS})[|]", line) is not None


_THINGS = [
    # Letters joined to a number, as in "ES4482913".
    rule(
        "record",
        rf"[A-Z](?<![\w./-][A-Z])[A-Z]{{1,3}}-?\d{{7,12}}{_END}",
        _is_no_register,
    ),
    rule(
        "device",
        r"(?<![\w/])(?i:(?:n[ºo°.]*\s*(?:de\s+)?)?serie|n[úu]mero de serie|serial(?:\s+(?:number"
        r"|no))?|s/n|n/s"
        r"|SN|IMEI|UDI|bastidor|VIN)(?!\w)(?:\s*n[ºo°.]+)?"
        r"[\s:.#º\"'=>|-]{0,6}"
        r"(?P<value>(?=[\w/-]*\d)[A-Z0-9][A-Za-z0-9]+"
        r"(?:[-/.][A-Z0-9]+|[ ](?=[A-Z]*\d)[A-Z0-9]+)*)(?!\w)",
        _is_serial,
    ),
    number("vehicle", rf"{_GROUPED}\d{{4}}[ -]?[BCDFGHJKLMNPRSTVWXYZ]{{3}}{_END}", _is_plate),
    rule(
        "vehicle",
        rf"(?P<province>[A-Z](?<![\w-][A-Z])[A-Z]?)-\d{{4}}-?[A-Z]{{1,2}}{_END}",
        lambda match: f" {match['province']} " in f" {_PROVINCES} ",
    ),
    rule(
        "vehicle",
        r"\b(?i:matr[íi]culas?|matr\.|placas? de matr[íi]cula|license plate|number plate"
        r"|reg(?:istration)? no)"
        r"[\s:.\"'=>"
        r"|]{1,5}(?P<value>(?=[\w -]{0,8}\d)[A-Za-z0-9]{1,7}(?:[ -][A-Z0-9]{1,4}){0,3})(?!\w)",
    ),
    rule(
        "vehicle",
        r"\b(?i:(?:number |licen[cs]e )?plates?|reg(?:o|istration)?|placas?|patente|dominio)"
        r"(?: (?:no|number)\.?)?[\s:.#]{1,3}"
        r"(?P<value>[A-Z0-9]{1,7}(?:[ -][A-Z0-9]{2,4}){0,2})(?!\w)",
        _is_mixed,
    ),
    rule(
        "vehicle",
        r"\b(?i:car|van|vehicle|truck|lorry|motorbike|motorcycle|moped|taxi|suv|sedan|pickup"
        r"|coche|moto"
        r"|furgoneta|turismo|cami[óo]n|veh[íi]culo|taxi)\b[^\n.;]{0,25}?(?<![\w-])"
        r"(?P<value>[A-Z]{1,3}\d{2}[ -]?[A-Z]{3}|[A-Z]{2,3}[ -]\d{3,4}[A-Z]?|\d{1,4}[ -][A-Z]{3}"
        r"|\d[A-Z]{3}\d{3})(?![\w-])",
        _is_mixed,
    ),
    # The last digits of a number that is masked.
    rule("national_id", r"[*xX#]{2}(?<!\w[*xX#]{2})[ *xX#-]*\d{2,4}(?!\w)"),
    rule("device", r"[0-9A-Fa-f]{2}(?<![\w:][0-9A-Fa-f]{2})(?:[:-][0-9A-Fa-f]{2}){5}(?![\w:])"),
    rule(
        "room",
        r"\b(?i:hab(?:itaci[óo]n)?\.?|cama|box|sill[óo]n|puesto|camilla|room|rm\.?"
        r"|bed)(?:\s*n[ºo°.]*)?[\s:.]{1,3}"
        rf"(?P<value>{_BED})",
    ),
]
_OF_SEGMENT = rule(
    "record",
    r"(?<=[|^~])(?!\d{1,5}-\d[|^~\s])[A-Z]{0,4}\d(?:-?\d){4,}[A-Z]?(?=[|^~\s]|$)",
    _is_segment,
)
_RULES = {
    language: [
        *(
            (number if form.startswith(_GROUPED) else rule)(pattern, form, _checked(is_valid))
            for pattern, form, is_valid in [*_EVERYWHERE, *_WITH_CHECKS[language]]
        ),
        *(_by_cue(pattern, cue) for pattern, cue in cues.items()),
        _JOINED,
        *_THINGS,
    ]
    for language, cues in _CUES.items()
}


def find_identifiers(plain: PlainText, language: str) -> Found:
    """Find identifiers whose check digits are right, or that a word such as "NHC" introduces; also
    serial numbers, number plates, rooms, and numbers with letters joined to them.
    """
    yield from apply_rules(_RULES[language], plain)
    if "|" in plain.text:
        yield from apply_rules([_OF_SEGMENT], plain)
