"""Shift dates by a number of days, keeping their format and language."""

import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from .document_key import DocumentKey
from .term_lists import match_case, normalize, one_of

# Full names come first: "may" is a full name in English and an abbreviation in Spanish.
MONTHS = {
    "en": (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "jan feb mar apr may june july aug sept oct nov dec",
    ),
    "es": (
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "enero febrero marzo abril mayo junio julio agosto setiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "ene feb mar abr may jun jul ago sept oct nov dic",
        "ene feb mar abr may jun jul ago set oct nov dic",
    ),
}
WEEKDAYS: dict[str, tuple[str, ...]] = {
    "en": (
        "monday tuesday wednesday thursday friday saturday sunday",
        "mon tue wed thu fri sat sun",
        "mon tues weds thurs fri sat sun",
    ),
    # "mar" is March.
    "es": ("lunes martes miércoles jueves viernes sábado domingo", "lun mart mié jue vie sáb dom"),
}


def any_name(tables: dict[str, tuple[str, ...]]) -> str:
    """A regular expression for any name in the tables, with accents or without."""
    names = {name for rows in tables.values() for row in rows for name in row.split()}
    return one_of(names | {normalize(name) for name in names})


_MONTH = rf"(?P<name>{any_name(MONTHS)})\b\.?"
_WEEKDAY = rf"(?P<weekday>{any_name(WEEKDAYS)})\b"
_DAY = r"(?P<day>\d{1,2})(?P<ordinal>st|nd|rd|th)?[º°]?"
_YEAR = r"(?P<year>\d{4})"
_ANY_YEAR = r"'?(?P<year>\d{4}|\d\d)"
_SIGN = r"\s*[-/.·_:]+\s*"
_OF = r"(?:\s*[,/.-]\s*|\s+)(?:(?:d(?:el?)?|of)\s+)?(?:(?:el\s+)?año\s+)?"
_BEFORE_MONTH = r"(?:(?:the\s+)?month\s+of\s+|mes\s+de\s+)?"
_BEFORE_YEAR = r"(?:(?:el\s+)?año\s+(?:de\s+)?|(?:the\s+)?year\s+)?"

_ROMAN = r"(?P<roman>I{1,3}|I?V|VI{1,3}|I?X|XI{1,2})"
_ROMANS = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]

# If the format does not determine which number is the day, the fields are `first` and `second`.
_FORMATS = [
    rf"{_YEAR}{_SIGN}(?P<month>\d\d?){_SIGN}{_DAY}",
    rf"(?P<first>\d\d?){_SIGN}(?P<second>\d\d?){_SIGN}{_ANY_YEAR}",
    rf"(?P<first>\d\d?)\s(?P<second>\d\d?)\s{_YEAR}",
    rf"{_DAY}(?:{_OF})?{_MONTH}(?:{_OF}{_ANY_YEAR})?",
    rf"{_DAY}[-/. ]?(?P<name>{any_name(MONTHS)})\.?[-/. ']{{0,2}}{_ANY_YEAR}",
    rf"{_YEAR}[-/. ](?P<name>{any_name(MONTHS)})[-/. ]{_DAY}",
    rf"{_DAY}[-/. ]{_ROMAN}[-/. ]{_ANY_YEAR}",
    rf"{_ROMAN}[-/]{_YEAR}",
    r"(?P<year>(?:19|20)\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])",
    r"(?P<first>\d\d)(?P<second>\d\d)(?P<year>(?:19|20)\d\d)",
    rf"{_MONTH}\s+{_DAY}(?:\s*,\s*|\s+){_ANY_YEAR}",
    rf"{_MONTH}[-/']+{_ANY_YEAR}",
    rf"{_BEFORE_MONTH}{_MONTH}(?:{_OF}{_YEAR})?",
    rf"(?P<month>\d\d?){_SIGN}{_YEAR}",
    rf"{_YEAR}{_SIGN}(?P<month>\d\d?)",
    rf"{_BEFORE_YEAR}{_YEAR}",
    r"(?P<first>\d\d?)\s*[-/]\s*(?P<second>\d\d?)",
]
# A number after a month is a day in English, and a year in Spanish.
_MONTH_AND_DAY = {"en": [rf"{_MONTH}\s+{_DAY}"], "es": []}
_PATTERNS = {
    language: [
        *(
            re.compile(rf"(?:{_WEEKDAY}[,.]?\s+)?(?:{form})", re.IGNORECASE)
            for form in [*_FORMATS, *_MONTH_AND_DAY[language], rf"{_MONTH}{_OF}{_ANY_YEAR}"]
        ),
        re.compile(_WEEKDAY, re.IGNORECASE),
    ]
    for language in MONTHS
}
_RANGE = re.compile(
    r"(.+?)(\s+(?:-|–|a|al|y|to|and|hasta|until|through)\s+|\s*[–—]\s*|(?<=\d{4})-(?=\d{4}$)"
    r"|(?<=[/.]\d\d)-(?=\d)|(?<=[/.]\d{4})-(?=\d))(.+)",
    re.IGNORECASE,
)

