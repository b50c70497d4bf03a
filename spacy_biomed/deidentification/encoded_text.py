"""Texts that are still encoded, so that no name in them can be recognised, and their repair."""

from __future__ import annotations

import base64
import binascii
import html
import quopri
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from .plain_text import fold
from .term_lists import is_name, name_words

# Letters as HTML writes them, also twice; "&lt;" and "&amp;" hide no name.
_ENTITY = re.compile(
    r"&(?:amp;)*(?:[A-Za-z](?:acute|grave|circ|tilde|uml|cedil|slash|ring);?|nbsp;"
    r"|#(?:\d{2,5}|[xX][0-9a-fA-F]{2,5});)"
)
# In UTF-8, or a letter of Latin-1: within a word, or a small one at its end ("Jos=E9", "L=C5").
_QUOTED = re.compile(
    r"=(?:[cC]3=[89abAB][0-9a-fA-F]|[C-F][0-9A-F](?=[a-z]|=\n)|[EF][0-9A-F](?![0-9A-Za-z]))"
)
_SOFT_BREAK = re.compile(r"=\r?\n")
# Not in a web address.
_PERCENT = re.compile(r"(?<!\S)(?!\w+://|www\.)\S*?%[cC]3%[89abAB][0-9a-fA-F]")
# Letters as JSON and Python, RTF and HL7 write them.
_ESCAPED = re.compile(
    r"\\u00([0-9a-fA-F]{2})|\\x([89a-fA-F][0-9a-fA-F])|\\'([89a-f][0-9a-f])|\\X((?:[0-9A-F]{2})+)\\"
)
_BASE64 = re.compile(r"\s*(?:[A-Za-z0-9+/]{4}\s*){10,}(?:[A-Za-z0-9+/]{2,3}={1,2})?\s*")
# Encodings in which UTF-8 is read by mistake. The first two differ little.
_READERS = ("cp1252", "latin-1", "mac-roman", "cp850", "cp437")
# Encodings of one byte that are taken for each other: what a text was read in, and what it is in.
_CONFUSED = [
    (read, written)
    for read in ("cp1252", "cp850", "cp437", "mac-roman", "cp1251")
    for written in ("cp1252", "cp850", "mac-roman")
    if read != written
]
# Signs beside letters that are letters of another encoding.
_ODD = re.compile(
    "(?<=[^\\W\\d_])[¡-©¬-¯±-¶¸¹¼-¿×÷‚„†‡‰•˙˜Žžœ\u0400-\u04ff\u2500-\u25ff√≈Œ]"
    "|(?<=[a-zß-ÿ])[À-ÖØ-Þ–—‘’“”](?=[a-zß-ÿ])"
)
# The fewest words that make sense only in another encoding.
_FEWEST_WORDS = 2
# Letters that an encoding did not have. "fiebre?no" is a question.
_LOST = re.compile("�|(?<=[a-zß-ÿ])\\?(?=[a-zß-ÿ])(?!(?:no|s[ií])\\b)")
_FEWEST_LOST = 3
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-¬\u00ad\u2010][ \t]*(?:\r\n?|\n)[ \t]*(?=[a-zß-ÿ])")
# A text with fewer hyphens at line ends may have compounds there.
_FEWEST_HYPHENS, _LEAST_SHARE = 3, 0.2
# How often a text may have been encoded.
_MOST_TIMES = 4


def find_encodings(text: str) -> list[str]:
    """The ways in which a text is still encoded; empty for a text as people read it."""
    found = [way.name for way in _WAYS if way.is_in(text)]
    if len(_LOST.findall(text)) >= _FEWEST_LOST:
        found.append("letters lost in decoding, which only its source still has")
    return found


def repair(text: str) -> str:
    """Decode a text in each of the ways that `find_encodings` finds, also if it was encoded twice.

    Letters that are lost stay so.

    Examples:
        >>> repair("Jos&eacute; P=C3=A9rez"), repair("JosÃ© PÃ©rez")
        ('José Pérez', 'José Pérez')
    """
    for _ in range(_MOST_TIMES):
        before = text
        for way in _WAYS:
            if way.is_in(text):
                text = way.decode(text)
        if text == before:
            break
    return text


class _Way(NamedTuple):
    """A way to encode a text: its name, whether a text is so encoded, and what it decodes to."""

    name: str
    is_in: Callable[[str], object]
    decode: Callable[[str], str]


def _is_hyphenated(text: str) -> bool:
    count = len(_HYPHENATED.findall(text))
    return count >= _FEWEST_HYPHENS and count >= _LEAST_SHARE * len(re.findall(r"\r\n?|\n", text))


