"""Patterns of dates and ages."""

from __future__ import annotations

import re
from functools import partial

from .pattern_rules import Found, Rule, apply_rules, caseless, fold_form, number, rule
from .plain_text import PlainText
from .surrogate_dates import MONTHS, find_month, one_of
from .term_lists import normalize

# Notes have months of both languages.
_MONTH = rf"(?P<name>{one_of(MONTHS)})"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
# A date may follow another one, as in "12/03/2019-15/03/2019", and a time may follow a date.
# The digit comes first, since most characters are not digits.
_BEFORE = r"(?=\d)(?:(?<![\w/])(?<!\d[.,-])|(?<=[/.-]\d{4}-)|(?<=/\d\d-))"
_AFTER = r"(?![\w/])(?!-\d(?!\d?[/.]\d))(?![.,]\d(?!\d?[:.]\d\d\b))"
_DAY, _NUMBER = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})"
_FIRST, _SECOND = r"(?P<first>\d{1,2})", r"(?P<second>\d{1,2})"
_SHORT = r"(?P<short_year>\d\d)"
_ROMAN = r"(?:I{1,3}|I?V|VI{1,3}|I?X|XI{1,2})"

# Forms in numbers. All three numbers have the same sign between them.
_NUMERIC = (
    rf"{_BEFORE}{_FIRST}(?P<sign>[ ]?[/-][ ]?|\.[ ]?){_SECOND}(?P=sign){_YEAR}{_AFTER}",
    rf"{_BEFORE}{_YEAR}(?P<sign>[/.-]){_NUMBER}(?P=sign){_DAY}(?:(?=T\d\d)|{_AFTER}(?!:))",
    rf"{_BEFORE}{_FIRST}(?P<sign>[ ]?[/-][ ]?){_SECOND}(?P=sign){_SHORT}{_AFTER}",
    rf"{_BEFORE}(?P<first>\d\d)\.(?P<second>\d\d)\.{_SHORT}{_AFTER}",
    rf"{_BEFORE}(?P<month>\d{{1,2}})[/-]{_YEAR}{_AFTER}",
    rf"{_BEFORE}{_DAY}(?P<sign>[/. -]){_ROMAN}(?P=sign)(?:{_YEAR}|{_SHORT}){_AFTER}",
    # The first day of "del 3/11 al 9/11/2017".
    rf"{_BEFORE}{_FIRST}[/-]{_SECOND}"
    r"(?=\s*(?:[-–y]|al?|to|and|hasta(?: el)?)\s*\d\d?[/-]\d\d?[/-]\d\d)",
    r"(?:(?<=del )|(?<=\bel )|(?<=entre )|(?<=d[íi]as ))\d\d?"
    r"(?=\s*(?:al?|y|-)\s*(?:el\s+)?\d\d?[/.-]\d\d?[/.-]\d\d)",
    # 20190312081530 and 20190312T0815, of which the time stays.
    r"(?<!\w)(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
    r"(?=[T_]?(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?(?!\d))",
    # Digits with spaces between.
    r"(?<!\w)(?<!\w )\d ?\d? ?(?P<sign>[/.-]) ?\d ?\d? ?(?P=sign) ?(?:\d ){1,3}\d(?! ?\w)",
)
# Words before a month, or a year, that is a date by itself.
_CUES = {
    "en": r"in|since|until|till|during|from|by|of|early|late|mid|last|year|and|to|on|seen|visit",
    "es": r"en|desde|hasta|durante|mes de|a[ñn]o|a (?:principios|mediados|finales) de|y|a|de",
}
# Words before eight digits, or a day and a month, that are a date.
_DATE_CUES = {
    "en": r"date|dob|birth\w*|born|admitted|discharged|admission|discharge|on|since|until|seen"
    r"|visit|due|lmp|surgery|tetanus|vaccin\w*|jab|booster|smear|last|dated|done|reviewed|biopsy"
    r"|and|to|appointment|appt|follow[ -]?up|through|(?:mon|tues?|wed(?:nes)?"
    r"|thu(?:rs)?|fri"
    r"|sat(?:ur)?|sun)(?:day)?",
    "es": r"\w*fecha\w*|f\.?\s?n(?:ac)?\b|fnac|nacimiento|nacid[oa]|nac|ingres[oa]\w*|alta|exitus"
    r"|el|d[íi]a|desde|hasta|vist[oa]|consulta|citad?[oa]?|lunes|martes|mi[ée]rcoles|jueves|viernes"
    r"|s[áa]bado|domingo|revisi[óo]n|control|fur|fum|fpp|parto|pr[óo]xim[oa]|intervenci[óo]n|iq"
    r"|birth\w*|dob|date|vacuna\w*|biopsia|[úu]ltim[oa]|hecho|realizad[oa]",
}
# What follows a number from 1900 to 2099 that is a quantity.
_NO_QUANTITY = (
    r"(?![ ]?(?:%|[µμmk]?[glLUu]\b|m[gl]\b|UI\b|IU\b|mcg|cc\b|kcal|cal\b|cel|cop|cells|copies"
    r"|pacient"
    r"|patient|c[ée]lulas|días|days|horas|hours|h\b|/))"
)
_DAY_IN_WORDS = (
    r"(?:uno|primero|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|trece|catorce"
    r"|quince"
    r"|diecis[ée]is|diecisiete|dieciocho|diecinueve|veinte|veinti\w+|treinta(?: y uno)?)"
)
_YEAR_IN_WORDS = (
    r"(?:dos mil|mil novecientos)(?: (?:y|veinti\w+|dieci\w+|\w+enta|\w+nte|\w+nce|diez|doce"
    r"|trece|catorce|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve)\b)*"
)
_ORDINAL_EN = (
    r"(?:(?:twenty|thirty)[ -])?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
    r"|eleventh|twelfth|thirteenth|fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth"
    r"|twentieth|thirtieth)"
)
_WORDED = {
    "es": (
        # The first day of "del 7 al 15 de abril".
        rf"\b{_DAY}[º°]?(?=\s*(?:-|y|e|al?)\s*(?:el\s+)?\d\d?[º°]?(?:\s+de\s+|[ ]){{month}}\b)",
        rf"\b{_DAY}[º°]?(?:\s+de\s+|\s*[-/. ]\s*){{month}}\b"
        rf"(?:\.?(?:\s+del?\s+(?:a[ñn]o\s+)?|\s*[-/,. ]\s*){_YEAR})?",
        rf"\b{_DAY}(?:\s+de\s+|[ ]?[-/. ]?[ ]?){{month}}(?:\.?\s+del?\s+(?:a[ñn]o\s+)?'?"
        rf"|\.?[ ]?[-/. ']{{0,2}})"
        rf"(?:{_YEAR}|{_SHORT}){_AFTER}{_NO_QUANTITY}",
        rf"\b{{month}}\b\.?(?:\s+del?\s+(?:a[ñn]o\s+)?|\s*[-/,. ]\s*){_YEAR}\b",
        rf"(?<![\w-]){{month}}\.?(?:[-/']|\s+del\s+(?:a[ñn]o\s+)?'?){_SHORT}{_AFTER}{_NO_QUANTITY}",
        rf"\b{_DAY_IN_WORDS}\s+de\s+{{month}}\b(?:\s+del?\s+(?:a[ñn]o\s+)?(?:{_YEAR}"
        rf"|{_YEAR_IN_WORDS}))?",
        rf"\b(?:{_CUES['es']})\s+(?P<value>{{month}})\b",
        rf"\b(?<!\w-){{month}}\.?[ -]{_DAY},?[ -](?:of )?{_YEAR}\b",
        rf"\b(?:en|desde|hasta|durante|a[ñn]o(?: de)?|del|navidad(?:es)?|nochebuena|nochevieja"
        rf"|semana santa|verano|invierno|oto[ñn]o|primavera|hacia|sobre)\s+(?:de\s+|del?\s+|el\s+)?"
        rf"(?P<value>{_YEAR}){_AFTER}{_NO_QUANTITY}",
    ),
    "en": (
        rf"\b{_DAY}(?:st|nd|rd|th)?(?:\s+of)?[\s/-]*{{month}}\b(?:\.?[\s,/-]*{_YEAR})?",
        rf"\b{_DAY}[ ]?[-/. ]?{{month}}\.?[-/. ']{{0,2}}(?:{_YEAR}|{_SHORT}){_AFTER}{_NO_QUANTITY}",
        rf"\b{{month}}\b\.?[\s-]+{_DAY}(?:st|nd|rd|th)?\b"
        rf"(?:(?:[ ]?[-–][ ]?\d\d?)?,?[\s-]+(?:{_YEAR}|'{_SHORT})\b)?",
        rf"\b{_ORDINAL_EN}\s+(?:of\s+)?{{month}}\b(?:,?\s+{_YEAR}\b)?",
        rf"\b{{month}}\b\.?[\s,/-]*(?:of\s+)?{_YEAR}\b",
        rf"\b(?:{_CUES['en']})\s+(?P<value>{{month}})\b",
        rf"\b(?:in|since|until|during|year|from)\s+(?P<value>{_YEAR}){_AFTER}{_NO_QUANTITY}",
    ),
}
# What is between such a word and the date.
_BETWEEN = {"digits": r"[\s:.\"'=>|_a-z]{1,14}", "day": r"[\s:.\"'=>|]{1,4}(?:dia\s+)?"}
_BY_CUE = {
    "digits": (rf"(?<![^\W_])(?P<value>\d{{8}}){_AFTER}",),
    "day": (
        rf"(?P<value>{_FIRST}[/-]{_SECOND})(?![\w/-])(?![.,]\d)"
        r"(?!\s+(?:de\b|d[íi]as?\b|h\b|part|medio|distal|proximal|superior|inferior))",
        rf"(?P<value>{_FIRST}[ ]{_SECOND}[ ]{_YEAR}){_AFTER}",
        # Without such a word it may be the number of a version.
        rf"(?P<value>{_FIRST}\.{_SECOND}\.{_SHORT}){_AFTER}",
    ),
}
# Characters before a date that are looked at.
_FARTHEST = 40
# What stands before doses, scores and ratios that look like a date.
_NO_DATE = re.compile(
    r"\b(?:insulina\w*|insulin|pautas?|dosis|dose|apgar|lantus|novo\w+|humalog|levemir|sintrom"
    r"|escala"
    r"|glasgow|gcs|scores?|test|gleason|fuerza|strength|agudeza|av|vas?|eva|tas?|bp|proporci[óo]n"
    r"|ratio"
    r"|mg|comprimidos?|tableta|cada|version|versi[óo]n|section|secci[óo]n|ec|figure?|table|tabla"
    r"|chapter|cap[íi]tulo|build|release)\b[^\d\n]{0,12}\Z",
    re.IGNORECASE,
)
# Numbers and units of Spanish ages, which are in other patterns too.
COUNT = (
    r"(?:\d{1,3}|un[oa]?|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|trece"
    r"|catorce|quince"
    r"|diecis[ée]is|diecisiete|dieciocho|diecinueve|veinte|veinti\w+|(?:treinta|cuarenta|cincuenta"
    r"|sesenta|setenta|ochenta|noventa)(?: y \w+)?)"
)
UNIT = r"(?:años?|anos|meses|mes|semanas?|d[íi]as?)"
_UNITS = rf"{UNIT}(?:[ ]y[ ](?:medio|{COUNT}[ ](?:meses|mes|semanas?|d[íi]as?)))?"
_PERSON = (
    r"paciente|var[óo]n|mujer|hombre|niñ[oa]|lactante|chic[oa]|joven|neonato|gestante|señora?"
    r"|reci[ée]n nacid[oa]|ancian[oa]|enferm[oa]|adolescente"
)
_TENS_EN = r"(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
_AGES = {
    "es": (
        rf"\bedad(?: gestacional)?(?:\s+de\b|\s*:)?\s*(?P<value>{COUNT}\s*{_UNITS})\b",
        r"\bedad(?::\s*|\s+)(?P<value>\d{1,3}(?:[ ]a)?)(?=\s*[.,;\n]|\s+sexo|\s*$)",
        rf"\b{COUNT}[ ]{_UNITS}[ ]de[ ]edad\b",
        rf"\b(?:{_PERSON})(?:[ ]\w+)?(?:[ ]?,[ ]?(?:de[ ])?|[ ]de[ ])"
        rf"(?P<value>{COUNT}[ ]{_UNITS})\b",
        rf"\b(?:tiene|tenía|cumpl\w+|contaba con)[ ](?P<value>{COUNT}[ ]años)\b",
        rf"\b(?:desde|hasta)[ ]los[ ](?P<value>{COUNT}[ ]años)\b",
        # "a los 3 años de la cirugía" is a time.
        rf"\ba los[ ](?P<value>(?:{COUNT}[ ]y[ ])?{COUNT}[ ]años)\b"
        r"(?![ ](?:de|del|tras|después|posterior)\b)",
        rf"\b(?:{_PERSON})[ ]de[ ](?P<value>\d{{1,3}})(?=\s*[,.;])",
        rf"\b{COUNT}[ ]{_UNITS}[ ]de[ ]vida\b",
        rf"\b(?:{_PERSON})[ ,]{{1,3}}(?:de )?(?P<value>\d{{1,3}}[ ]?a)\b",
        r"(?<=[a-z]), (?P<value>\d{2,3}[ ]?a)(?=[.,;])",
        r"\b\w+(?:genari[oa]|tenari[oa]) de (?P<value>\d{2,3})\b",
    ),
    "en": (
        r"\b\d{1,3}[ -]?(?:y/?o|yo|yrs?|y)\b",
        # "97F" of 90 years or more, where no temperature is meant.
        r"(?<![\w.,/])(?<!t )(?<!temp )(?<!tmax )(?<!of )(?<!to )(?<!at )(?<!was )(?P<value>9\d"
        r"|1[01]\d)"
        r"(?: ?m| ?f(?=[,;.]? (?!oral|axil|temp|rect|tymp|overnight)(?:[a-z]|\b(?:c|w|f)/)"
        r"|[,;]))(?![\w/])",
        rf"\b(?:aged?|age of)[:\s]+(?P<value>{_TENS_EN}(?:[ -]\w+)?)\b",
        r"\baged?[:\s]+(?P<value>\d{1,3}(?:[ ](?:years?|months?|weeks?))?)\b(?!\s*[-%/])",
        r"\b\d{1,3}[ -]+(?:years?|months?|weeks?|yrs?|y/?o)(?=[ -]+old\b)",
    ),
}


