"""Surrogates for the personal data of a document, all drawn with one key.

Each surrogate is drawn from all possible values of its format, including the original. If the
original were excluded, it could be recognised over many documents as the value that never occurs.
For the same reason, a surrogate is not redrawn if it is the original or the surrogate of another
mention.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial

from .document_key import DocumentKey
from .pattern_forms import SHARED, find_form
from .surrogate_dates import DateShift, draw_shift, find_latest
from .surrogate_words import FormatSurrogates, NameSurrogates, PlaceSurrogates

_SHORTER = "días?|semanas?|mes(?:es)?|horas?|days?|weeks?|months?|hours?"
_AGE = re.compile(
    rf"(?P<years>\d+)(?:[.,]\d+)?(?P<shorter>\s*-?\s*(?:{_SHORTER})\b)?", re.IGNORECASE
)

_FOUR_DIGITS = re.compile(r"\d{4}")
# How long after the latest date of a document another of its dates may be (an appointment), and the
# last year of birth where no other date tells more.
_YEARS_AHEAD, _LATEST_BIRTH = 5, 2029


class Surrogates:
    """The surrogates for the mentions of one document.

    Attributes:
        key: the source of all choices. Surrogates of names, places and numbers depend only on the
            key and the mention, so they are the same in all documents with this key.
        language: "en" or "es".
        day_first: whether 12/03/2019 is the 12th of March.
        age_limit: ages from this value on become this value; lower ages stay. 0: no age stays.
        names: all mentions of people's names, in text order.
        dates: all mentions of dates but births, if no other document has this key; None if other
            documents share the key and the shift of dates.
        births: all mentions of dates of birth. Their kind in `__call__` is "birth". A year of two
            digits in them is not after the other dates.
    """

    def __init__(
        self,
        key: DocumentKey,
        language: str,
        *,
        day_first: bool,
        age_limit: int,
        names: Iterable[str],
        dates: Iterable[str] | None,
        births: Iterable[str] = (),
    ):
        visits = list(dates or ())
        with_years = [one for one in visits if _FOUR_DIGITS.search(one)]
        known = find_latest(with_years or visits, language, day_first)
        year = known.year + _YEARS_AHEAD if with_years and known else None
        birth_year = known.year if visits and known else _LATEST_BIRTH
        latest = find_latest(visits, language, day_first, year) or find_latest(
            births, language, day_first, birth_year
        )
        days = draw_shift(key, None if dates is None else latest, is_shared=dates is None)
        formats = FormatSurrogates(key)
        places = PlaceSurrogates(key, language, formats)
        self._makers: dict[str, Callable[[str], str | None]] = {
            "age": partial(limit_age, limit=age_limit),
            "name": NameSurrogates(key, language, formats, names),
            "date": DateShift(days, language, day_first, year),
            "birth": DateShift(days, language, day_first, birth_year),
            **dict.fromkeys(("phone", "id"), partial(write_number, formats=formats)),
            "email": formats,
            "url": formats.url,
            "place": places.place,
            "country": places.country,
            "institution": places.institution,
        }

    def __call__(self, kind: str, text: str) -> str | None:
        """The surrogate of a mention: the one drawn, which may be the mention itself.

        For an age, it is the text with ages limited; None if the mention has to become a tag.
        """
        make = self._makers.get(kind)
        return None if make is None else make(text)


def write_number(text: str, formats: FormatSurrogates) -> str | None:
    """The surrogate of a telephone or identifier; None if it has number words, as dictated.

    The lengths of other words would tell which digits they were.
    """
    return None if find_form(SHARED, "dictated").search(text) else formats(text)


def limit_age(text: str, limit: int) -> str | None:
    """Set all ages in years that reach the limit to the limit; None without a number or limit.

    HIPAA's "safe harbor" (45 CFR 164.514(b)(2)) groups all ages over 89.
    """
    if not limit or not _AGE.search(text):
        return None

    def rewrite(match: re.Match[str]) -> str:
        is_lower = match["shorter"] or int(match["years"]) < limit
        return match[0] if is_lower else str(limit)

    return _AGE.sub(rewrite, text)
