"""Where the sentences of a note start."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import groupby

from .term_files import read_groups

# Before a small letter, a line of this width goes on in the next.
_WIDE_LINE = 30
# Before a capital or a digit, only in a paragraph of this width, with so many full lines.
_NARROWEST, _WIDEST = 45, 160
_LEAST_FULL_LINES = 2

_LINE = re.compile(r"[^\r\n\v\f\x85\u2028\u2029]+")
_LINE_END = re.compile(r"\r\n?|[\n\v\f\x85\u2028\u2029]")
_ITEM = re.compile(r"\s*(?:[-*•·–—>+#¿]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)](?!\d)|\d{1,2}[-º°])")
_ROW = re.compile(r"\t|\||\S {3,}\S")
_FIELD = re.compile(r"\s*[^\W\d_][^:\n]{0,50}:(?!\d)")
_LINE_STOP = re.compile(r"[.:!?…][\"'”’»)\]]*\s*\Z")

# The end of a sentence in a line: closing signs belong to it, and the next word may touch it where
# a capital and a small letter show that a space is missing.
_STOP = re.compile(
    r"[.?!…](?<![.?!…]{2})"  # the sign before all else, so that the search is fast
    r"(?:[.?!…]*[\"'”’»)\]]*(?=\s)|(?<=[^\W\d_]{3}[.?!])(?=[^\W\d_a-zà-ÿ][a-zà-ÿ]))"
    r"\s*(?=([\"'“‘«¿¡(\[*•–-]*\s?(\w)?))"
)
_WORD = re.compile(r"\w")
_LAST_WORD = re.compile(r"\S*\Z")
_LONGEST_WORD = 30
_LONGEST_PARENTHESIS = 300


def find_sentence_starts(text: str, language: str) -> list[int]:
    """Find where the sentences of a text start, in time linear in its length.

    A sentence ends with a full stop, a question mark or an exclamation mark, and with its line. It
    does not end after an abbreviation, an initial or the number of a list item, in a parenthesis,
    or before a small letter after a short word.

    A line continues in the next one, and does not end a sentence, if it is plainly wrapped prose:

    - Its last word is a preposition, an article, or an abbreviation that needs a next word.
    - Or it has 30 characters or more and the next line begins with a small letter.
    - Or the next word would have made it wider than any line of its paragraph. The paragraph must
      be 45 to 160 characters wide, and this must hold for two thirds of its lines, at least two.

    The sentence still ends if the line ends with a full stop or a colon, or if one of the two lines
    is in capitals or the row of a table. A list item and a field ("Name: value") also end it.

    Args:
        language: one of `NOTE_LANGUAGES`, for its abbreviations.

    Returns:
        offsets in characters, in order, each of a character that is not white space.
    """
    groups = read_groups(language, "abbreviations")
    always, small = frozenset(groups["always"]), frozenset(groups["before a small letter"])
    open_words = frozenset(groups["open"])
    starts: list[int] = []
    for start, end in _join_lines(text, always, open_words):
        starts += _split(text, start, end, always, small)
    return starts


def _join_lines(
    text: str, always: Collection[str], open_words: Collection[str]
) -> Iterator[tuple[int, int]]:
    """The lines of a text, those of wrapped prose as one."""
    for paragraph in _paragraphs(text):
        start = paragraph[0][0]
        wrapped = _find_wrapped([text[slice(*line)] for line in paragraph], always, open_words)
        for (_, end), goes_on in zip(paragraph, wrapped, strict=True):
            if not goes_on:
                yield start, end
                following = _LINE_END.match(text, end)
                start = following.end() if following else end


def _paragraphs(text: str) -> Iterator[list[tuple[int, int]]]:
    """Yield the paragraphs: runs of lines without a blank line between them."""
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


def _find_wrapped(
    lines: list[str], always: Collection[str], open_words: Collection[str]
) -> list[bool]:
    """Whether each line of a paragraph goes on in the next."""
    lines = [line.rstrip() for line in lines]
    width = max(map(len, lines))
    pairs = list(zip(lines, lines[1:], strict=False))
    full = [len(line) + 1 + len(following.split(None, 1)[0]) > width for line, following in pairs]
    is_prose = _NARROWEST <= width <= _WIDEST and sum(full) >= max(
        _LEAST_FULL_LINES, 2 / 3 * len(full)
    )
    wrapped = [
        _goes_on(line, following, always, open_words, is_prose and is_full)
        for (line, following), is_full in zip(pairs, full, strict=True)
    ]
    return [*wrapped, False]


def _goes_on(
    line: str,
    following: str,
    always: Collection[str],
    open_words: Collection[str],
    is_full: bool,
) -> bool:
    """Whether a line goes on in the following one; see `find_sentence_starts`."""
    if (
        line.isupper()
        or following.isupper()
        or _ROW.search(line)
        or _ROW.search(following)
        or _ITEM.match(following)
        or _FIELD.match(following)
    ):
        return False
    last = line.split()[-1].lower()
    if last in open_words or (last.endswith(".") and last[:-1] in always):
        return True
    if _LINE_STOP.search(line):
        return False
    return is_full or (len(line) >= _WIDE_LINE and following.lstrip()[0].islower())


def _split(
    text: str, start: int, end: int, always: Collection[str], small: Collection[str]
) -> Iterator[int]:
    """The starts of the sentences of a line, or of wrapped lines."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    yield start
    for stop in _STOP.finditer(text, start, end):
        if (
            stop.end() < end
            and text[stop.end()] not in ",;:)"
            and _ends(text, start, stop, always, small)
        ):
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
    if not _WORD.search(text, start, stop.start()):  # "? pneumonia"
        return False
    if stop.start() - start > _LONGEST_PARENTHESIS:
        return True
    return text.count("(", start, stop.end()) <= text.count(")", start, stop.end())
