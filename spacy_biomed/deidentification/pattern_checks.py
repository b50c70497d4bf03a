"""Checks of patterns: what a match has to be besides its form. Tables name them in `check`."""

import re
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

import phonenumbers
from spacy.lang.lex_attrs import like_url
from stdnum import luhn
from stdnum.es import dni

from .pattern_forms import find_form, stands_before
from .plain_text import fold
from .surrogate_dates import MONTHS, find_month
from .term_lists import is_clinical_term, is_ordinary, name_words, normalize, place_words

# Numbers


def is_dni(match: re.Match[str]) -> bool:
    """Whether it is a valid DNI, or one with a wrong letter, which is as rare in other numbers."""
    compact = match[0].replace(".", "").replace("-", "")
    return dni.is_valid(compact) or re.fullmatch(r"\d{8}[A-HJ-NP-TV-Z]", compact) is not None


def is_social_security_number(number: str) -> bool:
    """Whether the check digits of a Spanish social security number (NUSS, NAF) are right.

    The last two of the twelve digits are those before them modulo 97; where the number after the
    province has a leading zero, that zero does not count.
    """
    digits = re.sub(r"\D", "", number)
    if len(digits) != 12:
        return False
    province, serial, check = digits[:2], digits[2:10], int(digits[10:])
    base = province + (serial[1:] if serial.startswith("0") else serial)
    return int(base) % 97 == check


def has_digits(match: re.Match[str]) -> bool:
    """Whether a value has four digits, or two after a name of identifiers that is nothing else.

    Dictated numbers, which are in words, have enough.
    """
    fewest = 2 if find_form("identifiers", "certain").match(match[0]) else 4
    digits = sum(map(str.isdigit, match["value"]))
    return digits >= fewest or not digits


def is_serial(match: re.Match[str]) -> bool:
    """Whether it is not a postal code after "s/n", which means "without number" in an address."""
    digits = sum(map(str.isdigit, match["value"]))
    return digits >= 6 or (digits >= 2 and not match["value"].isdigit())


def is_plate(match: re.Match[str]) -> bool:
    """Whether the letters are not an acronym and no number follows, as in a row of values."""
    row = re.compile(r"[ |;,]{1,3}\d(?!\d{3}[ -]?[A-Z]{3}\b)")
    is_row = row.match(match.string, match.end()) is not None
    return not is_row and match[0][-3:].lower() not in name_words("es").ordinary


def is_mixed(match: re.Match[str]) -> bool:
    """Whether there are digits, and letters that do not name a unit, five or more in all."""
    value = match["value"]
    letters = "".join(filter(str.isalpha, value)).lower()
    is_name = letters not in ("", "mph", "kph", "kmh", "hrs", "min", "rpm")
    return is_name and any(map(str.isdigit, value)) and sum(map(str.isalnum, value)) >= 5


def is_in_segment(match: re.Match[str]) -> bool:
    """Whether a number is in a segment of HL7 and is not a date."""
    start = match.string.rfind("\n", 0, match.start()) + 1
    line = match.string[start : match.start()]
    is_segment = find_form("identifiers", "segment").match(line) is not None
    return is_segment and not is_compact_date(match)


def is_ip_address(match: re.Match[str]) -> bool:
    try:
        return ip_address(match[0]).is_global or ip_address(match[0]).is_private
    except ValueError:
        return False


def _is_in_use(region: str, text: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(re.sub("[_·]", " ", text), region))
    except phonenumbers.NumberParseException:
        return False


def is_abroad_number(match: re.Match[str]) -> bool:
    """Whether a number is written as in Britain, Ireland, Australia or India."""
    regions = ("GB", "IE", "AU", "IN", "NZ")
    return match["grouped"] is not None or any(_is_in_use(one, match[0]) for one in regions)


def is_american_number(match: re.Match[str]) -> bool:
    # Written as the numbers of North America are, whether the area exists or not.
    return re.search(r"[.)-]", match[0]) is not None or _is_in_use("US", match[0])


# Dates


def is_compact_date(match: re.Match[str]) -> bool:
    """Whether eight digits are a date: year, month and day, or day, month and year."""
    digits = match[0]
    if len(digits) != 8 or not digits.isdigit():
        return False
    orders = (digits[:4], digits[4:6], digits[6:]), (digits[4:], digits[2:4], digits[:2])
    return any(
        year[:2] in ("19", "20") and _exists(int(month), int(day)) for year, month, day in orders
    )


def _exists(month: int, day: int) -> bool:
    """Whether it can be a date. 31 April can: it is a mistyped one."""
    return 1 <= month <= 12 and 1 <= day <= 31


def is_date(match: re.Match[str], language: str = "") -> bool:
    """Whether the numbers are a date, and a month (in a language) without a year no other word."""
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    name = fields.get("name")
    has_year = "year" in fields or "short_year" in fields
    if name is not None and not has_year and not _is_clear(name, fields, language):
        return False
    if "first" in fields:
        no_date = find_form("dates", "no_date")
        # "Lantus 12-03-19" has a date, not a dose.
        is_full = "short_year" in fields and "0" in (fields["first"][0], fields["second"][0])
        has_year = "year" in fields or is_full
        if not has_year and stands_before(no_date, match.string, match.start()):
            return False
        numbers = int(fields["first"]), int(fields["second"])
        return any(_exists(month, day) for day, month in (numbers, numbers[::-1]))
    month = find_month(name, language) if name is not None else int(fields.get("month", 1))
    return _exists(month, int(fields.get("day", 1)))


