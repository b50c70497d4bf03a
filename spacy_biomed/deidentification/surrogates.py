"""Surrogates for what identifies people in a document, all from one key.

Each is drawn from all that a mention of its format could be, the mention itself among them. One
that is never what it replaces would, over many documents, tell what it replaces: that which is
never there. For the same reason nothing is drawn anew when it happens to be the original, or what
another mention has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from .document_key import DocumentKey
from .surrogate_dates import DateShift, draw_shift, find_latest
from .surrogate_formats import FormatSurrogates
from .surrogate_names import NameSurrogates
from .surrogate_places import PlaceSurrogates

_SHORTER = "días?|semanas?|mes(?:es)?|horas?|days?|weeks?|months?|hours?"
_AGE = re.compile(
    rf"(?P<years>\d+)(?:[.,]\d+)?(?P<shorter>\s*-?\s*(?:{_SHORTER})\b)?", re.IGNORECASE
)


class Surrogates:
    """What stands for the mentions of one document.

    Attributes:
        key: what all choices follow from: those for names, places and numbers from the mention
            alone, so that they are the same in all documents with this key.
        language: "en" or "es".
        day_first: whether 12/03/2019 is the 12th of March.
        age_limit: ages from this on become it; lower ones stay. 0: no age stays.
        names: all mentions of people's names, in text order.
        dates: all mentions of dates, if the key is this document's alone; None if other documents
            have it too, and their dates have to move by as much.
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
    ):
        self._age_limit = age_limit
        latest = None if dates is None else find_latest(dates, language, day_first)
        days = draw_shift(key, latest, is_shared=dates is None)
        formats = FormatSurrogates(key)
        places = PlaceSurrogates(key, language, formats)
        self._makers: dict[str, Callable[[str], str | None]] = {
            "name": NameSurrogates(key, language, formats, names),
            "date": DateShift(days, language, day_first),
            "phone": formats,
            "id": formats,
            "email": formats,
            "url": formats.url,
            "place": places.place,
            "country": places.country,
            "institution": places.institution,
        }

    def __call__(self, kind: str, text: str) -> str | None:
        """The surrogate of a mention.

        Returns:
            what was drawn, the mention itself as likely as anything else; an age that stays; None
            where there is no surrogate, so that it is to become a tag.
        """
        if kind == "age":
            return limit_age(text, self._age_limit)
        make = self._makers.get(kind)
        return None if make is None else make(text)


def limit_age(text: str, limit: int) -> str | None:
    """An age with every number of years from the limit on set to it.

    HIPAA's "safe harbor" (45 CFR 164.514(b)(2)) takes ages over 89 together.

    Returns:
        the text; None if it has no number, or the limit is 0.

    Examples:
        >>> limit_age("93 years", 90), limit_age("18 months", 90), limit_age("elderly", 90)
        ('90 years', '18 months', None)
    """
    if not limit or not _AGE.search(text):
        return None

    def rewrite(match: re.Match[str]) -> str:
        is_lower = match["shorter"] or int(match["years"]) < limit
        return match[0] if is_lower else str(limit)

    return _AGE.sub(rewrite, text)