# A time after a date, wholly or its hours. A number alone may be a year: "4 jul 21".
TIME = re.compile(
    r"(?:(?<=(?:19|20)\d{6})\d{4}(?:\d\d)?"  # of HL7: "201903120815"
    r"|(?:(?:T|\s*,\s*|\s+(?:a\s+las|at)\s+)\d{1,2}|\s+\d{1,2}(?=[:.h]\d\d|\s*(?:h|[ap]\.?m)))"
    r"(?:[:.h]\d\d(?::\d\d)?(?:[.,]\d+)?)?"
    r"\s*(?:h(?:oras|s)?\.?|Z|[ap]\.?m\.?|[+-]\d\d:?\d\d)?)\Z",
    re.IGNORECASE,
)

# The English endings of days; any other day has "th".
_ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
# The year of dates without year: a leap year, so that 29 February is valid.
_NO_YEAR = 2000
# The range of a document's latest date after the shift, and the largest shift with a shared key.
_FIRST_DAY, _DAYS = date(1990, 1, 1), 14_610
_FARTHEST = 5 * 365
# The last year that two digits mean where no other date tells more.
_LATEST_YEAR = 2068


def find_latest(
    texts: Iterable[str], language: str, day_first: bool, latest_year: int | None = None
) -> date | None:
    """The latest date in texts of a date or a range each, as `DateShift` reads them.

    A date with a year is preferred to dates without.
    """
    reader = DateShift(0, language, day_first, latest_year)
    days = [day for text in texts for day in reader.read(text)]
    return max(days)[1] if days else None


def draw_shift(key: DocumentKey, latest: date | None, *, is_shared: bool) -> int:
    """Draw the number of days by which to shift the dates of a document; it may be negative.

    A symmetric shift of up to some years, drawn for each document, would reveal a date that occurs
    in many documents: it is the mean of the shifted dates. So instead the document's latest date
    becomes a uniformly distributed day from 1990 to 2029, independent of the date, and all dates
    are shifted by the same number of days. Documents with a shared key need the same shift. It is
    up to five years in either direction, and reveals no mean because there is only one shift.
    """
    if is_shared:
        return key.number(2 * _FARTHEST + 1, "shift") - _FARTHEST
    days = key.number(_DAYS, "shift")
    return days if latest is None else (_FIRST_DAY - latest).days + days


