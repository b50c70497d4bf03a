"""Where the sentences of a note start."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import groupby

from .term_files import read_groups

# A line is wrapped prose only in a paragraph of this width, in characters.
NARROWEST, WIDEST = 45, 160
# Lines that are as wide as the paragraph, which show that it is wrapped before a capital too.
_LEAST_FULL_LINES = 2

_LINE = re.compile(r"[^\r\n\v\f\x85\u2028\u2029]+")
_LINE_END = re.compile(r"\r\n?|[\n\v\f\x85\u2028\u2029]")
_ITEM = re.compile(r"\s*(?:[-*•·–—>+#¿]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)](?!\d)|\d{1,2}[-º°])")
_ROW = re.compile(r"\t|\||\S {3,}\S")
_FIELD = re.compile(r"\s*[^\W\d_][^:\n]{0,50}:(?!\d)")
_LINE_STOP = re.compile(r"[.:;!?…][\"'”’»)\]]*\s*\Z")
_FIRST_WORD = re.compile(r"\s*(\S+)")

# The end of a sentence in a line: closing signs belong to it, and the next word may touch it where
# a capital and a small letter show that a space is missing.
_STOP = re.compile(
    r"(?:[.?!…]+[\"'”’»)\]]*(?=\s)|(?<=[^\W\d_]{3})[.?!](?=[^\W\d_a-zà-ÿ][a-zà-ÿ]))"
    r"\s*(?=([\"'“‘«¿¡(\[*•–-]*\s?(\w)?))"
)
_LAST_WORD = re.compile(r"\S*\Z")
_LONGEST_WORD = 30
_LONGEST_PARENTHESIS = 300


def find_sentence_starts(text: str, language: str) -> list[int]:
    """Find where the sentences of a text start, in time linear in its length.

    A sentence ends with a full stop, a question mark or an exclamation mark, and with its line. It
    does not end after an abbreviation, an initial or the number of a list item, in a parenthesis,
    or before a small letter after a short word. Its line does not end it where the text is plainly
    wrapped prose: the paragraph is 45 to 160 characters wide, the next word would have made the
    line wider than any line of the paragraph, and that word begins with a small letter, or at least
    two thirds of the paragraph's lines are full in this way. List items, fields ("Name: value"),
    headings in capitals, and rows of tables are never wrapped.

    Args:
        language: one of `NOTE_LANGUAGES`, for its abbreviations.

    Returns:
        offsets in characters, in order, each of a character that is not white space.
    """
    groups = read_groups(language, "abbreviations")
    always, small = frozenset(groups["always"]), frozenset(groups["before a small letter"])
    starts = []
    for start, end in _join_lines(text):
        starts += _split(text, start, end, always, small)
    return starts


def _join_lines(text: str) -> Iterator[tuple[int, int]]:
    """The lines of a text, those of wrapped prose as one."""
    for paragraph in _paragraphs(text):
        start = paragraph[0][0]
        for (_, end), goes_on in zip(paragraph, _find_wrapped(text, paragraph), strict=True):
            if not goes_on:
                yield start, end
                following = _LINE_END.match(text, end)
                start = following.end() if following else end


def _paragraphs(text: str) -> Iterator[list[tuple[int, int]]]:
    """The lines, without blank ones, between which are none."""
    lines = [(one.start(), one.end()) for one in _LINE.finditer(text)]
    filled = [(start, end) for start, end in lines if not text[start:end].isspace()]
    group = 0
    numbered = []
    last = 0
    for start, end in filled:
        group += len(_LINE_END.findall(text, last, start)) > 1
        numbered.append((group, start, end))
        last = end
    for _, members in groupby(numbered, key=lambda one: one[0]):
        yield [(start, end) for _, start, end in members]


def _find_wrapped(text: str, lines: list[tuple[int, int]]) -> list[bool]:
    """Whether each line of a paragraph goes on in the next."""
    shown = [text[start:end].rstrip() for start, end in lines]
    width = max(map(len, shown))
    if len(lines) == 1 or not NARROWEST <= width <= WIDEST:
        return [False] * len(lines)
    full, before_small = [], []
    for line, following in zip(shown, shown[1:], strict=False):
        word = _FIRST_WORD.match(following)
        assert word is not None  # no line is blank
        is_full = len(line) + 1 + len(word[1]) > width and len(line) >= NARROWEST
        full.append(is_full and not _stands_alone(line, following))
        before_small.append(word[1][0].islower())
    is_prose = sum(full) >= max(_LEAST_FULL_LINES, 2 / 3 * len(full))
    wrapped = [
        fills and (is_small or is_prose) for fills, is_small in zip(full, before_small, strict=True)
    ]
    return [*wrapped, False]


def _stands_alone(line: str, following: str) -> bool:
    """Whether a line cannot be wrapped: a heading or a row, or one before an item or a field."""
    return bool(
        _LINE_STOP.search(line)
        or line.isupper()
        or _ROW.search(line)
        or _ROW.search(following)
        or _ITEM.match(following)
        or _FIELD.match(following)
        or following.isupper()
    )


def _split(
    text: str, start: int, end: int, always: Collection[str], small: Collection[str]
) -> Iterator[int]:
    """The starts of the sentences of a line, or of wrapped lines."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    yield start
    for stop in _STOP.finditer(text, start, end):
        if stop.end() < end and _ends(text, start, stop, always, small):
            start = stop.end()
            yield start


def _ends(
    text: str, start: int, stop: re.Match[str], always: Collection[str], small: Collection[str]
) -> bool:
    """Whether a sentence ends at a stop."""
    before = text[max(start, stop.start() - _LONGEST_WORD) : stop.start()].rstrip()
    found = _LAST_WORD.search(before)
    assert found is not None  # it may be empty
    word = found[0].lstrip("([\"'“‘«¿¡/-").lower()
    is_small = stop[2] is not None and stop[2].islower()
    if text[stop.start()] == ".":
        if word in always or (word in small and is_small):
            return False
        is_initial = len(word) == 1 and word.isalpha()
        is_number = word.isdigit() and text[start : stop.start()].strip(" (-") == word
        if is_initial or is_number or (is_small and len(word) < 4 and not word.isdigit()):
            return False
    if stop.start() - start > _LONGEST_PARENTHESIS:
        return True
    return text.count("(", start, stop.end()) <= text.count(")", start, stop.end())
