"""Patterns that a form alone does not tell: files that name somebody, telephones in rows."""

from __future__ import annotations

import re

from .pattern_forms import find_form
from .pattern_rules import Found, apply_table
from .plain_text import PlainText
from .term_lists import is_name, name_words, normalized_words

_LONGEST_FILE = 120


def find_web_addresses(plain: PlainText, language: str) -> Found:
    """Find e-mail addresses, also with a space beside the @, web addresses that begin with a
    protocol or www, IP addresses, and files whose name has a person's name or a number.
    """
    yield from apply_table("web", plain, language)
    yield from _find_files(plain)


def _find_files(plain: PlainText) -> Found:
    """Files and folders whose name has a person's name or a number."""
    for ending in find_form("web", "file_ending").finditer(plain.folded):
        first = max(ending.start() - _LONGEST_FILE, plain.text.rfind("\n", 0, ending.start()) + 1)
        stem = find_form("web", "file_stem").search(plain.text, first, ending.start())
        if stem and _names_somebody(stem[0]):
            yield stem.start(), ending.end(), "file"
    if "/" in plain.text or "\\" in plain.text:
        for path in find_form("web", "path").finditer(plain.text):
            if not path[0].replace("/", "").isdigit() and _names_somebody(path[0]):
                yield *path.span(), "file"


def _names_somebody(stem: str) -> bool:
    """Whether a file's name has a number of five digits, a name, or a word that is not ordinary."""
    ordinary = name_words("es").ordinary | name_words("en").ordinary
    stem = re.sub(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])", " ", stem)
    words = [word for word in normalized_words(stem) if len(word) > 2]
    return bool(re.search(r"\d{5}", stem)) or any(
        is_name(word) or (len(word) > 3 and word not in ordinary) for word in words
    )


def find_phones(plain: PlainText, language: str) -> Found:
    """Find numbers that are in use in the language's country, or are called a telephone or fax."""
    for start, end, pattern in apply_table("phones", plain, language):
        if not (plain.has_wide_gaps(start, end) and _is_row(plain.text, start, end)):
            yield start, end, pattern


def _is_row(text: str, start: int, end: int) -> bool:
    """Whether the line of a number has no letters."""
    line_end = text.find("\n", end)
    line = text[text.rfind("\n", 0, start) + 1 : line_end if line_end >= 0 else len(text)]
    return not any(map(str.isalpha, line))
