"""With which characters the matches of a regular expression begin.

Most words that rules look for are in no given text, so a rule is tried only where a word begins
with one of them.
"""

from __future__ import annotations

import re

from .plain_text import LONGEST, NUMBER, fold

_MOST = 400
# The end of a string that nothing can be added to.
_CLOSED = "\0"
_AT_WORD = (r"\b", r"(?<![^\W_])", r"(?<![\w", r"(?<!\w)")
# A class of characters, an escape, a reference, the beginning of a group, or another character.
_PART = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|\\(?P<escaped>.)|(?P<back>\(\?P=\w+\))"
    r"|(?P<around>\(\?<?[=!])|(?P<group>\((?:\?(?:P<\w+>|[a-z]*:))?)|(?P<other>.)",
    re.DOTALL,
)
_REPEAT = re.compile(r"(?P<sign>[*+?]|\{(?P<least>\d*)[\d,]*\})[?+]?")


def find_prefixes(form: str) -> frozenset[str]:
    """Folded strings of at most three characters, with one of which every match begins.

    Args:
        form: regular expression of groups, classes, escapes and alternatives.

    Returns:
        the strings, `NUMBER` for any number; empty if matches may begin within a word, or nothing
        can be said.

    Examples:
        >>> sorted(find_prefixes(r"\\b(?:tel[eé]fono|m[óo]vil|\\d)s?[:.]?\\s*"))
        ['0', 'mov', 'tel']
    """
    if not form.startswith(_AT_WORD):
        return frozenset()
    found, _ = _read_alternatives(form, 0)
    prefixes = {one.rstrip(_CLOSED) for one in found}
    is_known = len(prefixes) <= _MOST and all(
        one == NUMBER or one[:1].isalpha() for one in prefixes
    )
    return frozenset(prefixes) if is_known else frozenset()


def _read_alternatives(form: str, place: int) -> tuple[set[str], int]:
    """The beginnings of alternatives up to the end of their group, and the place after it."""
    united: set[str] = set()
    sign = "|"
    while sign == "|":
        found, place = _read_sequence(form, place)
        united |= found
        sign = form[place : place + 1]
        place += 1
    return united, place


def _read_sequence(form: str, place: int) -> tuple[set[str], int]:
    found = {""}
    while place < len(form) and form[place] not in "|)":
        part = _PART.match(form, place)
        assert part is not None
        place = part.end()
        if part["group"] or part["around"]:
            strings, place = _read_alternatives(form, place)
            strings = {""} if part["around"] else strings
        else:
            strings = _read_part(part)
        if repeat := _REPEAT.match(form, place):
            place = repeat.end()
            if repeat["sign"] != "?":
                strings = {one + _CLOSED for one in strings}
            if repeat["sign"] in "?*" or repeat["least"] in ("", "0"):
                strings |= {""}
        found = {_join(one, other) for one in found for other in strings}
        if len(found) > _MOST:
            return {_CLOSED}, _skip(form, place)
    return found, place


def _skip(form: str, place: int) -> int:
    """The end of a sequence of which nothing more is asked."""
    while place < len(form) and form[place] not in "|)":
        part = _PART.match(form, place)
        assert part is not None
        place = part.end()
        if part["group"] or part["around"]:
            while form[place : place + 1] not in ("", ")"):
                place = _skip(form, place + (form[place] == "|"))
            place += 1
    return place


def _join(string: str, following: str) -> str:
    if string.endswith(_CLOSED):
        return string
    joined = string + following
    return joined[:LONGEST] + _CLOSED if len(joined.rstrip(_CLOSED)) >= LONGEST else joined


def _read_part(part: re.Match[str]) -> set[str]:
    """The strings that a class, an escape or a character stands for."""
    unknown = {_CLOSED}
    if part["escaped"]:
        if part["escaped"] == "d":
            return {NUMBER + _CLOSED}
        is_place = part["escaped"] in "bBAZ"
        return {""} if is_place else unknown if part["escaped"].isalnum() else {part["escaped"]}
    if part["class"]:
        is_plain = not re.search(r"[\\^-]", part["class"])
        return set(fold(part["class"][1:-1])) if is_plain else unknown
    if part["other"]:
        char = part["other"]
        return {""} if char in "^$" else unknown if char == "." else {fold(char)}
    return unknown
