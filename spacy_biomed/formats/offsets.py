"""Offsets in the units in which programs count: code points, UTF-16, bytes, and line ends as one.

Java and JavaScript count UTF-16 code units, other programs bytes. If a text has CR LF, some count
it as one. If it has LF, they may have counted CR LF, before the line ends were converted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, product
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
    best = [mention for mention, _ in found]
    most = sum(_stands(text, *found[place]) for place in judged)
    for points, shift in product(_list_readings(text), shifts) if most < len(judged) else ():
        moved = [(mention.move(shift), covered) for mention, covered in found]
        moved = [(_convert(mention, points), covered) for mention, covered in moved]
        count = sum(_stands(text, *moved[place]) for place in judged)
        if count > most and count >= least:
            best, most = [mention for mention, _ in moved], count
    return best


def _list_readings(text: str) -> Iterator[dict[int, int]]:
    """The code points at which units begin, by the numbers of units."""
    utf_16 = [1 + (character > "\uffff") for character in text]
    utf_8 = [len(character.encode("utf-8", "surrogatepass")) for character in text]
    units = [[1] * len(text), utf_16, utf_8]
    if "\r\n" in text:
        change = [-(text[place - 1 : place + 1] == "\r\n") for place in range(len(text))]
    else:
        change = [int(character == "\n") for character in text]
    # Characters as people see them, with all marks.
    seen = [
        int(category(one) not in ("Mn", "Me") and one not in _JOINED and last != _JOINER)
        for last, one in zip(" " + text, text, strict=False)
    ]
    units += [_add(sizes, change) for sizes in units]
    units += [_add(seen, [min(one, 0) for one in change])]
    for sizes in dict.fromkeys(map(tuple, units)):
        yield {unit: point for point, unit in enumerate(accumulate(sizes, initial=0))}


def _add(sizes: list[int], change: list[int]) -> list[int]:
    return [sum(pair) for pair in zip(sizes, change, strict=True)]


def _convert(mention: Mention, points: dict[int, int]) -> Mention:
    places = tuple((points.get(a, a), points.get(b, b)) for a, b in mention.fragments)
    return replace(mention, fragments=places)


def _stands(text: str, mention: Mention, covered: str | None) -> bool:
    """Whether a mention reads as a string, or without one is whole words."""
    found = mention.read(text)
    if covered is not None:
        return is_covered(text, mention, covered) or reads_as(found, covered)
    edges = [place for fragment in mention.fragments for place in fragment]
    in_words = (text[place - 1 : place + 1].isalnum() for place in edges if 0 < place < len(text))
    is_inside = min(edges) >= 0 and max(edges) <= len(text)
    return is_inside and bool(found) and found == found.strip() and not any(in_words)
