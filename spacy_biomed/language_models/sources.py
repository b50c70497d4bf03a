"""Read documents from text, JSON lines, tables and XML, compressed or not, one at a time."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from ..decompression import check_ratio, max_line, open_bounded
from ..decompression import read_lines as read_bounded_lines
from ..errors import BiomedError, escape, install_command
from .article_xml import read_articles
from .patents import is_patent, read_patent

TEXT_ENDINGS = (".txt", ".text")
JSON_ENDINGS = (".jsonl", ".ndjson")
XML_ENDINGS = (".xml", ".nxml")
# The characters between fields.
DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET_ENDINGS = (".parquet",)
COMPRESSED_ENDINGS = (".gz", ".xz", ".zst")
# One side of a parallel corpus of OPUS, such as EMEA.en-es.es: a line for each sentence.
_MOSES = re.compile(r"\.(\w{2,3})-(\w{2,3})\.(?:\1|\2)$")

_ENDINGS_IN_WORDS = ".txt, .jsonl, .csv, .tsv, .xml (each also .gz, .xz or .zst) or .parquet"

FileKind = Literal["text", "json", "csv", "xml", "parquet"]

# Marks notes of MIMIC-III that are errors.
_IS_ERROR = "ISERROR"

# Rows of a Parquet file to read at a time.
_BATCH_ROWS = 256

# Exceptions when reading a damaged file, which include pyarrow's.
_DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


def read_documents(paths: Iterable[Path], *, text_field: str = "text") -> Iterator[str]:
    """Read documents one at a time, in the order of the paths, with constant memory.

    The ending of a file's name determines its format: `.txt` (or `.text`) has a document on each
    line; `.jsonl` (or `.ndjson`) a JSON object on each line; `.csv` and `.tsv` a document in each
    row below the names of the columns; `.xml` (or `.nxml`) articles (`article_xml`); all of these
    may be compressed (`.gz`, `.xz`, `.zst`); `.parquet` has a document in each row. A file such as
    `EMEA.en-es.es`, of a parallel corpus, is text. JSON objects without the field may be patents
    (`patents`). Notes of MIMIC-III that are marked as errors, and documents of only white space,
    are left out.

    Args:
        paths: files, or folders, which are searched recursively in order of name. Files in folders
            are skipped if they have another ending, or if a part of their path starts with a dot.
        text_field: JSON field or column with the text.

    Raises:
        BiomedError: at once if a path does not exist, has an unknown ending, or is a folder without
            any such file; while reading, if a file is damaged, too large when decompressed, not
            UTF-8 or not in its format, or if a document has no text field.
    """
    files = find_files(paths)
    return (text for path in files for text in _read_file(path, text_field) if text.strip())


def sample_documents(
    paths: Sequence[Path], words: int, *, text_field: str = "text", seed: int = 0
) -> Iterator[str]:
    """Draw documents with equal probability, and return them in their order.

    The text is read twice. The choice depends on a hash of each document, so it is the same if the
    text is in other files or in another order. Equal documents are drawn together.

    Args:
        paths, text_field: see `read_documents`.
        words: minimum total number of words, separated by white space. Documents are drawn until
            they have this number, or all documents if the text has fewer words.
        seed: changes the choice.

    Raises:
        BiomedError: as in `read_documents`.
    """

    def place(text: str) -> int:
        digest = blake2b(text.encode(), digest_size=8, key=seed.to_bytes(8, "big")).digest()
        return int.from_bytes(digest, "big")

    drawn: list[tuple[int, int]] = []  # a heap, the last place on top
    total = 0
    for text in read_documents(paths, text_field=text_field):
        count = len(text.split())
        heappush(drawn, (-place(text), count))
        total += count
        while total - drawn[0][1] >= words:
            total -= heappop(drawn)[1]
    last = -drawn[0][0] if drawn else -1
    texts = read_documents(paths, text_field=text_field)
    return (text for text in texts if place(text) <= last)


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files of paths and folders; see `read_documents`."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files.extend(_search(path))
        elif not path.exists():
            raise BiomedError(f"{path}: no such file or folder; check the path")
        elif kind_of(path) is None:
            raise BiomedError(
                f"{path}: the ending of the name is unknown; rename the file to {_ENDINGS_IN_WORDS}"
            )
        else:
            files.append(path)
    return files


def kind_of(path: Path) -> FileKind | None:
    """The format of a file by the ending of its name, without `.gz`, `.xz` or `.zst`.

    Returns:
        None if the ending is unknown.
    """
    name = path.name.lower()
    if name.endswith(PARQUET_ENDINGS):
        return "parquet"
    name = _without_compression(name)
    if name.endswith(tuple(DELIMITERS)):
        return "csv"
    if name.endswith(XML_ENDINGS):
        return "xml"
    if name.endswith(JSON_ENDINGS):
        return "json"
    return "text" if name.endswith(TEXT_ENDINGS) or _MOSES.search(name) else None


def delimiter_of(path: Path) -> str:
    """The character between the fields of a file of the kind "csv"."""
    return DELIMITERS[Path(_without_compression(path.name.lower())).suffix]


def _without_compression(name: str) -> str:
    return name.rpartition(".")[0] if name.endswith(COMPRESSED_ENDINGS) else name


def open_binary(path: Path, mode: Literal["rb", "wb"], ending: str) -> BinaryIO:
    """Open a file for reading or writing, with compression by an ending.

    Args:
        path: the file.
        mode: "rb" or "wb".
        ending: `.gz`, `.xz` or `.zst`; any other ending means no compression.

    Raises:
        BiomedError: if pyarrow is missing for `.zst`; while reading, if the file becomes too large
            when decompressed (`spacy_biomed.decompression`).
    """
    if ending not in COMPRESSED_ENDINGS:
        return path.open(mode)
    if ending == ".zst":
        _require_pyarrow(path)
    if mode == "rb":
        return open_bounded(path, _DECOMPRESSORS[ending])
    if ending == ".gz":
        return cast(BinaryIO, gzip.open(path, mode, compresslevel=6))
    if ending == ".xz":
        # Half the memory of the default preset, with a few per cent more size.
        return cast(BinaryIO, lzma.open(path, mode, preset=4))
    import pyarrow

    return cast(BinaryIO, pyarrow.output_stream(str(path), compression="zstd"))


def _search(folder: Path) -> list[Path]:
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and kind_of(path) is not None
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not files:
        raise BiomedError(
            f"{folder}: no text in this folder; its files have to end in {_ENDINGS_IN_WORDS}"
        )
    return files


def _read_file(path: Path, text_field: str) -> Iterator[str]:
    kind = kind_of(path)
    if kind == "parquet":
        return _read_parquet(path, text_field)
    if kind == "json":
        return _read_json(path, text_field)
    if kind == "csv":
        return _read_csv(path, text_field)
    if kind == "xml":
        return _read_xml(path)
    return (line for _, line in read_lines(path))


def _read_json(path: Path, text_field: str) -> Iterator[str]:
    for place, row in _read_objects(path):
        if text_field not in row and is_patent(row):
            texts = read_patent(row, place)
        else:
            texts = iter([_take_text(row, text_field, place)])
        for text in texts:
            # An escaped half of a surrogate pair is no character and cannot be encoded in UTF-8.
            yield text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read_csv(path: Path, text_field: str) -> Iterator[str]:
    for place, row in read_records(path):
        if row.get(_IS_ERROR) != "1":
            yield _take_text(row, text_field, place)


def _read_xml(path: Path) -> Iterator[str]:
    try:
        with open_binary(path, "rb", path.suffix.lower()) as file:
            yield from read_articles(file, path)
    except BiomedError:
        raise
    except _DAMAGE as error:
        raise _cannot_read(path, "to its end", error) from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, from 1; only line feeds end a line.

    Raises:
        BiomedError: while reading, if the file is damaged, not UTF-8, too large when decompressed,
            or has a line that is too long (`spacy_biomed.decompression`).
    """
    number = 0
    try:
        with open_binary(path, "rb", path.suffix.lower()) as file:
            for number, line in enumerate(read_bounded_lines(file, path), start=1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except BiomedError:
        raise
    except UnicodeDecodeError as error:
        raise BiomedError(
            f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line: {error.reason}); "
            "convert the file to UTF-8"
        ) from error
    except _DAMAGE as error:
        raise _cannot_read(path, f"after line {number}", error) from error


