"""What a form alone does not find: cells of tables, files, telephones, institutions and places."""

import re
from collections.abc import Iterator

from .pattern_forms import find_form, is_eponym
from .pattern_rules import Found, apply_table, read_rules
from .plain_text import PlainText, fold
from .term_lists import is_name, is_ordinary, name_words, normalized_words, place_words, word_list

_FEWEST = 2
_NUMBERS = frozenset({"record", "national_id", "date", "phone", "room", "age"})


def find_columns(plain: PlainText, language: str) -> Found:
    """Find the cells of columns, and the values of keys, whose name says that they are personal.

    Cells are separated by tabs, semicolons, bars or commas. At least a fifth of the cells of a
    table's first line (half, with commas) are heads, and none ends with a colon: tabs may stand for
    spaces in "Fecha de ingreso:". Its lines have as many cells, one more or one less.
    """
    if "<" in plain.text or "'" in plain.text or '"' in plain.text:
        yield from _find_pairs(plain.text)
    for sign in "\t;|,":
        if sign in plain.original:
            for start, end, pattern in _find_cells(plain.original, sign):
                yield *plain.to_plain(start, end), pattern


def _find_pairs(text: str) -> Found:
    for pair in find_form("columns", "pair").finditer(text):
        key = pair["key"] or pair["tag"] or pair["name"]
        group = "value" if pair["key"] else "inner" if pair["tag"] else "quoted"
        pattern = _read_head(re.sub(r"(?<=[a-zß-ÿ])(?=[A-Z])|_", " ", key))
        value = pair[group].strip()
        if pattern is not None and _is_value(value, pattern) and len(value) > 2:
            start = pair.start(group) + pair[group].find(value)
            yield start, start + len(value), pattern


def _find_cells(text: str, sign: str) -> Iterator[tuple[int, int, str]]:
    columns: list[str | None] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        cells = list(_split(line.rstrip("\r\n"), offset, sign))
        offset += len(line)
        heads = [_read_head(cell) for _, cell in cells]
        known, filled = sum(map(bool, heads)), sum(bool(cell) for _, cell in cells)
        has_colon = any(cell.endswith(":") for _, cell in cells)
        if known >= max(_FEWEST, filled / (2 if sign == "," else 5)) and not has_colon:
            columns = heads
        elif columns and len(cells) >= _FEWEST and abs(len(cells) - len(columns)) <= 1:
            for (start, cell), pattern in zip(cells, columns, strict=False):
                if pattern is not None and _is_value(cell, pattern):
                    yield start, start + len(cell), pattern
        else:
            columns = []


def _split(line: str, start: int, sign: str) -> Iterator[tuple[int, str]]:
    """The offset of each cell of a line, and the cell, without quotes and spaces."""
    for cell in line.split(sign):
        inner = cell.strip(" \"'")
        yield start + cell.find(inner), inner
        start += len(cell) + 1


def _read_head(cell: str) -> str | None:
    folded = fold(cell).strip(" .:*_")
    heads = read_rules("columns", "")
    return next((head.pattern for head in heads if head.form.fullmatch(folded)), None)


def _is_value(cell: str, pattern: str) -> bool:
    if pattern == "name":
        return any(map(str.isalpha, cell))
    return any(map(str.isdigit if pattern in _NUMBERS else str.isalnum, cell))


_LONGEST_FILE = 120


def find_web_addresses(plain: PlainText, language: str) -> Found:
    """Find e-mail addresses, also with a space beside the @, web addresses that begin with a
    protocol or www, IP addresses, and files whose name has a person's name or a number.
    """
    yield from apply_table("web", plain, language)
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
    stem = re.sub(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])", " ", stem)
    words = [word for word in normalized_words(stem) if len(word) > 2]
    return bool(re.search(r"\d{5}", stem)) or any(
        is_name(word) or (len(word) > 3 and not is_ordinary(word)) for word in words
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


_LAST_WORD = re.compile(r"[ ]([^\s]+)\Z")


def find_institutions(plain: PlainText, language: str) -> Found:
    """Find institutions by their first or last word, and acronyms of hospitals."""
    ordinary = name_words(language).ordinary
    for start, end, pattern in apply_table("institutions", plain, language):
        value = plain.text[start:end]
        if language == "es" and " " in value:
            end = _trim(plain.text, start, end, language)
        if fold(value) not in ordinary:
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

    It is the start, if nothing is left that names it.
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


def find_places(plain: PlainText, language: str) -> Found:
    """Find places.

    These are names of the lists after a preposition, countries that are a sentence of their own,
    and capitalised words before a country, such as a company and its town. In Spanish they are also
    names of the lists after a comma or bracket, and capitalised words after a postal code. A name
    in lower case must not be an ordinary word, or part of a term ("fiebre de Malta").
    """
    text, folded = plain.text, plain.folded
    places, ordinary = place_words(language), name_words(language).ordinary
    for match in find_form("places", "before", language).finditer(text):
        if folded[slice(*match.span(1))] in places.first and not is_eponym(text, match.end()):
            end = _longest(text, folded, match.end(), places.names, ordinary)
            if end:
                yield match.end(), end, "place"
    for start, end, pattern in apply_table("places", plain, language):
        value = text[start:end].split()
        while (
            len(value) > 1 and fold(value[-1]) in ordinary and fold(value[-1]) not in places.names
        ):
            end -= len(value.pop()) + 1
        yield start, end, pattern


def _longest(
    text: str, folded: str, start: int, places: frozenset[str], ordinary: frozenset[str]
) -> int:
    """The end of the longest place that begins at an offset; 0 if there is none."""
    words = find_form("places", "words").match(text, start)
    end = words.end() if words else start
    while end > start:
        name = folded[start:end]
        if name in places:
            is_lower = text[start:end].islower()
            return 0 if is_lower and all(word in ordinary for word in name.split()) else end
        end = text.rfind(" ", start, end)
    return 0
