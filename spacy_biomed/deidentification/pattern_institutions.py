"""Patterns of institutions: what follows their name is taken off, and some have none."""

from __future__ import annotations

import re

from .pattern_forms import find_form, is_eponym
from .pattern_rules import Found, apply_table
from .plain_text import PlainText, fold
from .term_lists import name_words, word_list

_LAST_WORD = re.compile(r"[ ]([^\s]+)\Z")


def find_institutions(plain: PlainText, language: str) -> Found:
    """Find institutions by their first or last word, and acronyms of hospitals."""
    ordinary = name_words(language).ordinary
    for start, end, pattern in apply_table("institutions", plain, language):
        value = plain.text[start:end]
        if fold(value) in ordinary:
            continue
        if language == "es" and " " in value:
            end = _trim(plain.text, start, end, language)
        yield start, end, pattern


def is_unnamed(value: str, language: str) -> bool:
    """Whether an institution has no name: "hospital de día", "Centro de Salud de referencia"."""
    no_institutions, ordinary = word_list("no_institutions"), name_words(language).ordinary
    kept = value.rstrip(".,")
    while fold(kept) not in no_institutions:
        kept, _, last = kept.rpartition(" ")
        is_name = not last.islower() or _is_general(last)
        if " " not in kept or is_name or not (_is_joining(last) or fold(last) in ordinary):
            return False
    return True


def _is_general(word: str) -> bool:
    return find_form("institutions", "general").fullmatch(word) is not None


def _is_joining(word: str) -> bool:
    return find_form("institutions", "joining").fullmatch(word) is not None


def _trim(text: str, start: int, end: int, language: str) -> int:
    """The end of an institution without the words of what follows, as in "Hospital La Paz TAC".

    Returns:
        the start, if nothing is left that names it.
    """
    ordinary = name_words(language).ordinary
    value = text[start:end]
    if is_unnamed(value, language) or is_eponym(text, start):
        return start
    has_capitals = not value.isupper() and value[0].isupper()
    while last := _LAST_WORD.search(value):
        word = last[1].strip("\"'.,;:")
        form = fold(word)
        goes_on = text[start + len(value) : start + len(value) + 2].strip(" ")
        is_part = form not in ordinary or word.isdigit() or _is_general(form)
        if has_capitals and word[:1].isupper() and not (word.isupper() and len(word) < 6):
            is_part = is_part or not (goes_on[:1] == ":" or goes_on[:1].islower())
        if is_part and not _is_joining(form):
            break
        value = value[: last.start()]
    last_word = fold(value.rpartition(" ")[2])
    is_named = has_capitals or not (_is_general(last_word) or _is_joining(last_word))
    return start + len(value) if " " in value and is_named else start