def _read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of JSON lines, each with its file and line; blank lines are skipped.

    Raises:
        BiomedError: while reading, if the file is damaged, or a line is no object.
    """
    for number, line in read_lines(path):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise BiomedError(
                f"{place}: not JSON ({reason}); put an object on each line"
            ) from error
        if not isinstance(row, dict):
            raise BiomedError(f"{place}: JSON, but no object; put an object on each line")
        yield place, row


def read_records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows below the first one of a CSV or TSV file, each with its file and line.

    Raises:
        BiomedError: while reading, if the file is damaged, is no CSV, or a row has more or fewer
            fields than the first.
    """
    lines = (f"{line}\n" for _, line in read_lines(path))
    csv.field_size_limit(max_line())
    reader = csv.reader(lines, delimiter=delimiter_of(path), strict=True)
    header: list[str] | None = None
    try:
        for record in reader:
            place = f"{path}:{reader.line_num}"
            if header is None:
                header = record
            elif record and len(record) != len(header):
                raise BiomedError(
                    f"{place}: {len(record)} fields and not {len(header)}, as the first line has; "
                    "mend the line"
                )
            elif record:
                yield place, dict(zip(header, record, strict=True))
    except csv.Error:  # its message may quote
        raise BiomedError(f"{path}:{reader.line_num}: no CSV; check the quotation marks") from None


