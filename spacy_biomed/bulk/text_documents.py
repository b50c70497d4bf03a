"""Documents in files, and copies of the files with other texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import BiomedError, escape
from ..language_models.sources import (
    delimiter_of,
    kind_of,
    open_binary,
    read_lines,
    read_records,
)
from ..outputs import replacing_directory, replacing_file
from .sources import reading, require_pyarrow

MADE_BY = "spacy biomed deidentify"
_NO_ENDING = "give .txt, .jsonl, .csv, .tsv or .parquet, or a folder of .txt files"
_Format = Literal["text", "json", "csv", "parquet"]
# Rows of a Parquet file to read, and to write, at a time.
_BATCH_ROWS, _GROUP_ROWS = 256, 10_000


@dataclass(slots=True)
class TextDocument:
    """A document of a file.

    Attributes:
        text: its text.
        place: file and line or row, for messages.
        name: path within the folder, if each document is a file.
        fields: the fields of its JSON object, or its columns, which are written with the text.
    """

    text: str
    place: str
    name: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


def find_documents(path: Path) -> list[Path]:
    """The files of an input, which is one file, or a folder of .txt files.

    Raises:
        BiomedError: if there is no such file or folder, or it has none of the formats.
    """
    if not path.exists():
        raise BiomedError(f"{path}: no such file or folder; check the path")
    if not path.is_dir():
        format_of(path)
        return [path]
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file()
        and _find_format(file) is not None
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not files:
        raise BiomedError(f"{path}: no text in this folder; its files have to end in .txt")
    for file in files:
        if file.suffix.lower() != ".txt":
            raise BiomedError(
                f"{file}: in a folder, each .txt file is a document; give this by itself"
            )
    return files


def read_text_documents(path: Path, text_field: str = "text") -> Iterator[TextDocument]:
    """Read the documents of a file (a line or row each), or the .txt files of a folder.

    Files but Parquet may be compressed (.gz, .xz, .zst), but not in a folder. Texts are given
    unchanged, also with halves of surrogate pairs. Messages quote nothing of them.

    Raises:
        BiomedError: if the path is none of these; while reading, if a file is damaged.
    """
    files = find_documents(path)
    if path.is_dir():
        for file in files:
            yield _read_note(file, path)
        return
    format = format_of(path)
    if format == "text":
        for number, line in read_lines(path):
            yield TextDocument(line, f"{path}:{number}")
    elif format == "json":
        yield from _read_objects(path, text_field)
    elif format == "csv":
        for place, row in read_records(path):
            yield _create_document(row, text_field, place)
    else:
        yield from _read_parquet(path, text_field)


Writer = Callable[[TextDocument, str], None]


@contextmanager
def writing_text_documents(
    source: Path, output: Path, text_field: str = "text", keep: list[str] | None = None
) -> Iterator[Writer]:
    """Yields a function that writes a document of a source with another text.

    The output is of the same format as the source, and appears once everything is written.

    Args:
        source, output: file or folder.
        text_field: column or JSON field with the text.
        keep: columns of CSV and Parquet that are written too, with the values of the document's
            `fields`; JSON has all of these.

    Raises:
        BiomedError: if the output is the source, or in it, or of another format.
    """
    if source.is_dir():
        with replacing_directory(output, MADE_BY, [source]) as folder:
            yield lambda document, text: _write_note(folder / document.name, text)
        return
    check_same_format(source, output)
    with ExitStack() as stack:
        partial = stack.enter_context(replacing_file(output, [source]))
        if format_of(source) == "parquet":
            yield stack.enter_context(_writing_parquet(source, partial, text_field, keep or []))
            return
        file = stack.enter_context(open_binary(partial, "wb", output.suffix.lower()))
        make = _make_lines(source, output, text_field, keep or [])
        file.write(make(None, "").encode())
        yield lambda document, text: _write_all(file, make(document, text).encode())


def check_same_format(source: Path, output: Path) -> None:
    """Raise BiomedError if an output's ending is not that of the format of its source."""
    if not source.is_dir() and _find_format(output) != format_of(source):
        raise BiomedError(
            f"{output}: name a {_ENDINGS[format_of(source)]} file, as {source.name} is one"
        )