def is_compact_date(digits: str) -> bool:
    """Whether eight digits are a date: year, month and day, or day, month and year."""
    if len(digits) != 8 or not digits.isdigit():
        return False
    return any(
        year[:2] in ("19", "20") and _exists(int(month), int(day))
        for year, month, day in (
            (digits[:4], digits[4:6], digits[6:]),
            (digits[4:], digits[2:4], digits[:2]),
        )
    )


def _exists(month: int, day: int) -> bool:
    """Whether it can be a date. 31 April can: it is a mistyped one."""
    return 1 <= month <= 12 and 1 <= day <= 31


def _is_date(match: re.Match[str], language: str) -> bool:
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    name = fields.get("name")
    has_year = "year" in fields or "short_year" in fields
    if name is not None and not has_year and not _is_clear(name, fields, language):
        return False
    if "first" in fields:
        if "year" not in fields and _NO_DATE.search(
            match.string, max(match.start() - _FARTHEST, 0), match.start()
        ):
            return False
        numbers = int(fields["first"]), int(fields["second"])
        return any(_exists(month, day) for day, month in (numbers, numbers[::-1]))
    month = find_month(name, language) if name is not None else int(fields.get("month", 1))
    return _exists(month, int(fields.get("day", 1)))


def _is_clear(name: str, fields: dict[str, str], language: str) -> bool:
    """Whether a month without a year is a month, and not another word ("may", "mar")."""
    form = normalize(name)
    if form in MONTHS[language][0].split():
        return language == "es" or "day" in fields or name[0].isupper()
    is_word = form in ("mar", "may", "march", "ago", "set") or name.isupper()
    return "day" in fields and not is_word and (language == "es" or name[0].isupper())