def _decode_quoted(text: str) -> str:
    """Decode runs of "=C3=A9"; other signs of equality, as in "pH=7", stay."""
    return re.sub(
        r"(?:=[0-9A-Fa-f]{2})+",
        lambda match: _decode_bytes(quopri.decodestring(match[0].encode("ascii"))),
        _SOFT_BREAK.sub("", text),
    )


def _is_percent(text: str) -> bool:
    has_spaces = text.count("%20") > max(text.count(" "), 1)
    return has_spaces or _PERCENT.search(text) is not None


def _decode_percent(text: str) -> str:
    if " " not in text:
        text = text.replace("+", " ")
    return re.sub(
        r"(?:%[0-9A-Fa-f]{2})+", lambda one: _decode_bytes(unquote_to_bytes(one[0])), text
    )


def _decode_escaped(text: str) -> str:
    def decode(match: re.Match[str]) -> str:
        if match[4]:
            return _decode_bytes(bytes.fromhex(match[4]))
        code = int(match[1] or match[2] or match[3], 16)
        return bytes([code]).decode("cp1252", "replace") if match[3] else chr(code)

    return _ESCAPED.sub(decode, text)


def _decode_bytes(data: bytes) -> str:
    try:
        return data.decode("utf8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _decode_base64(text: str) -> str | None:
    """The text that a text in Base64 stands for; None for other texts."""
    if not _BASE64.fullmatch(text):
        return None
    try:
        decoded = base64.b64decode(re.sub(r"\s", "", text), validate=True).decode("utf8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return decoded if " " in decoded and decoded.replace("\n", "").isprintable() else None


@cache
def _misread(leads: bytes, readers: tuple[str, ...]) -> re.Pattern[str]:
    """Two bytes of UTF-8, the first one of `leads`, as encodings of one byte read them."""
    pairs = set()
    for reader in readers:
        seconds = bytes(range(0x80, 0xC0)).decode(reader, "ignore")
        pairs |= {lead + second for lead in leads.decode(reader) for second in seconds}
    return re.compile("|".join(map(re.escape, sorted(pairs))))


def _is_misread(text: str) -> bool:
    if text.isascii():
        return False
    found = _misread(b"\xc2\xc3", _READERS[:2]).search(text)
    return bool(found or _misread(b"\xc3", _READERS[2:]).search(text))


def _read_again(text: str) -> str:
    def decode(match: re.Match[str]) -> str:
        for reader in _READERS:
            try:
                return match[0].encode(reader).decode("utf8")
            except UnicodeError:
                continue
        return match[0]

    is_latin = _misread(b"\xc2\xc3", _READERS[:2]).search(text)
    readers = _READERS[:2] if is_latin else _READERS[2:]
    return _misread(b"\xc2\xc3", readers).sub(decode, text)


def _find_confused(text: str) -> tuple[str, str] | None:
    """The encoding that a text was read in and its own, if its words only make sense in that."""
    if len(_ODD.findall(text)) < _FEWEST_WORDS:
        return None
    words = {word for word in re.split(r"[\s.,;:()/]+", text) if _ODD.search(word)}
    known = {pair: sum(_is_word(_change(word, pair)) for word in words) for pair in _CONFUSED}
    best = max(known, key=lambda pair: known[pair])
    return best if known[best] >= _FEWEST_WORDS else None


def _change(text: str, pair: tuple[str, str]) -> str:
    """Characters of one encoding as those of another; the text itself if some are not in it."""
    try:
        return text.encode(pair[0]).decode(pair[1])
    except UnicodeError:
        return text


def _is_word(word: str) -> bool:
    """Whether a word of four letters or more is known."""
    form = fold(word)
    is_long = word.isalpha() and len(form) > 3
    return is_long and (form in name_words("es").ordinary or is_name(form))


def _change_signs(text: str) -> str:
    pair = _find_confused(text)
    return (
        text if pair is None else re.sub(r"[^\x00-\x7f]+", lambda one: _change(one[0], pair), text)
    )


_WAYS = (
    _Way("Base64", _decode_base64, lambda text: _decode_base64(text) or text),
    _Way("percent-encoding", _is_percent, _decode_percent),
    _Way("quoted-printable", _QUOTED.search, _decode_quoted),
    _Way("HTML entities", _ENTITY.search, html.unescape),
    _Way("escapes of JSON, RTF or HL7", _ESCAPED.search, _decode_escaped),
    _Way("UTF-8 read as Latin-1", _is_misread, _read_again),
    _Way("read in another encoding", _find_confused, _change_signs),
    _Way("words hyphenated at line ends", _is_hyphenated, lambda text: _HYPHENATED.sub("", text)),
)
