"""Texts that are still encoded, so that no name in them can be recognised, and their repair."""

import base64
import html
import quopri
import re
from collections.abc import Callable
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from functools import cache
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
# In UTF-8, also twice, or a letter of Latin-1 within a word or at its end. Not in a web address.
_PERCENT = re.compile(
    r"(?<!\S)(?!\w+://|www\.)(?=[^\s%]*%)\S*?"
    r"(?:%(?:25)*[cC]3%(?:25)*[89abAB][0-9a-fA-F]|(?<=[a-z])%[EF][0-9A-F](?=[a-z%\s.,;:]))"
)
# Letters as HL7, JSON, CSS, R, scripts, RTF, Python and C write them: bytes, or numbers of
# characters.
_ESCAPED = re.compile(
    r"\\X(?P<hl7>(?:[0-9A-F]{2})+)\\"
    r"|(?:(?:\\{1,4}u|\\00|<U\+|%u)00|\\{1,4}u\{(?:00)?)(?P<code>[0-9a-fA-F]{2})[}>]?"
    r"|\\u(?P<number>1[6-9]\d|2[0-4]\d|25[0-5])(?!\d)[ ?]?"
    r"|(?P<hex>(?:\\{1,4}(?:x|')[89a-fA-F][0-9a-fA-F])+|(?:<[89a-f][0-9a-f]>){2,})"
    r"|(?P<octal>(?:\\[23][0-7]{2}){2,}|\\[23][0-7]{2}(?=[a-z]))"
)
_UTF7 = re.compile(r"[+&](A[MNOP][A-Za-z0-9+/]+)-?")
_ENCODED_WORD = re.compile(r"=\?[\w-]+\?[bBqQ]\?[^?\s]+\?=(?:\s+(?==\?))?")
# A line of hexadecimal digits, Base64 or Base32, perhaps after full ones.
_RUN = re.compile(r"(?<![\w+/=-])(?:[\w+/-]{30,}[ \t\r]*\n)*[\w+/-]{4,}(?![\w+/-])={0,6}", re.ASCII)
# The fewest digits of it, and the fewest letters and spaces in what it stands for.
_SHORTEST_RUN, _FEWEST_LETTERS = 40, 0.7
# Encodings in which UTF-8 is read by mistake. The first two differ little.
_READERS = ("cp1252", "latin-1", "mac-roman", "cp850", "cp437", "cp1250", "cp1251")
# Encodings of one byte that are taken for each other: what a text was read in, and what it is in.
_CONFUSED = [
    (read, written)
    for read in ("cp1252", "latin-1", "cp850", "cp437", "mac-roman", "cp1251", "cp1253", "koi8-r")
    for written in ("cp1252", "cp850", "mac-roman")
    if read != written
]
# Signs beside letters that are letters of another encoding.
_ODD = re.compile(
    "(?<=[^\\W\\d_])[\x80-\x84\x86-\x9f¡-©¬-¯±-¶¸¹¼-¿×÷‚„†‡‰•˙˜Žžœ\u0370-\u04ff\u2500-\u25ff√≈Œ]"
    "|(?<=[a-zß-ÿ])[À-ÖØ-Þ–—‘’“”](?=[a-zß-ÿ])"
)
# The fewest words that make sense only in another encoding.
_FEWEST_WORDS = 2
# Letters that an encoding did not have. "fiebre?no" is a question.
_LOST = re.compile("�|(?<=[^\\W\\d_])\\?{1,2}(?=[a-zß-ÿ])(?!\\?*(?:no|s[ií])\\b)")
_FEWEST_LOST = 3
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-¬\u00ad\u2010][ \t]*(?:\r\n?|\n)[ \t]*(?=[a-zß-ÿ])")
# A text with fewer hyphens at line ends may have compounds there.
_FEWEST_HYPHENS, _LEAST_SHARE = 3, 0.2
# How often a text may have been encoded.
_MOST_TIMES = 4


def find_encodings(text: str) -> list[str]:
    """The ways in which a text is still encoded; empty for a text as people read it."""
    found = [name for name, decode in _WAYS.items() if decode(text) != text]
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
        for decode in _WAYS.values():
            text = decode(text)
        if text == before:
            break
    return text


# Each function returns a text that is not so encoded as it is.


def _drop_nulls(text: str) -> str:
    """Leave out the zero bytes of UTF-16, of which bytes were read as letters."""
    nulls = text.count("\0")
    return text.replace("\0", "") if nulls > 1 and nulls >= len(text) / 3 else text


def _unescape(text: str) -> str:
    return html.unescape(text) if _ENTITY.search(text) else text


def _join_hyphenated(text: str) -> str:
    joined, count = _HYPHENATED.subn("", text)
    is_broken = count >= _LEAST_SHARE * len(re.findall(r"\r\n?|\n", text))
    return joined if is_broken and count >= _FEWEST_HYPHENS else text


def _decode_quoted(text: str) -> str:
    """Decode runs of "=C3=A9"; other signs of equality, as in "pH=7", stay."""
    if not _QUOTED.search(text):
        return text
    return re.sub(
        r"(?:=[0-9A-Fa-f]{2})+",
        lambda match: _decode_bytes(quopri.decodestring(match[0].encode("ascii"))),
        _SOFT_BREAK.sub("", text),
    )


