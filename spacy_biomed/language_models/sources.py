"""Documents out of text files, JSON lines and Parquet, compressed or not, one at a time."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from ..decompression import check_ratio, open_bounded
from ..decompression import read_lines as read_bounded_lines
from ..errors import BiomedError, escape

TEXT_ENDINGS = (".txt", ".text")
JSON_ENDINGS = (".jsonl", ".ndjson")
PARQUET_ENDINGS = (".parquet",)
COMPRESSED_ENDINGS = (".gz", ".xz", ".zst")

_ENDINGS_IN_WORDS = ".txt, .jsonl (each of them also .gz, .xz or .zst) or .parquet"

# Rows of a Parquet file that are in memory at a time.
_BATCH_ROWS = 256

# What a damaged file can raise while it is read; pyarrow's errors are among them.
_DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


def read_documents(paths: Iterable[Path], *, text_field: str = "text") -> Iterator[str]:
    """Read documents one after the other, in the order of the paths, in flat memory.

    The ending of a file's name says what it is: `.txt` has a document on each line; `.jsonl` (or
    `.ndjson`) a JSON object on each line; both may be compressed (`.gz`, `.xz`, `.zst`); `.parquet`
    has a document in each row. Documents of nothing but white space are left out.

    Args:
        paths: files, or folders of them, which are searched through in order of name; what has
            another ending or a name that begins with a dot is passed over in them.
        text_field: name of the JSON field or the Parquet column that has the text.

    Raises:
        BiomedError: at once if a path is not there, has an unknown ending, or is a folder without
            any such file; while reading, if a file is damaged, not UTF-8 or not JSON, or a document
            has no text field.
    """
    files = find_files(paths)
    return (text for path in files for text in _read_file(path, text_field) if text.strip())


def sample_documents(
    paths: Sequence[Path], words: int, *, text_field: str = "text", seed: int = 0
) -> Iterator[str]:
    """Draw documents from all of a text, in its order, each with the same probability.

    The text is read twice. A document is drawn or not by what it says, so that the same documents
    come out of the same text in other files or another order; equal documents are drawn together.

    Args:
        paths, text_field: see `read_documents`.
        words: of the documents in all, by white space; the last that is drawn may go beyond.
        seed: another one draws others.

    Raises:
        BiomedError: as `read_documents` does.
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
    """The files that paths stand for; see `read_documents`."""
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


def kind_of(path: Path) -> Literal["text", "json", "parquet"] | None:
    """What a file is by its name: text or JSON, a document on each line, or Parquet.

    Returns:
        None if the name does not say.
    """
    name = path.name.lower()
    if name.endswith(PARQUET_ENDINGS):
        return "parquet"
    if name.endswith(COMPRESSED_ENDINGS):
        name = name.rpartition(".")[0]
    if name.endswith(TEXT_ENDINGS):
        return "text"
    return "json" if name.endswith(JSON_ENDINGS) else None


def open_binary(path: Path, mode: Literal["rb", "wb"], ending: str) -> BinaryIO:
    """Open a file that is compressed as the ending of a name says.

    Args:
        ending: `.gz`, `.xz`, `.zst`; any other means that it is not compressed. One that is read
            gives a BiomedError where it becomes too large (`spacy_biomed.decompression`).
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
        # Half the memory of the default preset, for a few per cent in size.
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
        return (text for _, text, _ in read_rows(path, text_field))
    return (line for _, line in read_lines(path))


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1; they end at line feeds alone.

    Raises:
        BiomedError: while reading, if the file is damaged, not UTF-8, becomes too large when it is
            decompressed, or has a line that is too long (`spacy_biomed.decompression`).
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


def read_rows(path: Path, text_field: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Objects of JSON lines: place, for messages; text; and the whole object. Empty lines are
    passed over.

    Raises:
        BiomedError: while reading, if the file is damaged, a line is no object, or an object has no
            text in the field.
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
        if text_field not in row:
            raise _no_field(place, text_field, row)
        text = _checked(row[text_field], text_field, place)
        # An escaped half of a surrogate pair is no character and could not be written again.
        if "\\ud" in line.lower():
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        yield place, text, row


def _read_parquet(path: Path, text_field: str) -> Iterator[str]:
    _require_pyarrow(path)
    from pyarrow.parquet import ParquetFile

    row = 0
    try:
        # Page by page: with its defaults, the reader takes in all of a row group.
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
            f"with the text, or leave out what has none"
        )
    return value


def _kind_of_value(value: Any) -> str:
    """What a value is, in words: it may be of a patient, and is not quoted."""
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return "null" if value is None else kinds.get(type(value), "an object")


def _decompress_zstandard(file: BinaryIO) -> Any:
    """With pyarrow, which notices that a file has been cut off where python-zstandard does not."""
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.LZMAFile,
    ".zst": _decompress_zstandard,
}


def _require_pyarrow(path: Path) -> None:
    if find_spec("pyarrow") is None:
        raise BiomedError(f"{path}: needs pyarrow: pip install 'spacy-biomed[train]'")


def _no_field(place: str, text_field: str, fields: Iterable[str]) -> BiomedError:
    found = escape(", ".join(fields) or "none", 300)
    return BiomedError(f"{place}: no field {text_field}, but {found}; name the one with the text")


def _cannot_read(path: Path, where: str, error: Exception) -> BiomedError:
    reason = getattr(error, "strerror", None) or escape(" ".join(str(error).split()), 200)
    return BiomedError(
        f"{path}: cannot be read {where} ({reason}); is it complete, and what its ending says?"
    )
