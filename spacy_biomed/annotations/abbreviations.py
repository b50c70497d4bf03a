"""Abbreviations that a text defines, as in "transient ischemic attack (TIA)"."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# What stands between brackets; longer remarks define no abbreviation.
_BRACKETED = re.compile(r"[(\[]([^()\[\]]{2,200})[)\]]")
# "(TIA; 12 patients)": the abbreviation ends there.
_REMARK = re.compile(r"[;,:]")
_WORD = re.compile(r"\S+")

# Characters of a short form at most, and before a bracket in which its long form is looked for.
_LONGEST, _REACH = 10, 300
_BINOMIAL = re.compile(r"([A-Z])[a-z]{2,} ([a-z][a-z-]{2,})")


class Abbreviation(NamedTuple):
    """The places where an abbreviation is defined, in characters, ends exclusive."""

    short_start: int
    short_end: int
    long_start: int
    long_end: int


def find_abbreviations(text: str) -> Iterator[Abbreviation]:
    """Find the definitions of abbreviations in a text, in order.

    A definition is a long form followed by its short form in brackets. The long form has its
    characters in the same order, the first at the beginning of a word (Schwartz and Hearst 2003, "A
    Simple Algorithm for Identifying Abbreviation Definitions in Biomedical Text"). The reverse, a
    long form in brackets, is not looked for: it was more often wrong than right.
    """
    for match in _BRACKETED.finditer(text):
        inner = _REMARK.split(match[1], maxsplit=1)[0]
        short = inner.strip()
        start = match.start(1) + inner.find(short)
        first = max(match.start() - _REACH, 0)
        before = text[first : match.start()].rstrip()
        size = _long_form_size(short, before) if _is_short_form(short) else None
        if size is not None:
            end = first + len(before)
            yield Abbreviation(start, start + len(short), end - size, end)


def abbreviate_binomial(name: str) -> str | None:
    """The short form of a species' name, "E. coli" of "Escherichia coli"; None for other names."""
    match = _BINOMIAL.fullmatch(name)
    return f"{match[1]}. {match[2]}" if match else None


def _is_short_form(form: str) -> bool:
    return (
        2 <= len(form) <= _LONGEST
        and form[0].isalnum()
        and any(map(str.isalpha, form))
        and len(form.split()) <= 2
    )


def _long_form_size(short: str, before: str) -> int | None:
    """How many characters at the end of a text are the long form of a short form, if any are."""
    begin = max(map(before.rfind, "()[]\n")) + 1  # after the last bracket or line break
    words = [word.start() for word in _WORD.finditer(before, begin)]
    if not words:
        return None
    first = words[-min(len(short) + 5, 2 * len(short), len(words))]
    place = len(before) - 1
    for index in range(len(short) - 1, -1, -1):
        character = short[index].lower()
        if not character.isalnum():
            continue
        while place >= first and not (
            before[place].lower() == character
            and (index or place == first or not before[place - 1].isalnum())
        ):
            place -= 1
        if place < first:
            return None
        place -= 1
    start = place + 1
    while start > first and not before[start - 1].isspace():
        start -= 1
    long = before[start:]
    return None if len(long) <= len(short) or short in long.split() else len(long)
