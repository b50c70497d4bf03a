"""Where the sentences of a note start."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ..normalization import find_continued, is_drug_list
from .term_files import read_groups

# Lines go on because they are full only in a paragraph of this width, with so many full lines.
_NARROWEST, _WIDEST = 45, 160
_LEAST_FULL_LINES = 2

_LINE = re.compile(r"[^\r\n\v\f\x85\u2028\u2029]+")
_ITEM = re.compile(r"\s*(?:[-*•·–—>+#¿]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)](?!\d)|\d{1,2}[-º°])")
_ROW = re.compile(r"\t|\||\S {3,}\S")
_FIELD = re.compile(r"\s*[^\W\d_][^:\n]{0,50}:(?!\d)")
_LINE_STOP = re.compile(r"[.:!?…][\"'”’»)\]]*\s*\Z")

# The end of a sentence in a line: closing signs belong to it, and the next word may touch it where
# a capital and a small letter show that a space is missing.
_STOP = re.compile(
    r"[.?!…](?<![.?!…]{2})"  # the sign before all else, so that the search is fast
    r"(?!\s+(?i:yes|no|none|nil|sí|y|n)\s*(?:[.,;|]|\Z))"  # "Fever? No"
    r"(?:[.?!…]*[\"'”’»)\]]*(?=\s)|(?<=[^\W\d_]{3}[.?!])(?=[^\W\d_a-zà-ÿ][a-zà-ÿ]))"
    r"\s*(?=([\"'“‘«¿¡(\[*•–-]*\s?(\w)?))"
)
_NO_SPACE = re.compile(r"\S")
_WORD = re.compile(r"\w")
_LONGEST_WORD = 30
_LONGEST_PARENTHESIS = 300


def find_sentence_starts(text: str, language: str) -> list[int]:
    """Find where the sentences of a text start, in time linear in its length.

    A sentence ends with a full stop, a question mark or an exclamation mark, and with its line. It
    does not end after an abbreviation, an initial or the number of a list item, in a parenthesis,
    or before a small letter after a short word.

    A line continues in the next one, and does not end a sentence, if it is plainly wrapped prose:

    - Its last word is a preposition, an article, or an abbreviation that needs a next word.
    - Or the next line begins with a small letter that tells it (`find_continued`).
    - Or the next word would have made it wider than any line of its paragraph. The paragraph must
      be 45 to 160 characters wide, and this must hold for two thirds of its lines, at least two.

    The sentence still ends if the line ends with a full stop or a colon, or if one of the two lines
    is in capitals or the row of a table. A list item, a field ("Name: value") and an item of a list
    of drugs also end it.

    Args:
        language: one of `NOTE_LANGUAGES`, for its abbreviations.

    Returns:
        offsets in characters, in order, each of a character that is not white space.
    """
    words = _read_abbreviations(language)
    starts: list[int] = []
    for paragraph in _paragraphs(text):
        start = paragraph[0][0]
        wrapped = _find_wrapped([text[start:end].rstrip() for start, end in paragraph], words)
        for (_, end), goes_on in zip(paragraph, wrapped, strict=True):
            if not goes_on:
                starts += _split(text, start, end, words)
                start = end + 1  # a line feed may be left, which is white space
    return starts


class _Abbreviations(NamedTuple):
    """Words after which no sentence ends: always, before a small letter, at the end of a line."""

    always: frozenset[str]
    small: frozenset[str]
    open: frozenset[str]


@cache
def _read_abbreviations(language: str) -> _Abbreviations:
    groups = read_groups(language, "abbreviations")
    names = ("always", "before a small letter", "open")
    return _Abbreviations(*(frozenset(groups[name]) for name in names))


def _paragraphs(text: str) -> Iterator[list[tuple[int, int]]]:
    """Yield the paragraphs: runs of lines without a blank line between them."""
    paragraph: list[tuple[int, int]] = []
    last = 0
    for line in _LINE.finditer(text):
        if line[0].isspace():
            continue
        start, end = line.span()
        if paragraph and start - last > 1 and text[last:start] != "\r\n":
            yield paragraph
            paragraph = []
        paragraph.append((start, end))
        last = end
    if paragraph:
        yield paragraph


def _find_wrapped(lines: list[str], words: _Abbreviations) -> list[bool]:
    """Whether each line of a paragraph goes on in the next."""
    width = max(map(len, lines))
    full = [
        len(line) + 1 + len(following.split(None, 1)[0]) > width
        for line, following in pairwise(lines)
    ]
    continued = find_continued(lines)
    is_list = not any(continued) and any(line.lstrip()[0].islower() for line in lines[1:])
    is_wrapped = not is_list and _NARROWEST <= width <= _WIDEST
    if not is_wrapped or sum(full) < max(_LEAST_FULL_LINES, 2 / 3 * len(full)):
        full = [False] * len(full)
    full = [one or other for one, other in zip(full, continued[:-1], strict=True)]
    pairs = zip(pairwise(lines), full, strict=True)
    return [*(_goes_on(*pair, words, is_full) for pair, is_full in pairs), False]


def _goes_on(line: str, following: str, words: _Abbreviations, is_full: bool) -> bool:
    """Whether a line goes on in the following one; see `find_sentence_starts`."""
    last = line.rsplit(None, 1)[-1].lower()
    is_open = last in words.open or (last.endswith(".") and last[:-1] in words.always)
    is_ended = not is_full or _LINE_STOP.search(line) or is_drug_list(line, following)
    if is_ended and not is_open:
        return False
    if _ITEM.match(following) or _FIELD.match(following):
        return False
    return not any(one.isupper() or _ROW.search(one) for one in (line, following))


def _split(text: str, start: int, end: int, words: _Abbreviations) -> Iterator[int]:
    """The starts of the sentences of a line, or of wrapped lines."""
    found = _NO_SPACE.search(text, start, end)
    assert found is not None  # the lines are not blank
    start = found.start()
    yield start
    word = _WORD.search(text, start, end)
    for stop in _STOP.finditer(text, start, end):
        if (
            stop.end() < end
            and text[stop.end()] not in ",;:)"
            and word is not None
            and word.start() < stop.start()  # not "? pneumonia", nor "Impression: ? pneumonia"
            and text[stop.start() - 2 : stop.start()] != ": "
            and _ends(text, start, stop, words)
        ):
            start = stop.end()
            yield start
            word = _WORD.search(text, start, end)


def _ends(text: str, start: int, stop: re.Match[str], words: _Abbreviations) -> bool:
    """Whether a sentence ends at a stop."""
    end = stop.start()
    is_small = stop[2] is not None and stop[2].islower()
    if text[end] == ".":
        before = text[max(start, end - _LONGEST_WORD) : end].rsplit(None, 1) or [""]
        word = before[-1].lstrip("([\"'“‘«¿¡/-").lower()
        if word in words.always or (word in words.small and is_small):
            return False
        is_alone = end - start < _LONGEST_WORD and text[start:end].strip(" (-").lower() == word
        is_item = is_alone and (word.isdigit() or len(word) == 1)
        # Not "for 7 d.", nor an answer: "Asthma: N."
        is_initial = len(word) == 1 and text[end - 1].isupper() and before[0].strip()[-1:] != ":"
        if is_item or is_initial or (is_small and len(word) < 4 and not word.isdigit()):
            return False
    if end - start > _LONGEST_PARENTHESIS:
        return True
    return text.count("(", start, stop.end()) <= text.count(")", start, stop.end())
