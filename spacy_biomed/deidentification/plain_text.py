"""A text as a reader sees it: what rules read, with the place of each character in the original."""

import re
import sys
import unicodedata
from array import array
from bisect import bisect_left
from collections import defaultdict
from functools import cached_property

from .term_lists import is_clear_name, normalize, word_list

# One character for one: typographic hyphens, slashes and quotes, full-width forms, spaces, and
# Cyrillic and Greek letters that look like Latin ones.
_CYRILLIC = dict(zip("АВЕЅІЈКМНОРСТХУаеѕіјорсухһԁ", "ABESIJKMHOPCTXYaesijopcyxhd", strict=True))
_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "ABEZHIKMNOPTYXo", strict=True))
_SPACES = "\t\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LIKE = {
    **_CYRILLIC,
    **_GREEK,
    **{chr(0xFF01 + i): chr(0x21 + i) for i in range(94)},
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-"),
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
    **dict.fromkeys("\v\f\x85\u2028\u2029", "\n"),
    **dict.fromkeys(_SPACES, " "),
}
# How many first characters of a word serve to look for it, and what stands for any number.
LONGEST, NUMBER = 3, "0"
# What a scanner took for the letters O and I, within capitals.
_SCANNED = re.compile(r"(?<=[A-ZÑ]{3})[01](?=[A-ZÑ]{2})|(?<=[A-ZÑ])l(?=[A-ZÑ]{3})")
_ODD = re.compile(r"[^\n\x20-\x7e]")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[^\W_]+")

_INVISIBLE = (
    r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    r"\ufe00-\ufe0f\ufeff"
)
_LETTER = r"[^\W\d_]"
# What is shorter in the plain text than in the original: for each kind what tells that a text has
# any, and its form.
_LONGER = {
    "hyphen": (
        rf"[-\u00ad][ {_INVISIBLE}]{{0,3}}\r?\n",
        rf"(?<={_LETTER})[-\u00ad][ {_INVISIBLE}]{{0,3}}\r?\n[ ]*(?=[a-zß-ÿ])"
        r"|(?<=[A-ZÀ-Þ]{2})-[ ]*\r?\n[ ]*(?=[A-ZÀ-Þ]{2})",
    ),
    "spaced": (
        rf"[ ]{_LETTER}[ ]{_LETTER}(?!\w)",
        rf"(?<!\S){_LETTER}(?:[ ]{_LETTER}){{2,}}(?!\S{_LETTER}|{_LETTER})",
    ),
    "accents": (r"[\u0300-\u036f]", r"\w[\u0300-\u036f]+"),
    "end": (r"\r", r"\r\n?"),
    "blank": (
        rf"[{_INVISIBLE}]|[ ][ ]",
        rf"[ {_INVISIBLE}]*[{_INVISIBLE}][ {_INVISIBLE}]*|[ ]{{2,}}",
    ),
}
# Lines that begin with something of their own: a field or heading with a colon, an item, a cell.
_OWN_LINE = re.compile(
    r"\s*(?:[-*•·|>{\[<\"]|\d{1,2}[.)]\s|[^\W\d_][\w.º]*(?:[ /][\w.º]+){0,4}[ ]?:)"
)
_FIRST_WORD = re.compile(r"\s*(\S+)")
_LAST_WORD = re.compile(r"([^\W\d_]+)\W*\Z")
# Narrower texts are lists and forms: no program wraps lines so early.
_NARROWEST = 30