def _is_clear(name: str, fields: dict[str, str], language: str) -> bool:
    """Whether a month without a year is a month, and not another word ("may", "mar")."""
    form = normalize(name)
    if "ordinal" in fields or form in MONTHS[language][0].split():
        return language == "es" or "day" in fields or name[0].isupper()
    if language == "es":
        return "day" in fields and form != "set"
    is_word = form in ("mar", "may", "march", "ago", "set") or name.isupper()
    return "day" in fields and not is_word and name[0].isupper()


def is_clear_day(match: re.Match[str]) -> bool:
    """Whether a day and a month are not a fraction, as "el 1/3 distal" and "el 2/3" are."""
    first, second = match["first"], match["second"]
    if re.search(r"0\d|1[3-9]|[23]\d", match["value"]) or int(first) > int(second):
        return True
    return stands_before(find_form("dates", "day_said"), match.string, match.start())


# Places


def is_after_town(match: re.Match[str]) -> bool:
    """Whether it is not a row of values in capitals, as a state is: "OR 12345"."""
    town = match[0].split()[0]
    is_clear = not town.isupper() or fold(town) not in name_words("en").ordinary
    return "," in match[0] or is_clear


def is_street(match: re.Match[str]) -> bool:
    """Whether a street has a name: a capitalised word that is not ordinary, or a house number.

    "C/ TAC craneal" (with a scan) and "c/ 8 h" (every eight hours) are not streets.
    """
    keyword, value = match["street"], match["name"]
    joining = find_form("institutions", "joining")
    names = [
        word for word in re.findall(r"[^\W\d_][\w'-]*", value) if not joining.fullmatch(fold(word))
    ]
    if not any(len(word) > 1 for word in names):
        return False
    has_house = find_form("addresses", "house_number").search(value) is not None
    if find_form("addresses", "street_with_house").fullmatch(fold(keyword)) and not has_house:
        return False
    ordinary = name_words("es").ordinary
    proper = [word for word in names if fold(word) not in ordinary]
    if fold(keyword).endswith("via") and not (proper and keyword[0].isupper()):
        return False
    if keyword[0].isupper() and not match[0].isupper() and names[0][0].isupper():
        is_acronym = names[0].isupper() and names[0] not in proper
        has_title = any(word[:1].isupper() and not word.isupper() for word in names[1:])
        return not is_acronym and (has_house or names[0] in proper or has_title)
    if has_house:
        if find_form("addresses", "ambiguous_street").fullmatch(keyword.lower()):
            return bool(proper)
        return bool(proper) or "," in value or not keyword.lower().startswith("c/")
    is_plain = find_form("addresses", "plain_street").fullmatch(keyword.lower()) is not None
    return bool(proper) and match[0].isupper() and is_plain


def has_road(match: re.Match[str]) -> bool:
    """Whether a number and capitalised words do not name a test, as in "6 Minute Walk"."""
    words = re.findall(r"[^\W\d_][\w'-]+", match[0])
    if not find_form("addresses", "ambiguous_road").fullmatch(fold(words[-1])):
        return True
    if find_form("addresses", "after_road").match(match.string, match.end()):
        return True
    return any(fold(word) not in name_words("en").ordinary for word in words[:-1])


def is_named(match: re.Match[str]) -> bool:
    """Whether a word of its name, if it needs any, is neither ordinary nor a clinical term."""
    groups = match.groupdict()
    if groups.get("named") is None:
        return True
    ordinary = name_words("en").ordinary
    words = [fold(word) for word in re.findall(r"[^\W\d_][\w-]+", groups["named"])]
    words = words[:1] if groups.get("value") is not None else words
    return any(
        len(word) > 2 and word not in ordinary and not is_clinical_term(word) for word in words
    )


def is_town(match: re.Match[str]) -> bool:
    """Whether the first word is not an ordinary one: "12345 Ferritina" is a row of values."""
    from_drug = find_form("places", "from_drug")
    if stands_before(from_drug, match.string, match.start("value")):
        return False
    words = re.split(r"[ ,®™]", fold(match["value"]))
    articles = ("el", "la", "las", "los")
    first = next((word for word in words if word not in articles), "")
    names, firsts = name_words("es"), place_words("es").first
    if is_clinical_term(first):
        return False
    if first != words[0] and match["value"][0].isupper() and words[0] in firsts:
        return True
    return first not in names.ordinary or first in firsts or names.is_name(first)


# Other checks; most are functions of this module.
CHECKS: dict[str, Callable[[re.Match[str]], bool]] = {
    "is_card": lambda match: luhn.is_valid(re.sub(r"\D", "", match[0])),
    "is_english_date": partial(is_date, language="en"),
    "is_in_no_register": lambda match: not find_form("identifiers", "register").match(match[0]),
    "is_international_number": lambda match: _is_in_use("ES", re.sub(r"\A00", "+", match[0])),
    "is_province": lambda match: bool(
        find_form("identifiers", "province").fullmatch(match["province"])
    ),
    "is_social_security": lambda match: is_social_security_number(match[0]),
    "is_spanish_date": partial(is_date, language="es"),
    "is_spanish_number": lambda match: _is_in_use("ES", match[0]),
    "is_unusual": lambda match: (
        not all(
            is_ordinary(word) or is_clinical_term(word)
            for word in re.findall(r"[^\W\d_]{3,}", fold(match["value"]))
        )
    ),
    "is_web_address": lambda match: like_url(match[0]),
}