def _decode_percent(text: str) -> str:
    has_spaces = text.count("%20") > max(text.count(" "), 1)
    if not (has_spaces or _PERCENT.search(text)):
        return text
    if " " not in text:
        text = text.replace("+", " ")
    return re.sub(
        r"(?:%[0-9A-Fa-f]{2})+", lambda one: _decode_bytes(unquote_to_bytes(one[0])), text
    )


def _decode_escaped(text: str) -> str:
    def decode(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"], 16))
        if match["number"]:
            return chr(int(match["number"]))
        if match["octal"]:
            return _decode_bytes(bytes(int(one, 8) for one in match[0].split("\\")[1:]))
        return _decode_bytes(bytes.fromhex(match["hl7"] or re.sub(r"[\\x'<>]", "", match[0])))

    return _ESCAPED.sub(decode, text)


def _decode_utf7(text: str) -> str:
    """Decode "Jos+AOk-" to letters of Latin-1; others, such as "+AMOXICILINA", stay."""

    def decode(match: re.Match[str]) -> str:
        try:
            letters = f"+{match[1]}-".encode("ascii").decode("utf-7")
        except UnicodeDecodeError:
            return match[0]
        return letters if re.fullmatch("[À-ÿ]+", letters) else match[0]

    return _UTF7.sub(decode, text)


def _decode_words(text: str) -> str:
    """Decode words of a mail's header: "=?utf-8?Q?Jos=C3=A9?="."""

    def decode(match: re.Match[str]) -> str:
        try:
            return str(make_header(decode_header(match[0].rstrip())))
        except (HeaderParseError, LookupError, ValueError):
            return match[0]

    return _ENCODED_WORD.sub(decode, text)


def _decode_bytes(data: bytes) -> str:
    try:
        return data.decode("utf8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _decode_runs(text: str) -> str:
    """Decode what in Base64, Base32 or hexadecimal digits stands for a text."""
    return _RUN.sub(lambda run: _read_run(run[0]) or run[0], text)


def _read_run(run: str) -> str | None:
    digits = re.sub(r"[\s=]", "", run).translate(str.maketrans("-_", "+/"))
    if len(digits) < _SHORTEST_RUN:
        return None
    # Each with the number of digits to which a run is filled up.
    for read, size in ((bytes.fromhex, 1), (base64.b32decode, 8), (base64.b64decode, 4)):
        try:
            data = read(digits + "=" * (-len(digits) % size))
        except ValueError:
            continue
        found = _drop_nulls(_decode_bytes(data))
        letters = sum(char.isalpha() or char == " " for char in found)
        is_text = " " in found and re.sub(r"\s", "", found).isprintable()
        if is_text and letters >= _FEWEST_LETTERS * len(found):
            return found
    return None


@cache
def _misread(leads: bytes, readers: tuple[str, ...]) -> re.Pattern[str]:
    """Two bytes of UTF-8, the first one of `leads`, as encodings of one byte read them."""
    pairs = set()
    for reader in readers:
        seconds = bytes(range(0x80, 0xC0)).decode(reader, "ignore")
        pairs |= {lead + second for lead in leads.decode(reader) for second in seconds}
    return re.compile("|".join(map(re.escape, sorted(pairs))))


def _read_again(text: str) -> str:
    """Decode UTF-8 that was read as Latin-1 or the like."""

    def decode(match: re.Match[str]) -> str:
        for reader in _READERS:
            try:
                return match[0].encode(reader).decode("utf8")
            except UnicodeError:
                continue
        return match[0]

    for leads, readers in ((b"\xc2\xc3", _READERS[:2]), (b"\xc3", _READERS[2:])):
        if not text.isascii() and _misread(leads, readers).search(text):
            return _misread(b"\xc2\xc3", readers).sub(decode, text)
    return text


def _change_signs(text: str) -> str:
    """Decode a text that was read in another encoding, if its words only make sense in its own."""
    if len(_ODD.findall(text)) < _FEWEST_WORDS:
        return text
    words = {word for word in re.split(r"[\s.,;:()/]+", text) if _ODD.search(word)}
    known = {pair: sum(_is_word(_change(word, pair)) for word in words) for pair in _CONFUSED}
    best = max(known, key=lambda pair: known[pair])
    if known[best] < _FEWEST_WORDS:
        return text
    return re.sub(r"[^\x00-\x7f]+", lambda one: _change(one[0], best), text)


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


_WAYS: dict[str, Callable[[str], str]] = {
    "UTF-16 read as bytes": _drop_nulls,
    "words of a mail's header": _decode_words,
    "Base64, Base32 or hexadecimal": _decode_runs,
    "UTF-7": _decode_utf7,
    "percent-encoding": _decode_percent,
    "quoted-printable": _decode_quoted,
    "HTML entities": _unescape,
    "escapes of JSON, RTF or HL7": _decode_escaped,
    "UTF-8 read as Latin-1": _read_again,
    "read in another encoding": _change_signs,
    "words hyphenated at line ends": _join_hyphenated,
}
