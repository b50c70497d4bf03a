"""Offsets in the units in which programs count: code points, UTF-16, bytes, and line ends as one.

Java and JavaScript count UTF-16 code units, other programs bytes. If a text has CR LF, some count
it as one. If it has LF, they may have counted CR LF, before the line ends were converted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from unicodedata import category

import numpy as np
from thinc.types import Ints1d

from .documents import Mention, is_covered
from .spelling import reads_as

# A mention, the string that the file gives for it (None if it gives none), and `file:line`.
Quoted = tuple[Mention, str | None, str]

# What joins the next character to the one before, and the tones of skin.
_JOINER, _JOINED = "\u200d", "\u200d\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def count_code_points(
    text: str, found: Sequence[Quoted], shifts: Sequence[int] = (0,)
) -> list[Mention]:
    """The mentions at code points of a text, with most strings in their places.

    It takes the first of the shifts that offsets may have, and code points as the unit, unless
    others are better. Mentions without strings move to another unit only if there are two or more,
    and all are whole words there, but not in code points.
    """
    quoted = [place for place, one in enumerate(found) if one[1] is not None]
    judged, least = (quoted, 0) if quoted else (range(len(found)), max(len(found), 2))

    def count(mentions: list[Mention]) -> int:
        return sum(stands(text, mentions[place], found[place][1]) for place in judged)

    best = [one[0] for one in found]
    most = count(best)
    readings = ((begins, shift) for begins in _list_readings(text) for shift in shifts)
    for begins, shift in readings if most < len(judged) else ():
        moved = [_convert(one[0].move(shift), begins) for one in found]
        if (number := count(moved)) > most and number >= least:
            best, most = moved, number
    return best


def _list_readings(text: str) -> Iterator[Ints1d]:
    """The places of all characters, and of the end, in units in which programs count."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    plain = np.ones(len(codes), "int64")
    utf_16 = plain + (codes > 0xFFFF)
    utf_8 = utf_16 + (codes > 0x7F) + (codes > 0x7FF)
    is_end = codes == ord("\n")
    is_second = is_end & (np.append(0, codes[:-1])[: len(codes)] == ord("\r"))
    change = -is_second.astype("int64") if is_second.any() else is_end
    # Characters as people see them, with all marks.
    distinct, places = np.unique(codes, return_inverse=True)
    is_mark = np.array([_is_mark(chr(code)) for code in distinct.tolist()], dtype=bool)[places]
    is_mark[1:] |= codes[:-1] == ord(_JOINER)
    units = [plain, utf_16, utf_8]
    units += [sizes + change for sizes in units]
    known = set()
    for sizes in (*units, ~(is_mark | is_second)):
        begins = np.append(0, np.cumsum(sizes))
        if (key := begins.tobytes()) not in known:
            known.add(key)
            yield begins


def _is_mark(character: str) -> bool:
    return character in _JOINED or category(character) in ("Mn", "Me")


def _convert(mention: Mention, begins: Ints1d) -> Mention:
    def find(offset: int) -> int:
        offset = min(max(offset, -1), int(begins[-1]) + 1)  # which NumPy can represent
        place = int(begins.searchsorted(offset, "right")) - 1
        return place if place >= 0 and begins[place] == offset else offset

    return replace(mention, fragments=tuple((find(a), find(b)) for a, b in mention.fragments))


def stands(text: str, mention: Mention, covered: str | None) -> bool:
    """Whether a mention reads as a string, or without one is whole words."""
    found = mention.read(text)
    edges = [place for fragment in mention.fragments for place in fragment]
    if min(edges) < 0 or max(edges) > len(text):
        return False
    if covered is not None:
        return is_covered(text, mention, covered) or reads_as(found, covered)
    in_words = (text[place - 1 : place + 1].isalnum() for place in edges if 0 < place < len(text))
    return bool(found) and found == found.strip() and not any(in_words)
