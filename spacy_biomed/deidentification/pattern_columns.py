"""Tables, JSON and XML in a text: the head of a column, or a key, says what the values are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .pattern_forms import find_form
from .pattern_rules import Found, read_rules
from .plain_text import PlainText, fold

_FEWEST = 2
_NUMBERS = frozenset({"record", "national_id", "date", "phone", "room"})


def find_columns(plain: PlainText, language: str) -> Found:
    """Find the cells of columns, and the values of keys, whose name says that they are personal.

    Cells are separated by tabs, semicolons, bars or commas. At least half of the cells of a table's
    first line are heads, and none ends with a colon: tabs may stand for spaces in "Fecha de
    ingreso:". Its lines have as many cells, one more or one less.
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
        heads = [_read_head(text[start:end]) for start, end in cells]
        if _is_header([text[start:end] for start, end in cells], heads):
            columns = heads
        elif columns and len(cells) >= _FEWEST and abs(len(cells) - len(columns)) <= 1:
            for (start, end), pattern in zip(cells, columns, strict=False):
                if pattern is not None and _is_value(text[start:end], pattern):
                    yield start, end, pattern
        else:
            columns = []


def _split(line: str, offset: int, sign: str) -> Iterator[tuple[int, int]]:
    """The (start, end) offsets of the cells of a line, without quotes and spaces."""
    start = 0
    for cell in line.split(sign):
        inner = cell.strip(" \"'")
        first = offset + start + cell.find(inner)
        yield first, first + len(inner)
        start += len(cell) + 1


def _is_header(cells: list[str], heads: list[str | None]) -> bool:
    known = len(list(filter(None, heads)))
    filled = len(list(filter(None, cells)))
    return known >= max(_FEWEST, filled / 2) and not any(cell.endswith(":") for cell in cells)


def _read_head(cell: str) -> str | None:
    folded = fold(cell).strip(" .:*_")
    heads = read_rules("columns", "")
    return next((head.pattern for head in heads if head.form.fullmatch(folded)), None)


def _is_value(cell: str, pattern: str) -> bool:
    is_right = (
        str.isdigit if pattern in _NUMBERS else str.isalpha if pattern == "name" else str.isalnum
    )
    return any(map(is_right, cell))
