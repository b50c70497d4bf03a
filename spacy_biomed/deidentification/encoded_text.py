"""Texts that are still encoded, so that no name in them can be recognised, and their repair."""

from __future__ import annotations

import html
import quopri
import re

# Letters as HTML writes them; "&lt;" and "&amp;" hide no name.
_ENTITY = re.compile(
    r"&(?:[A-Za-z](?:acute|grave|circ|tilde|uml|cedil|slash|ring)|#x?[0-9a-fA-F]{2,5});"
)
_QUOTED = re.compile(r"(?:=(?:C3=[89AB]|[CDEF])[0-9A-F](?![0-9A-F]))")
_SOFT_BREAK = re.compile(r"=\r?\n")
# Letters of UTF-8 that were read as Latin-1 or cp1252.
_MISREAD = re.compile(
    "[\u00c2\u00c3]"
    "[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u2122]"
)
_HYPHENATED = re.compile(r"(?<=[^\W\d_])-[ \t]*\r?\n[ \t]*(?=[a-zß-ÿ])")
# A text with fewer hyphens at line ends may have compounds there.
_FEWEST_HYPHENS, _LEAST_SHARE = 3, 0.2


def find_encodings(text: str) -> list[str]:
    """The ways in which a text is still encoded; empty for a text as people read it."""
    found = {
        "HTML entities": _ENTITY.search(text),
        "quoted-printable": _QUOTED.search(text),
        "UTF-8 read as Latin-1": _MISREAD.search(text),
        "words hyphenated at line ends": _is_hyphenated(text),
    }
    return [name for name, is_found in found.items() if is_found]


def repair(text: str) -> str:
    """Decode a text in each of the ways that `find_encodings` finds.

    Examples:
        >>> repair("Jos&eacute; P=C3=A9rez"), repair("JosÃ© PÃ©rez")
        ('José Pérez', 'José Pérez')
    """
    if _QUOTED.search(text):
        text = _decode_quoted(_SOFT_BREAK.sub("", text))
    if _MISREAD.search(text):
        text = _MISREAD.sub(_read_again, text)
    if _ENTITY.search(text):
        text = html.unescape(text)
    return _HYPHENATED.sub("", text) if _is_hyphenated(text) else text


def _is_hyphenated(text: str) -> bool:
    count = len(_HYPHENATED.findall(text))
    return count >= _FEWEST_HYPHENS and count >= _LEAST_SHARE * text.count("\n")


def _decode_quoted(text: str) -> str:
    """Decode runs of "=C3=A9"; other signs of equality, as in "pH=7", stay."""

    def decode(match: re.Match[str]) -> str:
        data = quopri.decodestring(match[0].encode("ascii"))
        try:
            return data.decode("utf8")
        except UnicodeDecodeError:
            return data.decode("latin-1")

    return re.sub(r"(?:=[0-9A-F]{2})+", decode, text)


def _read_again(match: re.Match[str]) -> str:
    for encoding in ("cp1252", "latin-1"):
        try:
            return match[0].encode(encoding).decode("utf8")
        except UnicodeError:
            continue
    return match[0]
