"""Offsets in the units in which programs count: code points, UTF-16, bytes, and line ends as one.

Java and JavaScript count UTF-16 code units, other programs bytes. If a text has CR LF, some count
it as one. If it has LF, they may have counted CR LF, before the line ends were converted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from unicodedata import category

from .documents import Mention, is_covered
from .spelling import reads_as

# A mention, and the string that the file gives for it; None if it gives none.
Quoted = tuple[Mention, str | None]

# What joins the next character to the one before, and the tones of skin.
_JOINER, _JOINED = "\u200d", "\u200d\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def count_code_points(
    text: str, found: Sequence[Quoted], shifts: Sequence[int] = (0,)
) -> list[Mention]:
    """The mentions at code points of a text, with most strings in their places.

    Of the shifts that offsets may have, the first is taken, and of units code points, unless others
    are better. Of mentions without strings, of which there must be two, all have to be whole words
    in another unit, which they are not in code points.
    """
    quoted = [place for place, (_, covered) in enumerate(found) if covered is not None]
    judged, least = (quoted, 0) if quoted else (range(len(found)), max(len(found), 2))
    best: list[Mention] = []
    most = -1
    for points in _list_readings(text):
        for shift in shifts:
            mentions = [_convert(mention, shift, points) for mention, _ in found]
            count = sum(_stands(text, mentions[place], found[place][1]) for place in judged)
            if most < 0 or (count > most and count >= least):
                best, most = mentions, count
            if most == len(judged):
                return best
    return best


def _list_readings(text: str) -> Iterator[dict[int, int]]:
    """The code points at which units begin, by the numbers of units; empty for code points."""
    yield {}
    plain = [1] * len(text)
    utf_16 = [1 + (character > "\uffff") for character in text]
    utf_8 = [len(character.encode("utf-8", "surrogatepass")) for character in text]
    if "\r\n" in text:
        change = [-(text[place - 1 : place + 1] == "\r\n") for place in range(len(text))]
    else:
        change = [int(character == "\n") for character in text]
    known = [plain]
    for sizes in (utf_16, utf_8, *(_add(sizes, change) for sizes in (plain, utf_16, utf_8))):
        known += [] if sizes in known else [sizes]
    # Characters as people see them, with all marks.
    seen = [
        int(category(one) not in ("Mn", "Me") and one not in _JOINED and last != _JOINER)
        for last, one in zip(" " + text, text, strict=False)
    ]
    known.append(_add(seen, [min(one, 0) for one in change]))
    for sizes in known[1:]:
        yield {unit: point for point, unit in enumerate(accumulate(sizes, initial=0))}


def _add(sizes: list[int], change: list[int]) -> list[int]:
    return [sum(pair) for pair in zip(sizes, change, strict=True)]


def _convert(mention: Mention, shift: int, points: dict[int, int]) -> Mention:
    if not (shift or points):
        return mention
    moved = mention.move(shift).fragments
    return replace(mention, fragments=tuple((points.get(a, a), points.get(b, b)) for a, b in moved))


def _stands(text: str, mention: Mention, covered: str | None) -> bool:
    if covered is not None:
        return is_covered(text, mention, covered) or reads_as(mention.read(text), covered)
    return all(
        0 <= start < end <= len(text)
        and text[start:end] == text[start:end].strip()
        and not any(_is_in_word(text, place) for place in (start, end))
        for start, end in mention.fragments
    )


def _is_in_word(text: str, place: int) -> bool:
    return 0 < place < len(text) and text[place - 1 : place + 1].isalnum()
