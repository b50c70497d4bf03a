"""Where a text has a string, in time that grows no faster than both together."""

from __future__ import annotations

# From this length on, Python's search from the end can take the product of both lengths; that from
# the beginning never does.
_LONG = 100


def find_nearest(text: str, string: str, place: int) -> int | None:
    """Find the offset nearest to `place` at which a text has a string; of two, the first.

    Args:
        place: any offset, in the text or beyond it.
        string: not empty.

    Examples:
        >>> find_nearest("BRCA1 and BRCA1", "BRCA1", 8)
        10
    """
    place = min(max(place, 0), len(text))
    after = text.find(string, place)
    before = _find_last(text[: place + len(string) - 1], string)
    found = [offset for offset in (before, after) if offset >= 0]
    return min(found, key=lambda offset: abs(offset - place), default=None)


def _find_last(text: str, string: str) -> int:
    if len(string) < _LONG:
        return text.rfind(string)
    end = text[::-1].find(string[::-1])
    return -1 if end < 0 else len(text) - end - len(string)


def fold_case(text: str) -> str:
    """Write a text in small letters, each character in the place it has.

    >>> fold_case("İZMİR")
    'İzmİr'
    """
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    return "".join(
        small if len(small := character.lower()) == 1 else character for character in text
    )
