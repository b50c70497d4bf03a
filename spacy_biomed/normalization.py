"""The text that an encoder reads in place of a document's: as corpora print it, not as people type.

Hospital systems store notes in capitals, PDF files break words at line ends, and web pages use
spaces and hyphens of their own. `normalize_text` undoes what carries no meaning. Offsets in the
document do not change: each character of the new text knows which characters it stands for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from spacy.attrs import IDX, IS_SPACE, LENGTH
from spacy.tokens import Doc

from .arrays import Ints1d

_texts: WeakKeyDictionary[Doc, str] = WeakKeyDictionary()

# Characters that take no room: soft hyphens, joiners, marks of direction, variation selectors.
INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
MARKS = "\u0300-\u036f"  # that combine with the letter before them
_MARKS = re.compile(f"[{MARKS}]+")
_SPACE = "[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"
_LINE_END = r"(?:\r\n?|[\n\v\f\u0085\u2028\u2029])"
_UPPER, _LOWER = "A-ZÀ-ÖØ-Þ", "a-zß-öø-ÿ"
_LIKE_LATIN = dict(zip("АВЕЅІЈКМНОРСТХаеѕіјорсух", "ABESIJKMHOPCTXaesijopcyx", strict=True))
_SIGNS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe58\ufe63", "-"),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
}

# Characters that are changed, or begin what is, other than the space, the line feed and the hyphen.
_SPECIAL = (
    rf"\t\r\v\f\u0085\u00a0{INVISIBLE}\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
    rf"\uff01-\uff5e\ufb00-\ufb06{''.join(_SIGNS)}{''.join(_LIKE_LATIN)}"
)
# Without single spaces and line feeds, which need no change.
_CHANGE = re.compile(
    rf"""(?=[{_SPECIAL}\ \n-])(?:
        (?P<hyphenated>(?<=[^\W\d_])[-\u2010\u00ad]{_LINE_END}(?=[{_LOWER}]))
        |(?P<broken>(?<=[{_UPPER}]{{2}})[-\u2010\u00ad]{_LINE_END}(?=[{_UPPER}]{{2}}))
        |(?P<invisible>[{INVISIBLE}]+)
        |(?P<line>(?:{_SPACE}+|(?!\n(?!{_SPACE}|{_LINE_END}))){_LINE_END}(?:{_SPACE}|{_LINE_END})*)
        |(?P<space>\A{_SPACE}+|[ ]{_SPACE}+|(?![ ]){_SPACE}+)
        |(?P<wide>[\uff01-\uff5e\ufb00-\ufb06])
        |(?P<sign>[{"".join(_SIGNS)}])
        |(?P<cyrillic>[{"".join(_LIKE_LATIN)}])
    )|(?P<composed>[^\W\d_][{MARKS}]+)""",
    re.VERBOSE,
)
# What most texts do not have; it is found faster.
_UNUSUAL = re.compile(rf"  | \n|\n |[^\W\d_]-\n|[{_SPECIAL}{MARKS}]")

# Two words of at least four capitals each, with no small letter between them.
_CAPITALS = re.compile(
    rf"(?<![{_UPPER}])[{_UPPER}]{{4,}}(?![\w])[^{_LOWER}]{{0,40}}?(?<!\w)[{_UPPER}]{{4}}"
)
_RUN = re.compile(rf"[^{_LOWER}\n]+")
_WORD = re.compile(rf"(?<![^\W_])[{_UPPER}]+(?![^\W_])")
_CAPITAL, _SMALL = re.compile(f"[{_UPPER}]"), re.compile(f"[{_LOWER}]")
_LONG = 4

# A line that a small letter continues is this long.
_NARROWEST = 30
_PARAGRAPH = re.compile(r"(?<![^\n])[^\n]+(?:\n[^\n]+)+")
_UNFINISHED, _GOES_ON = re.compile(r"[^.:;!?|\s]\Z"), re.compile(r"[\w(]")
# The words of both languages with which no line of a list ends, and with which none begins.
_OPEN = re.compile(
    r"(?:,|(?<!\w)(?:an?|the|of|or|and|with|without|to|for|from|in|on|at|by|as|into|that|which|who|is"
    r"|are|was|were|has|have|had|his|her|their|its|no|not|de|del|la|el|los|las|un|una|unos|unas|y|o"
    r"|con|sin|en|por|para|al|que|se|su|sus))\Z",
    re.IGNORECASE,
)
_STOP_WITHIN = re.compile(r"[.;!?] (?<=[^\W\d_]{3}[.;!?] )\w")
_LONGEST_OPEN = len(" without")
_JOINING = re.compile(
    r"\s*(?:of|or|and|with|to|that|which|who|than|by|de|del|y|o|con|que|por|para|al)(?!\w)"
)
_DOSE = r"(?<!\d)\d+(?:[.,]\d+)? ?(?:mg|mcg|[µμu]g|g|ml|meq|iu|ui|units?|unidades)(?!\w)"
_HAS_DOSE = re.compile(_DOSE, re.IGNORECASE)
_DRUG_AND_DOSE = re.compile(rf"\s*[^\W\d_][\w-]*(?: [\w-]+){{0,2}} {_DOSE}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text to read in place of another.

    Attributes:
        text: the new text.
        starts, ends: (characters,) the half-open offsets in the original text of what each
            character of the new text stands for. Both never fall.
    """

    text: str
    starts: Ints1d
    ends: Ints1d

    def words_of(self, doc: Doc) -> list[str]:
        """What a document's tokens are in the new text; empty for one that is not in it.

        A token of white space is not in it unless it has a line end. The first part of a word that
        was hyphenated at a line end is the whole word, and the rest is not in it.
        """
        offsets = doc.to_array([IDX, LENGTH]).astype("int64")
        first = np.searchsorted(self.starts, offsets[:, 0])
        last = np.searchsorted(self.starts, offsets.sum(axis=1))
        joints = self._find_joints()
        words = []
        for start, end in zip(first.tolist(), last.tolist(), strict=True):
            if start in joints:
                words.append("")
                continue
            while end in joints and end > start:  # the rest of the word
                end += 1
                while end < len(self.text) and self.text[end].isalnum():
                    end += 1
            words.append(self.text[start:end].strip(" "))
        return words

    def _find_joints(self) -> set[int]:
        """Where a word goes on of which the original text has something in between."""
        gaps = np.flatnonzero(self.ends[:-1] != self.starts[1:]) + 1
        return {
            place
            for place in gaps.tolist()
            if self.text[place - 1].isalnum() and self.text[place].isalnum()
        }