@dataclass(frozen=True)
class DateShift:
    """Shift dates; parts missing in a date (the year, the day) are missing in the result too.

    A month without a day counts as its 15th, and a year alone as its 1st of July. A day that its
    month does not have (29/02/2019) counts as the month's last. Years of two digits are the last
    ones that are not after `latest_year`, or without it from 1969 to 2068. A time after a date
    stays.

    Attributes:
        days: number of days.
        language: "en" or "es": preferred language for month names that exist in both languages.
        day_first: whether 12/03/2019 is the 12th of March. If only the other order is a valid date,
            that order is used.
        latest_year: the last year that a year of two digits can mean.
    """

    days: int
    language: str
    day_first: bool
    latest_year: int | None = None

    def __call__(self, text: str) -> str | None:
        """The shifted date, or range of dates; None if it cannot be parsed."""
        match = self._match(text)
        if match:
            return self._move(match)
        time = TIME.search(text)
        if time:
            moved = self(text[: time.start()])
            return None if moved is None else moved + time[0]
        parts = _RANGE.fullmatch(text)
        if parts is None:
            return None
        first, second = self(parts[1]), self(parts[3])
        return None if first is None or second is None else first + parts[2] + second

    def read(self, text: str) -> list[tuple[bool, date]]:
        """For each date whether it has a year, and the day; none of other texts and weekdays."""
        match = self._match(text)
        if match is None:
            parts = _RANGE.fullmatch(text)
            return [] if parts is None else self.read(parts[1]) + self.read(parts[3])
        fields, _ = self._find_fields(match)
        try:
            return [("year" in fields, self._read(fields))] if fields.keys() - {"weekday"} else []
        except ValueError:
            return []

    def _match(self, text: str) -> re.Match[str] | None:
        matches = (pattern.fullmatch(text) for pattern in _PATTERNS[self.language])
        return next((match for match in matches if match), None)

    def _find_fields(
        self, match: re.Match[str]
    ) -> tuple[dict[str, str], dict[str, tuple[int, int]]]:
        """The fields of a date, and their (start, end) offsets."""
        given = {name: value for name, value in match.groupdict().items() if value is not None}
        order = {"first": "day", "second": "month"}
        if "first" in given:
            first, second = int(given["first"]), int(given["second"])
            # If one of them cannot be the month, it is the day.
            is_open = (first > 12) == (second > 12)
            if not (self.day_first if is_open else first > 12):
                order = {"first": "month", "second": "day"}
        places = {order.get(name, name): match.span(name) for name in given}
        return {order.get(name, name): value for name, value in given.items()}, places

    def _move(self, match: re.Match[str]) -> str | None:
        fields, places = self._find_fields(match)
        try:
            moved = self._read(fields) + timedelta(self.days)
        except (ValueError, OverflowError):
            return None
        text = match.string
        written = _write_date(fields, moved, self.days, self.language)
        for name, (start, end) in sorted(places.items(), key=lambda item: -item[1][0]):
            text = text[:start] + written[name] + text[end:]
        return text

    def _read(self, fields: dict[str, str]) -> date:
        """The day of a date's fields; ValueError if there is none."""
        year = int(fields.get("year", _NO_YEAR))
        if len(fields.get("year", "")) == 2:
            latest = _LATEST_YEAR if self.latest_year is None else self.latest_year
            year = latest - (latest - year) % 100
        if "name" in fields:
            month = find_month(fields["name"], "en")
        elif "roman" in fields:
            month = _ROMANS.index(fields["roman"].upper()) + 1
        else:
            month = int(fields.get("month", 7))
        default_day = 15 if fields.keys() & {"name", "month", "roman"} else 1
        day = int(fields.get("day", default_day))
        if not 1 <= day <= 31:
            raise ValueError(day)
        return date(year, month, min(day, monthrange(year, month)[1]))


def _write_date(fields: dict[str, str], moved: date, days: int, language: str) -> dict[str, str]:
    """The fields of a date, each as it was written."""
    numbers = [fields[name] for name in ("day", "month") if name in fields]
    is_padded = any(number.startswith("0") for number in numbers)
    width = 2 if is_padded or [len(number) for number in numbers] == [2, 2] else 1
    written = {
        "day": f"{moved.day:0{width}}",
        "month": f"{moved.month:0{width}}",
        "year": f"{moved.year:04}"[-len(fields.get("year", "0000")) :],
        "ordinal": _ORDINALS.get(moved.day, "th"),
    }
    if "roman" in fields:
        written["roman"] = match_case(_ROMANS[moved.month - 1], fields["roman"])
    if "name" in fields:
        row, _ = _find_name(fields["name"], MONTHS, language)
        written["name"] = _match_title(row[moved.month - 1], fields["name"])
    if "weekday" in fields:
        row, weekday = _find_name(fields["weekday"], WEEKDAYS, language)
        written["weekday"] = _match_title(row[(weekday + days) % 7], fields["weekday"])
    return written


def find_month(name: str, language: str) -> int:
    """The number of a month, from 1, by its name or abbreviation; `language` is tried first."""
    return _find_name(name, MONTHS, language)[1] + 1


def _find_name(name: str, tables: dict[str, tuple[str, ...]], lang: str) -> tuple[list[str], int]:
    """The list of names that contains a name, and its index; this language's list is preferred."""
    for candidate in (lang, *tables):
        for row in tables[candidate]:
            names = normalize(row).split()
            if normalize(name) in names:
                return row.split(), names.index(normalize(name))
    raise ValueError(name)


def _match_title(name: str, original: str) -> str:
    is_title = original[:1].isupper() and not original.isupper()
    return name.capitalize() if is_title else match_case(name, original)