_ENDINGS = {"text": ".txt", "json": ".jsonl", "csv": ".csv", "parquet": ".parquet"}


def format_of(path: Path) -> _Format:
    """The format of a file by the ending of its name.

    Raises:
        BiomedError: if it is unknown.
    """
    format = _find_format(path)
    if format is None:
        raise BiomedError(f"{path}: the ending of the name is unknown; {_NO_ENDING}")
    return format


def _find_format(path: Path) -> _Format | None:
    kind = kind_of(path)
    return None if kind == "xml" else kind


def _read_objects(path: Path, text_field: str) -> Iterator[TextDocument]:
    for number, line in read_lines(path):
        place = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            at = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise BiomedError(f"{place}: not JSON{at}; put an object on each line") from error
        if not isinstance(row, dict):
            raise BiomedError(f"{place}: JSON, but no object; put an object on each line")
        yield _create_document(row, text_field, place)


def _read_parquet(path: Path, text_field: str) -> Iterator[TextDocument]:
    require_pyarrow(str(path))
    from pyarrow.parquet import ParquetFile

    number = 0
    with reading(path), ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield _create_document(row, text_field, f"{path}:{number}")


def _create_document(row: dict[str, Any], text_field: str, place: str) -> TextDocument:
    text = row.get(text_field)
    if not isinstance(text, str):
        reason = f"no {'text in the field' if text_field in row else 'field'} {text_field}"
        raise BiomedError(f"{place}: {reason}; name the one with the text with --text-field")
    return TextDocument(text, place, fields=row)


def _read_note(file: Path, folder: Path) -> TextDocument:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BiomedError(f"{file}: not UTF-8 ({error.reason}); convert the file") from error
    return TextDocument(text, str(file), file.relative_to(folder).as_posix())


def _write_note(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def _write_all(file: Any, content: bytes) -> None:
    file.write(content)


def _make_lines(
    source: Path, output: Path, text_field: str, keep: list[str]
) -> Callable[[TextDocument | None, str], str]:
    """A function from a document and its new text to what is written; from None, to the header."""
    if format_of(source) == "text":
        return lambda document, text: "" if document is None else f"{text}\n"
    if format_of(source) == "csv":
        return _make_records(delimiter_of(output), text_field, keep)

    def make_object(document: TextDocument | None, text: str) -> str:
        if document is None:
            return ""
        return json.dumps({**document.fields, text_field: text}, ensure_ascii=False) + "\n"

    return make_object


def _make_records(
    delimiter: str, text_field: str, keep: list[str]
) -> Callable[[TextDocument | None, str], str]:
    def make(document: TextDocument | None, text: str) -> str:
        row = [*keep, text_field]
        if document is not None:
            row = [*(document.fields[name] for name in keep), text]
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerow(row)
        return buffer.getvalue()

    return make


@contextmanager
def _writing_parquet(
    source: Path, partial: Path, text_field: str, keep: list[str]
) -> Iterator[Writer]:
    """Columns keep the types that they have in the source."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter, read_schema

    given = read_schema(source)
    missing = [name for name in keep if name not in given.names]
    if missing:
        raise BiomedError(f"{source}: no column {escape(missing[0])}; leave it out of --keep")
    fields = [*(given.field(name) for name in keep), pa.field(text_field, pa.string())]
    schema = pa.schema(fields)
    rows: list[dict[str, Any]] = []
    with ParquetWriter(partial, schema, compression="zstd") as writer:

        def flush() -> None:
            writer.write_table(pa.Table.from_pylist(rows, schema))
            rows.clear()

        def write(document: TextDocument, text: str) -> None:
            rows.append({**document.fields, text_field: text})
            if len(rows) == _GROUP_ROWS:
                flush()

        yield write
        flush()
