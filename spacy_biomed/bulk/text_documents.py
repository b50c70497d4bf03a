"""Copies of files of documents with other texts."""

import codecs
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from ..deidentification.vault import check_identifier, identifier_place
from ..errors import BiomedError
from ..files import sources
from ..files.compression import max_line, open_binary
from ..files.outputs import check_replaceable, replace_text, replacing_directory, replacing_file
from ..files.records import Layout, format_fields
from ..files.sources import Columns, Item, Part

MADE_BY = "spacy biomed deidentify"
# The endings of a format that may stand for each other.
_FAMILIES = [(".txt", ".text"), (".jsonl", ".ndjson"), (".json",), (".csv", ".tsv"), (".parquet",)]
# Rows of a Parquet file to write at a time.
_GROUP_ROWS = 10_000

# Writes a document with another text.
Writer = Callable[[Item, str], None]


def find_texts(path: Path, columns: Columns, layout: Layout = Layout()) -> Part:
    """A file of texts, or a folder of .txt files, that can be written with other texts."""
    (first, *others) = sources.find_parts(path, columns, layout, is_copied=True)
    if others or (path.is_dir() and not isinstance(first, sources.TextFolder)):
        raise BiomedError(
            f"{first.path}: in a folder, each .txt file is a document; give this by itself"
        )
    return first


def list_columns(path: Path, text_field: str, layout: Layout = Layout()) -> tuple[str, ...]:
    """The columns of a file besides that of the text; of objects, the fields of the first."""
    part = find_texts(path, Columns(text_field), layout)
    names = part.list_columns() if isinstance(part, sources.RecordFile) else []
    return tuple(name for name in names if name != text_field)


@contextmanager
def writing_texts(
    source: Path, output: Path, columns: Columns, layout: Layout = Layout(), identifier: str = ""
) -> Iterator[Writer]:
    """Yield a function that writes a document of a source with another text.

    The output is of the same format, encoding, line ends and quoting as the source, and appears
    once everything is written. The columns that are kept are written with the text. `identifier` is
    of the vault that is written with the output; that of an earlier output is removed.
    """
    if source.is_dir():
        check_replaceable(output, MADE_BY, [source])
        # Without its sources: their names may be those of patients.
        with replacing_directory(output, MADE_BY) as folder:
            if identifier:
                identifier_place(folder).write_text(f"{identifier}\n", encoding="utf8")
            yield lambda item, text: _write_note(folder / item.id, text, layout)
        return
    with ExitStack() as stack:
        stack.enter_context(_writing_identifier(output, identifier))
        partial = stack.enter_context(replacing_file(output, [source]))
        stack.enter_context(_writing_identifier(output, ""))
        if sources.find_kind(source.name) == ".parquet":
            yield stack.enter_context(_writing_parquet(source, partial, columns))
            return
        file = stack.enter_context(open_binary(partial, "wb", output.suffix.lower()))
        yield stack.enter_context(_writing_lines(source, output, file, columns, layout))


@contextmanager
def _writing_identifier(output: Path, identifier: str) -> Iterator[None]:
    """Write an identifier at the end of the context, or remove an earlier one."""
    place = identifier_place(output)
    check_identifier(place)
    yield
    if identifier:
        replace_text(place, f"{identifier}\n")
    elif place.exists():
        place.unlink()


def check_same_format(source: Path, output: Path) -> None:
    """Raise BiomedError if an output has another format than its source.

    `find_texts` refuses a source of no known format.
    """
    if source.is_dir():
        return
    family = next((one for one in _FAMILIES if sources.find_kind(source.name) in one), None)
    if family and sources.find_kind(output.name) not in family:
        raise BiomedError(f"{output}: name a {family[0]} file, as {source.name} is one")


def _write(writer: codecs.StreamWriter, text: str, where: str) -> None:
    try:
        writer.write(text)
    except UnicodeEncodeError as error:
        raise BiomedError(
            f"{where}: cannot be written in {error.encoding}, which lacks a character; convert the "
            "input to UTF-8"
        ) from None


def _find_style(source: Path, layout: Layout) -> tuple[str, str]:
    """The encoding of a file, with a byte-order mark if it has one, and the end of its lines."""
    encoding = codecs.lookup(layout.encoding).name
    with open_binary(source, "rb", source.suffix.lower()) as file:
        first = io.TextIOWrapper(file, encoding, "ignore", newline="\n").readline(max_line())
    if encoding == "utf-8" and first.startswith("\ufeff"):
        encoding = "utf-8-sig"
    return encoding, "\r\n" if first.endswith("\r\n") else "\n"


def _write_note(path: Path, text: str, layout: Layout) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_binary(path, "wb", path.suffix.lower()) as file:
        _write(codecs.getwriter(layout.encoding)(file), text, path.name)


@contextmanager
def _writing_lines(
    source: Path, output: Path, file: BinaryIO, columns: Columns, layout: Layout
) -> Iterator[Writer]:
    kind = sources.find_kind(source.name)
    encoding, end = _find_style(source, layout)
    writer = codecs.getwriter(encoding)(file)
    delimiter = layout.find_delimiter(output)
    is_list = kind == ".json" and sources.JsonList.has_list(source)
    begin, end = ("[\n", "") if is_list else ("", end)

    def format_record(values: list[object]) -> str:
        return format_fields(values, delimiter, layout.quoting).removesuffix("\n")

    def format_document(item: Item, text: str) -> str:
        if kind in _FAMILIES[0]:
            return text
        if kind in (".csv", ".tsv"):
            return format_record([*(item.fields[name] for name in columns.keep), text])
        return json.dumps({**item.fields, columns.text: text}, ensure_ascii=False)

    def write(item: Item, text: str) -> None:
        nonlocal begin
        _write(writer, f"{begin}{format_document(item, text)}{end}", item.id)
        begin = ",\n" if is_list else ""

    if kind in (".csv", ".tsv"):
        _write(writer, format_record([*columns.keep, columns.text]) + end, output.name)
    yield write
    if is_list:
        _write(writer, "\n]\n" if begin == ",\n" else "[]\n", output.name)


@contextmanager
def _writing_parquet(source: Path, partial: Path, columns: Columns) -> Iterator[Writer]:
    """Columns keep the types that they have in the source."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter, read_schema

    given = read_schema(source)
    fields = [*(given.field(name) for name in columns.keep), pa.field(columns.text, pa.string())]
    schema = pa.schema(fields)
    rows: list[dict[str, object]] = []
    with ParquetWriter(partial, schema, compression="zstd") as writer:

        def flush() -> None:
            writer.write_table(pa.Table.from_pylist(rows, schema))
            rows.clear()

        def write(item: Item, text: str) -> None:
            rows.append({**item.fields, columns.text: text})
            if len(rows) == _GROUP_ROWS:
                flush()

        yield write
        flush()