def get_text(doc: Doc) -> str:
    """The text of a document, which spaCy would put together from its tokens at each access."""
    text = _texts.get(doc)
    if text is None:
        text = _texts[doc] = doc.text
    return text


def strip_accents(text: str, form: Literal["NFD", "NFKD"] = "NFD") -> str:
    """A text whose letters have no accents; with NFKD, also without ligatures and the like."""
    return text if text.isascii() else _MARKS.sub("", unicodedata.normalize(form, text))


def find_blanks(doc: Doc) -> np.ndarray:
    """(tokens,) whether a token is white space, or only characters that cannot be seen."""
    blank = doc.to_array(IS_SPACE).astype(bool)
    if _INVISIBLE.search(get_text(doc)) is not None:
        blank |= [_INVISIBLE.sub("", token.text) == "" for token in doc]
    return blank


def normalize_text(text: str) -> NormalizedText | None:
    """Normalise a text; None if it is normal already.

    - Runs of spaces and tabs become one space, and none is left at the ends of lines. Invisible
      characters go.
    - Letters and the marks that combine with them become one character, full-width letters and
      ligatures plain ones, Cyrillic letters inside Latin words the Latin ones that look the same.
    - Typographic hyphens, dashes of numbers and quotation marks become those of ASCII.
    - Words in capitals become small where a text, a line or at least four long words in a row are
      in capitals, and names (`Marta Ochoa`) where two or three are. Words with digits, such as
      genes, stay.
    - Words that are hyphenated at a line end are joined, and lines that are wrapped.
    """
    starts = ends = None
    changed = text
    if _UNUSUAL.search(text) is not None:
        changed, starts, ends = _change_characters(text)
    changed = _lower_capitals(changed)
    changed = join_wrapped(changed)
    if changed == text:
        return None
    if starts is None or ends is None:
        starts = np.arange(len(text))
        ends = starts + 1
    return NormalizedText(changed, starts, ends)


def join_wrapped(text: str) -> str:
    """Put a space in place of each line end where a text was only wrapped.

    A line goes on where the next begins with a small letter that tells it (`find_continued`). Where
    this is so in a paragraph, a line there goes on before capitals, digits and parentheses too if
    the next word would have made it wider than any line. This must hold for two thirds of the
    lines, at least two. No line goes on after a full stop or a colon, or before an item of a list
    of drugs.
    """
    return _PARAGRAPH.sub(_join_lines, text) if "\n" in text else text


def find_continued(lines: Sequence[str]) -> list[bool]:
    """Whether each line of a paragraph goes on in the next, as a small letter there tells.

    The line has 30 characters or more and does not end with a full stop or a colon. A list may be
    typed without capitals. So where a sentence began with a small letter too, and none ends within
    a line, the line must end with a comma or a word such as "of", or the next begin with one. The
    last line does not go on.
    """
    continued = [False]  # whether each line continues the one before
    tells = is_prose = any(_STOP_WITHIN.search(line) for line in lines)
    for line, following in pairwise(map(str.strip, lines)):
        if not continued[-1]:
            tells = is_prose or not line[:1].islower()
        continued.append(
            len(line) >= _NARROWEST
            and following[:1].islower()
            and not line.endswith((".", ":", "!", "?"))
            and (tells or _is_open(line, following))
            and not is_drug_list(line, following)
        )
    return [*continued[1:], False]


