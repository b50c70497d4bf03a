"""Surrogates of numbers and codes: random digits and letters in the same format."""

from __future__ import annotations

import re
import unicodedata

from .document_key import DocumentKey
from .term_lists import normalize

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_URL_START = re.compile(r"(?:[a-z]{3,5}://)?(?:www\.)?", re.IGNORECASE)


class FormatSurrogates:
    """Replace digits with random digits and letters with random letters.

    The same digits and letters give the same result, with any punctuation between them. Punctuation
    stays. In a text with more than one digit, a leading zero stays zero, and another leading digit
    does not become zero.
    """

    def __init__(self, key: DocumentKey):
        self._key = key

    def __call__(self, text: str) -> str | None:
        """The surrogate; None for a text without digits and letters."""
        value = "".join(filter(str.isalnum, normalize(text)))
        return self._write(text, value) if value else None

    def url(self, text: str) -> str | None:
        """The surrogate of a URL, whose beginning (`https://www.`) stays."""
        beginning = _URL_START.match(text)
        start = beginning.end() if beginning else 0
        rest = self(text[start:])
        return None if rest is None else text[:start] + rest

    def _write(self, text: str, value: str) -> str:
        is_leading = sum(map(str.isnumeric, text)) > 1
        written, drawn = [], 0
        for char in text:
            if char.isnumeric():
                digits = _leading_digits(char) if is_leading else "0123456789"
                written.append(self._key.choose(digits, "format", value, str(drawn)))
                is_leading = False
            elif char.isalpha() and char not in "ºª":
                letter = self._key.choose(_LETTERS, "format", value, str(drawn))
                written.append(letter.upper() if char.isupper() else letter)
            else:
                written.append("" if unicodedata.combining(char) else char)
                continue
            drawn += 1
        return "".join(written)


def _leading_digits(char: str) -> str:
    return "0" if unicodedata.decimal(char, None) == 0 else "123456789"