def _take_text(row: dict[str, Any], text_field: str, place: str) -> str:
    if text_field not in row:
        raise _no_field(place, text_field, row)
    return _checked(row[text_field], text_field, place)


def _read_parquet(path: Path, text_field: str) -> Iterator[str]:
    _require_pyarrow(path)
    from pyarrow.parquet import ParquetFile

    row = 0
    try:
        # Page by page: with its defaults, the reader loads a whole row group.
        with ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            if text_field not in file.schema_arrow.names:
                raise _no_field(str(path), text_field, file.schema_arrow.names)
            for group in range(file.num_row_groups):
                columns = file.metadata.row_group(group)
                for column in map(columns.column, range(columns.num_columns)):
                    if column.path_in_schema == text_field:
                        sizes = (column.total_compressed_size, column.total_uncompressed_size)
                        check_ratio(*sizes, path)
            for batch in file.iter_batches(_BATCH_ROWS, columns=[text_field]):
                for value in batch.column(0).to_pylist():
                    row += 1
                    yield _checked(value, text_field, f"{path}: row {row}")
    except BiomedError:
        raise
    except _DAMAGE as error:
        raise _cannot_read(path, f"after row {row}", error) from error


def _checked(value: Any, text_field: str, place: str) -> str:
    if not isinstance(value, str):
        raise BiomedError(
            f"{place}: field {text_field} is no text but {_kind_of_value(value)}; name the field "
            "with the text, or remove documents without text"
        )
    return value


def _kind_of_value(value: Any) -> str:
    """The type of a value in words; the value itself may be personal data and is not quoted."""
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return "null" if value is None else kinds.get(type(value), "an object")


def _decompress_zstandard(file: BinaryIO) -> Any:
    """Decompress with pyarrow, which unlike python-zstandard detects truncated files."""
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.LZMAFile,
    ".zst": _decompress_zstandard,
}


def _require_pyarrow(path: Path) -> None:
    if find_spec("pyarrow") is None:
        raise BiomedError(f"{path}: needs pyarrow: {install_command('train')}")


def _no_field(place: str, text_field: str, fields: Iterable[str]) -> BiomedError:
    found = escape(", ".join(fields) or "none", 300)
    return BiomedError(f"{place}: no field {text_field}, but {found}; name the one with the text")


def _cannot_read(path: Path, where: str, error: Exception) -> BiomedError:
    reason = getattr(error, "strerror", None) or escape(" ".join(str(error).split()), 200)
    return BiomedError(
        f"{path}: cannot be read {where} ({reason}); check that it is complete, and that its "
        "ending is right"
    )
