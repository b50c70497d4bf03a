"""Surrogates of numbers and codes: random digits and letters in the same format."""

from __future__ import annotations

import re
import unicodedata

from .document_key import DocumentKey
from .term_lists import normalize

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# A number after a country code or a trunk 0. Fewer digits than these may be of two values.
_DIALLED = re.compile(r"(?:00)?34(?=\d{9}\Z)|(?:00)?(?:1|44)(?=\d{10}\Z)|0(?=\d{10}\Z)")
_FEWEST_DIGITS = 5
_URL_START = re.compile(r"(?:[a-z]{3,5}://)?(?:www\.)?", re.IGNORECASE)


class FormatSurrogates:
    """Replace digits with random digits and letters with random letters.

    The same digits and letters give the same result, with any punctuation between them; five digits
    or more also with other letters beside them, or after a country's code. Punctuation stays. In a
    text with more than one digit, a leading zero stays zero, and another leading digit does not
    become zero.
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
        digits = "".join(filter(str.isnumeric, normalize(text)))
        code = _DIALLED.match(digits)
        number = digits[code.end() :] if code else digits
        leading = {0, len(digits) - len(number)} if len(digits) > 1 else set()
        written, drawn, place = [], 0, 0
        for char in text:
            if char.isnumeric():
                options = _leading_digits(char) if place in leading else "0123456789"
                after = place - (len(digits) - len(number))
                if len(number) < _FEWEST_DIGITS:
                    purpose = value, str(drawn)
                elif after < 0:
                    purpose = digits, str(place)
                else:
                    purpose = number, str(after)
                written.append(self._key.choose(options, "format", *purpose))
                place += 1
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
