"""Search for a string in a text, in time linear in the length of both."""

from __future__ import annotations

# For strings of this length or more, Python's search from the end can take time proportional to the
# product of both lengths; its search from the beginning never does.
_LONG = 100


def find_nearest(text: str, string: str, place: int) -> int | None:
    """Find the occurrence of a string nearest to an offset; of two equally near, the first.

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
    """Convert a text to lower case, with every character at the same offset.

    Examples:
        >>> fold_case("İZMİR")
        'İzmİr'
    """
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    return "".join(
        small if len(small := character.lower()) == 1 else character for character in text
    )
