"""JSON files, and files of JSON lines, whose fields are checked as they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import BiomedError, quote
from .documents import BYTE_ORDER_MARK, list_files, read_lines, read_text

_NAMES = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}


def read_json(path: Path, encoding: str = "utf-8") -> Any:
    """Read a JSON file.

    RAISES BiomedError: if it is missing, empty, not in the encoding or not JSON.
    """
    try:
        return json.loads(read_text(path, encoding).removeprefix(BYTE_ORDER_MARK))
    except json.JSONDecodeError as error:
        raise BiomedError(
            f"{path}:{error.lineno}: no JSON at column {error.colno} ({error.msg}); download the "
            f"file again"
        ) from None


def read_json_lines(
    path: Path | str, suffixes: Iterable[str], encoding: str = "utf-8"
) -> Iterator[tuple[Any, str, str]]:
    """Read files with JSON on each line: one, or those with a suffix in and below a folder.

    Empty lines are passed over.

    RETURNS: what each line holds; `file:line`, for messages; and file name and line number, for an
        id.
    RAISES BiomedError: if there is no file, or one is empty, not in the encoding or has a line that
        is not JSON.
    """
    for file in list_files(Path(path), suffixes):
        for number, line in enumerate(read_lines(file, encoding), start=1):
            if not line.strip():
                continue
            where = f"{file}:{number}"
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise BiomedError(
                    f"{where}: no JSON at column {error.colno} ({error.msg}); write one object a "
                    "line"
                ) from None
            yield record, where, f"{file.stem}-{number}"


def get_field(
    record: Any,
    key: str,
    kind: type | tuple[type, ...],
    where: str,
    advice: str = "check that the file is whole and in this format",
) -> Any:
    """Return a field of a JSON object.

    kind: what it must be: one or more of str, int, list and dict.
    where: the file, and the place of the object in it, for the message.
    advice: what to do, for the message.
    RAISES BiomedError: if the object has no such field, or one of another kind.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kinds) or isinstance(value, bool):
        found = "none" if value is None else quote(value)
        names = " or ".join(_NAMES[one] for one in kinds)
        raise BiomedError(f"{where}: expected {key!r} with {names}, found {found}; {advice}")
    return value
