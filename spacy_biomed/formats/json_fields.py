"""JSON files, and files of JSON lines, whose fields are checked as they are read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from json import JSONDecodeError
from pathlib import Path
from typing import Any, TypeVar

from ..errors import BiomedError, quote
from ..files.records import explain_json
from ..files.records import parse_json as decode_json
from .documents import list_files, number_lines, read_text
from .repairs import leaving_out

Kind = TypeVar("Kind")

_NAMES = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}


def read_json(path: Path, encoding: str = "utf-8") -> Any:
    """Read a JSON file."""
    return parse_json(read_text(path, encoding), str(path), "download the file again")


def parse_json(text: str, where: str, advice: str, *, has_lines: bool = True) -> Any:
    """Parse JSON; raise BiomedError if it cannot be, or if two fields of an object have one name.

    The message begins with `where`, and with `has_lines` with the line in the text as well; it ends
    with `advice`.
    """
    try:
        return decode_json(text)
    except (RecursionError, ValueError) as error:
        has_line = has_lines and isinstance(error, JSONDecodeError)
        where = f"{where}:{error.lineno}" if has_line else where
        raise BiomedError(f"{where}: {explain_json(error, advice)}") from None


def read_json_lines(
    path: Path | str, suffixes: Iterable[str], encoding: str = "utf-8"
) -> Iterator[tuple[Any, str, str]]:
    """Read files with JSON on each line: one, or those with a suffix in and below a folder.

    A file may also have the same as one list. Yields the content of each line that is not empty, or
    of each item; `file:line` or `file: [item]`, for messages; and file name and number, for an id.
    """
    for file in list_files(Path(path), suffixes):
        lines = [*number_lines(file, encoding)]
        if lines and _begins_list(lines[0][1]):
            with leaving_out():
                items = parse_json(read_text(file, encoding), str(file), "correct the list")
                for number, item in enumerate(items):
                    yield item, f"{file}: [{number}]", f"{file.stem}-{number + 1}"
            continue
        for number, line in lines:
            where = f"{file}:{number}"
            with leaving_out():
                record = parse_json(line, where, "write one object a line", has_lines=False)
                yield record, where, f"{file.stem}-{number}"


def _begins_list(line: str) -> bool:
    """Whether a first line begins a list of records, and is not itself a record."""
    if not line.lstrip().startswith("["):
        return False
    try:
        return all(isinstance(one, dict | list) for one in json.loads(line))
    except (RecursionError, ValueError):  # it goes on in the next line
        return True


def get_field(
    record: object,
    key: str,
    kind: type[Kind] | tuple[type[Kind], ...],
    where: str,
    advice: str = "check that the file is whole and in this format",
) -> Kind:
    """Return a field of a JSON object; raise BiomedError if it is missing or of another kind.

    `kind` is one or more of str, int, list and dict; `where` and `advice` are for the message.
    """
    value = record.get(key) if isinstance(record, dict) else None
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    found = "none" if value is None else quote(value)
    names = " or ".join(_NAMES[one] for one in (kind if isinstance(kind, tuple) else (kind,)))
    raise BiomedError(f"{where}: expected {key!r} with {names}, found {found}; {advice}")


def get_id(record: Mapping[str, object], key: str, default: str = "") -> str:
    """Return an object's string or whole number as a string; `default` if it has neither."""
    value = record.get(key)
    return str(value) if isinstance(value, str | int) else default


def list_values(value: object) -> list[str]:
    """The strings, numbers and truth values of a field, which may have a list, as strings."""
    values = value if isinstance(value, list) else [value]
    shown = [str(one).lower() if isinstance(one, bool) else one for one in values]
    return [str(one) for one in shown if isinstance(one, str | int | float)]


def get_covered(record: Mapping[str, object], where: str) -> str | None:
    """Return the text that an annotation quotes; None if it quotes none."""
    return None if record.get("text") is None else get_field(record, "text", str, where)
