"""The headings of a note's sections."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from ..normalization import strip_accents
from .term_files import read_groups

# The section of a heading that no table has.
OTHER = "other"
# Within an examination "AP" is auscultation, and no history begins in the middle of a line.
_AUSCULTATION = ("physical_examination", "past_history")

_LINE_ENDS = r"\n\r\v\f\x85\u2028\u2029"

# A heading begins a line or follows a stop, and ends with a colon or a dash, or with its line. The
# text has to be between line ends. The order of the parts is for speed.
_HEADING = re.compile(
    rf"[{_LINE_ENDS}.;!?](?:(?P<line>(?<=[{_LINE_ENDS}])[ \t]{{0,40}})|(?<=[.;!?]) )"
    r"(?:[#*•·–\- \t]|(?!(?:[^\W\d_]\.){2})\(?(?:\d{1,2}|[IVX]{1,4}|[a-hA-H])(?:[.)º°]-?|-)){0,8}"
    rf"(?P<name>[^\W\d_](?:[^:;.{_LINE_ENDS}|\t]|\.(?=[\w-])){{0,70}}?)"
    rf"(?=[ \t(*:.{_LINE_ENDS}])(?=[ \t*]*[(:.\-–—{_LINE_ENDS}])"
    rf"[ \t]{{0,3}}(?:\([^(){_LINE_ENDS}]{{0,40}}\))?[ \t*]{{0,3}}"
    rf"(?P<end>\.?:|\.?[ \t]{{1,3}}[-–—](?= )|\.[-–—]|\.?[ \t]*(?=[{_LINE_ENDS}]))"
)
_EMPTY_LINE = re.compile(rf"[{_LINE_ENDS}][ \t]*\Z")
_PARAGRAPH_END = re.compile(rf"[{_LINE_ENDS}][ \t]*[{_LINE_ENDS}]")
_TEXT = re.compile(r"\S")
_CAPITAL, _SMALL_LETTER = re.compile("[A-Z]"), re.compile("[a-z]")
_LINE_REST = re.compile(rf"[ \t]*[{_LINE_ENDS}]")
_MOST_WORDS = 7
# A word alone in capitals that is shorter may be a disease: "COPD", "NSTEMI".
_LEAST_LETTERS = 7
_LIST_ITEM = re.compile(r"[\d•·–-]")
_WORD = re.compile(r"[^\W_]+")


class Heading(NamedTuple):
    """A heading, in characters, and its section; empty where one ends without another heading."""

    start: int
    end: int
    section: str


def normalize_heading(name: str) -> str:
    """The words of a heading in small letters, without accents and signs."""
    return " ".join(_WORD.findall(strip_accents(name, "NFKD").lower()))


@cache
def read_headings(language: str) -> Mapping[str, str]:
    """The sections of known headings, as normalised; capitals stay where a name needs them."""
    groups = read_groups(language, "headings")
    return {key_of(name): section for section, names in groups.items() for name in names}


def key_of(name: str) -> str:
    """The key of a name in a table of headings: abbreviations such as "AF" keep their capitals."""
    return name if _is_abbreviation(name) else normalize_heading(name)


def _is_abbreviation(name: str) -> bool:
    return len(name) < 5 and name.isupper() and name.isalpha()


def find_headings(text: str, table: Mapping[str, str]) -> Iterator[Heading]:
    """Find the headings of a text.

    A heading is at the start of a line or of a sentence, perhaps after a number or a bullet. Its
    name is in the `table` of sections by normalised name (`key_of`), and a colon, a dash or the end
    of the line follows. Before a colon, and in a line of capitals, more words may follow the name
    ("Labs on admission"). Three more forms begin a section "other", whatever their name: a line in
    capitals, a line that ends with a colon, and a name with a colon after an empty line. Capitals
    mean nothing in a text that is mostly written in them, in a list, and in one short word
    ("COPD"). A section that begins within a line ends with its paragraph, and what follows is
    "other".
    """
    capitals_tell = len(_CAPITAL.findall(text)) <= 2 * len(_SMALL_LETTER.findall(text))
    last = ""
    within_line: int | None = None  # the end of a heading whose paragraph has not ended
    for found in _HEADING.finditer(f"\n{text}\n"):
        section = _find_section(found, table, capitals_tell)
        if section is not None:
            start, end = found.start("name") - 1, found.end("end") - 1
            begins_line = found["line"] is not None
            if (last, section) == _AUSCULTATION and not begins_line:
                continue
            yield from _end_paragraph(text, within_line, start)
            yield Heading(start, end, section)
            last, within_line = section, None if begins_line else end
    yield from _end_paragraph(text, within_line, len(text))


def _end_paragraph(text: str, start: int | None, end: int) -> Iterator[Heading]:
    """Where a section that began within a line ends before the next heading."""
    empty = None if start is None else _PARAGRAPH_END.search(text, start, end)
    if empty is not None and (found := _TEXT.search(text, empty.end(), end)) is not None:
        yield Heading(found.start(), found.start(), OTHER)


def _find_by_beginning(name: str, table: Mapping[str, str]) -> str | None:
    """The section of a known heading with more words after it, as in "Labs on admission".

    Of histories, one word is too little: "Family meeting".
    """
    words = normalize_heading(name).split()
    for size in range(len(words) - 1, 0, -1):
        section = table.get(" ".join(words[:size]))
        if section is not None and (size > 1 or not section.endswith("_history")):
            return section
    return None


def _find_section(
    found: re.Match[str], table: Mapping[str, str], capitals_tell: bool
) -> str | None:
    begins_line, end = found["line"] is not None, found["end"].strip(" \t.")
    # Within a line, as at the end of a sentence, a word alone is not a heading.
    if not begins_line and end != ":":
        return None
    name = found["name"].strip(" *")
    short = name.replace(".", "")  # "A.F."
    section = (_is_abbreviation(short) and table.get(short)) or table.get(normalize_heading(name))
    if section is not None or not begins_line or len(name) < 4:
        return section
    words = _WORD.findall(name)
    if len(words) > _MOST_WORDS:
        return None
    if (end == ":" or name.isupper()) and (section := _find_by_beginning(name, table)):
        return section
    place = found.start()
    is_item = _LIST_ITEM.search(found.string, place, found.start("name")) is not None
    in_capitals = capitals_tell and name.isupper() and not is_item
    if _LINE_REST.match(found.string, found.end()):
        is_long = len(words) > 1 or len(name) >= _LEAST_LETTERS
        return OTHER if end == ":" or (in_capitals and is_long) else None
    is_after_empty_line = _EMPTY_LINE.search(found.string, max(place - 80, 0), place)
    is_marked = (in_capitals and len(words) > 1) or (name[0].isupper() and is_after_empty_line)
    return OTHER if end == ":" and is_marked else None
