"""Abbreviations that a text defines, as in "transient ischemic attack (TIA)"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# What stands between brackets; longer remarks define no abbreviation.
_BRACKETED = re.compile(r"[(\[]([^()\[\]]{2,200})[)\]]")
# "(TIA; 12 patients)": the abbreviation ends there.
_REMARK = re.compile(r"[;,:]")
_LAST_WORD = re.compile(r"\S+\Z")
_WORD = re.compile(r"\S+")

LONGEST_SHORT_FORM = 10
# Characters before a bracket in which its long form is looked for.
_REACH = 300

_BINOMIAL = re.compile(r"([A-Z])[a-z]{2,} ([a-z][a-z-]{2,})")


class Abbreviation(NamedTuple):
    """The places where an abbreviation is defined, in characters, ends exclusive."""

    short_start: int
    short_end: int
    long_start: int
    long_end: int


def find_abbreviations(text: str) -> Iterator[Abbreviation]:
    """Find the definitions of abbreviations in a text, in order.

    A definition is a long form followed by its short form in brackets, or the reverse. The
    characters of the short form occur in the long form, in the same order, the first at the
    beginning of a word (Schwartz and Hearst 2003, "A Simple Algorithm for Identifying Abbreviation
    Definitions in Biomedical Text").
    """
    for match in _BRACKETED.finditer(text):
        end = len(text[max(match.start() - _REACH, 0) : match.start()].rstrip())
        end += max(match.start() - _REACH, 0)
        inner_start, inner_end = _strip(text, *_before_remark(text, *match.span(1)))
        short_start, short_end = inner_start, inner_end
        if _is_short_form(text[inner_start:inner_end]):
            long_start = _find_long_form(text, inner_start, inner_end, end)
            long_end = end
        else:
            last = _LAST_WORD.search(text, max(end - LONGEST_SHORT_FORM - 1, 0), end)
            if last is None or not _is_short_form(last.group()):
                continue
            short_start, short_end = last.span()
            long_end = inner_end
            long_start = _match(text, short_start, short_end, inner_start, inner_end)
            if long_start != inner_start:
                continue
        if long_start is not None:
            yield Abbreviation(short_start, short_end, long_start, long_end)


def abbreviate_binomial(name: str) -> str | None:
    """The short form of a species' name, "E. coli" of "Escherichia coli"; None for other names."""
    match = _BINOMIAL.fullmatch(name)
    return f"{match[1]}. {match[2]}" if match else None


def _before_remark(text: str, start: int, end: int) -> tuple[int, int]:
    remark = _REMARK.search(text, start, end)
    return (start, remark.start()) if remark else (start, end)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _is_short_form(form: str) -> bool:
    return (
        2 <= len(form) <= LONGEST_SHORT_FORM
        and form[0].isalnum()
        and any(map(str.isalpha, form))
        and len(form.split()) <= 2
    )


def _find_long_form(text: str, short_start: int, short_end: int, end: int) -> int | None:
    """Where the long form of a short form begins, among the words that end at `end`."""
    size = short_end - short_start
    first = max(end - _REACH, 0)
    words = [word.start() for word in _WORD.finditer(text, first, end)]
    if not words:
        return None
    return _match(text, short_start, short_end, words[-min(size + 5, 2 * size) :][0], end)


def _match(text: str, short_start: int, short_end: int, first: int, end: int) -> int | None:
    """Match the characters of a short form from the last to the first.

    Returns:
        the beginning of the word with the first character; None if `text[first:end]` is no long
        form of it.
    """
    place = end - 1
    for index in range(short_end - 1, short_start - 1, -1):
        character = text[index].lower()
        if not character.isalnum():
            continue
        while place >= first and not (
            text[place].lower() == character
            and (index > short_start or place == first or not text[place - 1].isalnum())
        ):
            place -= 1
        if place < first:
            return None
        place -= 1
    start = place + 1
    while start > first and not text[start - 1].isspace():
        start -= 1
    short, long = text[short_start:short_end], text[start:end]
    return None if len(long) <= len(short) or short in long.split() else start