def is_drug_list(line: str, following: str) -> bool:
    """Whether a line has a dose, and the next begins with a drug and its dose."""
    return (
        _DRUG_AND_DOSE.match(following) is not None
        and _HAS_DOSE.search(line) is not None
        and not _is_open(line.rstrip(), following)
    )


def _is_open(line: str, following: str) -> bool:
    is_open = _OPEN.search(line[-_LONGEST_OPEN:]) is not None
    return is_open or _JOINING.match(following) is not None


def _join_lines(found: re.Match[str]) -> str:
    """A paragraph with spaces in place of the line ends where it was only wrapped."""
    paragraph = found[0]
    lines = paragraph.split("\n")
    continued = find_continued(lines)
    if not any(continued):
        return paragraph
    width = max(len(line.rstrip()) for line in lines)
    full = [
        len(line.rstrip()) + 1 + len("".join(following.split(None, 1)[:1])) > width
        for line, following in pairwise(lines)
    ]
    is_wrapped = sum(full) >= max(2, 2 / 3 * len(full))
    parts = lines[:1]
    for place, (line, following) in enumerate(pairwise(lines)):
        goes_on = (
            is_wrapped
            and full[place]
            and _GOES_ON.match(following)
            and not is_drug_list(line, following)
        )
        is_joined = _UNFINISHED.search(line) and (goes_on or continued[place])
        parts += " " if is_joined else "\n", following
    return "".join(parts)


def _change_characters(text: str) -> tuple[str, Ints1d, Ints1d]:
    parts: list[str] = []
    starts: list[Ints1d] = []
    ends: list[Ints1d] = []
    for start, end, part, is_same in _find_parts(text):
        own = np.arange(start, end) if is_same else np.full(len(part), start)
        parts.append(part)
        starts.append(own)
        ends.append(own + 1 if is_same else np.full(len(part), end))
    return "".join(parts), np.concatenate(starts), np.concatenate(ends)


def _find_parts(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """The parts of a text: start, end, what replaces it, and whether it is the same."""
    place = 0
    for found in _CHANGE.finditer(text):
        new = _replace(found)
        if new != found[0]:
            yield place, found.start(), text[place : found.start()], True
            yield found.start(), found.end(), new, False
            place = found.end()
    yield place, len(text), text[place:], True


def _replace(found: re.Match[str]) -> str:
    part, text = found[0], found.string
    match found.lastgroup:
        case "hyphenated" | "broken" | "invisible":
            return ""
        case "line":
            return "\n" * len(re.findall(_LINE_END, part))
        case "space":
            return " " if found.start() > 0 else ""
        case "composed":
            return unicodedata.normalize("NFC", part)
        case "wide":
            return unicodedata.normalize("NFKC", part)
        case "sign":
            return _SIGNS[part]
        case _:
            around = text[max(found.start() - 1, 0) : found.start()] + text[found.end() :][:1]
            is_latin = re.search(f"[{_UPPER}{_LOWER}]", around) is not None
            return _LIKE_LATIN[part] if is_latin else part


def _lower_capitals(text: str) -> str:
    if _CAPITALS.search(text) is None:
        return text
    if _has_mostly_capitals(text):
        return _WORD.sub(_lower, text)
    if "\n" in text:
        text = "\n".join(
            _WORD.sub(_lower, line) if is_in_capitals(line) else line for line in text.split("\n")
        )
    return _lower_runs(text)


def is_in_capitals(text: str) -> bool:
    """Whether a text has two long words in capitals, and two of three letters are capitals."""
    return _CAPITALS.search(text) is not None and _has_mostly_capitals(text)


def _has_mostly_capitals(text: str) -> bool:
    return len(_CAPITAL.findall(text)) > 2 * len(_SMALL.findall(text))


def _lower_runs(text: str) -> str:
    """Lower the words of runs without small letters, if they have several long words."""
    runs: list[list[re.Match[str]]] = []
    end = 0
    for word in _WORD.finditer(text):
        if word.start() >= end:
            run = _RUN.match(text, word.start())
            end = run.end() if run else word.end()
            runs.append([])
        runs[-1].append(word)
    parts, place = [], 0
    for words in runs:
        long = sum(len(word[0]) >= _LONG for word in words)
        if long < 2:
            continue
        for word in words:
            is_name = long < 4 and len(word[0]) >= _LONG
            new = word[0].capitalize() if is_name else word[0].lower()
            parts += [text[place : word.start()], new]
            place = word.end()
    return "".join([*parts, text[place:]])


def _lower(word: re.Match[str]) -> str:
    return word[0].lower()