def _by_cue(form: str, cue: re.Pattern[str], language: str) -> Rule:
    def check(match: re.Match[str]) -> bool:
        before = cue.search(match.string, max(match.start() - _FARTHEST, 0), match.start())
        if before is None:
            return False
        value = match["value"]
        if value.isdigit():
            return is_compact_date(value)
        # "el 1/3 distal", "el 2/3" are fractions.
        is_clear = " " in value or re.search(r"0\d|1[3-9]|[23]\d", value) or "dia " in before[0]
        return bool(is_clear) and _is_date(match, language)

    return number("date", form, check)._replace(is_folded=True)


def _worded(form: str, language: str) -> Rule:
    # In English only the capital tells a month from a word: "may", "march".
    if language == "en":
        made = rule("date", form, partial(_is_date, language=language), re.IGNORECASE)
    else:
        made = caseless("date", form, partial(_is_date, language=language))
    return made._replace(is_number=form.startswith(rf"\b{_DAY}"))


def _cue(language: str, kind: str) -> re.Pattern[str]:
    return re.compile(fold_form(rf"(?<![^\W_])(?:{_DATE_CUES[language]}){_BETWEEN[kind]}\Z"))


_DATES = {
    language: [
        *(number("date", form, partial(_is_date, language=language)) for form in _NUMERIC),
        *(_worded(form.replace("{month}", _MONTH), language) for form in _WORDED[language]),
        *(
            _by_cue(form, _cue(language, kind), language)
            for kind, forms in _BY_CUE.items()
            for form in forms
        ),
    ]
    for language in _WORDED
}
# Dates without signs in segments of HL7.
_SEGMENT_DATE = rule(
    "date", r"(?<=[|^])\d{8}(?=\d{0,6}[|^~\s]|$)", lambda match: is_compact_date(match[0])
)
_AGE_RULES = {
    language: [caseless("age", form) for form in forms] for language, forms in _AGES.items()
}


def find_dates(plain: PlainText, language: str) -> Found:
    """Find dates, also of a day that a month does not have; months, years and eight digits alone
    only after words such as "since".
    """
    yield from apply_rules(_DATES[language], plain)
    if "|" in plain.text:
        yield from apply_rules([_SEGMENT_DATE], plain)


def find_ages(plain: PlainText, language: str) -> Found:
    """Find numbers of years, months and so on that are called an age."""
    yield from apply_rules(_AGE_RULES[language], plain)