class PlainText:
    """A text without what a reader does not see, for rules of names and numbers.

    Spaces of any kind and number are one space, typographic hyphens a hyphen, letters with
    combining accents one letter, and look-alikes from other alphabets Latin letters. Invisible
    characters, the hyphen of a word broken at a line end, and the spaces of a word written with
    spaces between its letters are absent. In `text`, a line end is a space where the line was only
    wrapped, else "\\n"; in `lines`, each is "\\n".
    """

    def __init__(self, original: str):
        self.original = original
        self._places: array | None = None
        # Ends of the characters that are longer than one in the original.
        self._ends: dict[int, int] = {}
        text = _replace_odd(original, _LIKE)
        text = _SCANNED.sub(lambda match: "O" if match[0] == "0" else "I", text)
        self.lines = self._shorten(text)
        self.text = self._join_wrapped()

    @cached_property
    def folded(self) -> str:
        """The plain text in lower case and without accents, character by character."""
        return fold(self.text)

    @cached_property
    def numbers(self) -> list[int]:
        """The offsets of the first digit of each number."""
        return [match.start() for match in _NUMBER.finditer(self.text)]

    @cached_property
    def _starts(self) -> dict[str, list[int]]:
        """The offsets of words, by each beginning of at most `LONGEST` characters."""
        starts: dict[str, list[int]] = defaultdict(list)
        for match in _WORD.finditer(self.folded):
            start = match.start()
            for end in range(start + 1, start + LONGEST + 1):
                starts[self.folded[start:end]].append(start)
        return starts

    def find_starts(self, prefixes: frozenset[str]) -> list[int]:
        """The offsets of the words that begin with one of several folded prefixes, in order.

        `NUMBER` among them stands for all numbers.
        """
        found = set(self.numbers) if NUMBER in prefixes else set()
        for prefix in prefixes & self._starts.keys():
            found.update(self._starts[prefix])
        return sorted(found)

    def has_wide_gaps(self, start: int, end: int) -> bool:
        """Whether a part of the plain text has tabs or several spaces for one in the original."""
        first, last = self.to_original(start, end)
        return last - first > end - start or "\t" in self.original[first:last]

    def to_original(self, start: int, end: int) -> tuple[int, int]:
        """The place in the original of a part of the plain text that is not empty."""
        if self._places is None:
            return start, end
        last = self._places[end - 1]
        return self._places[start], self._ends.get(end - 1, last + 1)

    def to_plain(self, start: int, end: int) -> tuple[int, int]:
        """The part of the plain text that has the characters of a part of the original."""
        if self._places is None:
            return start, end
        first = bisect_left(self._places, start)
        if first and self._ends.get(first - 1, 0) > start:
            first -= 1
        return first, bisect_left(self._places, end)

    def _shorten(self, text: str) -> str:
        parts: list[str] = []
        places, last = array("L"), 0
        forms = [
            f"(?P<{kind}>{form})" for kind, (sign, form) in _LONGER.items() if re.search(sign, text)
        ]
        for match in re.finditer("|".join(forms), text) if forms else ():
            start, end = match.span()
            short = _shorten_match(match)
            parts += text[last:start], short
            places.extend(range(last, start))
            if match.lastgroup == "spaced":
                places.extend(range(start, end, 2))
            elif short:
                places.append(start)
                self._ends[len(places) - 1] = end
            last = end
        if not parts:
            return text
        places.extend(range(last, len(text)))
        self._places = places
        return "".join([*parts, text[last:]])

    def _join_wrapped(self) -> str:
        lines = self.lines.split("\n")
        if len(lines) == 1:
            return self.lines
        # Rows of one length are a table.
        lengths = {len(line) for line in lines[:-1] if line.strip()}
        width = max(map(len, lines)) if len(lengths) != 1 or len(lines) < 3 else sys.maxsize
        joined = [lines[0]]
        for line, following in zip(lines, lines[1:], strict=False):
            joined += " " if _is_wrapped(line, following, width) else "\n", following
        return "".join(joined)


def _shorten_match(match: re.Match[str]) -> str:
    if match.lastgroup == "spaced":
        return match[0].replace(" ", "")
    if match.lastgroup == "accents":
        composed = unicodedata.normalize("NFC", match[0])
        return composed if len(composed) == 1 else match[0][0]
    if match.lastgroup == "end":
        return "\n"
    return " " if match.lastgroup == "blank" and " " in match[0] else ""


def _is_wrapped(line: str, following: str, width: int) -> bool:
    """Whether a line ends since it was full (`width` is the longest), or within a name."""
    first, line = _FIRST_WORD.match(following), line.rstrip()
    if first is None or not line or _OWN_LINE.match(following):
        return False
    last = _LAST_WORD.search(line[-40:])
    if last and last[0] in word_list("name_particles"):
        return True  # "Medina del", "Campo"
    if line[-1] in ".:;!?|" or first[1][0].islower():
        return first[1][0].islower() and line[-1] not in ":;!?|"
    if width >= _NARROWEST and len(line) + 1 + len(first[1]) > width:
        return True
    if not any(word[:1].islower() for word in line.split()):
        return False  # a list of names, one in each line
    words = [last[1] if last else "", first[1].rstrip(".,;")]
    return all(word[:1].isupper() and is_clear_name(normalize(word)) for word in words)


# Letters of one character without their accents, so that a folded text has the same offsets.
_UNACCENTED = {
    chr(code): base
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if len(base := normalize(chr(code))) == 1
}


def fold(text: str) -> str:
    """Lower case without accents, of the same length as the text."""
    folded = _replace_odd(text, _UNACCENTED).lower()
    return folded if len(folded) == len(text) else "".join(char.lower()[0] for char in text)


def _replace_odd(text: str, table: dict[str, str]) -> str:
    """Replace characters outside ASCII and controls: few texts have more than some."""
    for char in set(_ODD.findall(text)) & table.keys():
        text = text.replace(char, table[char])
    return text
