"""Collections of documents as numbered rows, which are read again from any shard on."""

from __future__ import annotations

import csv
import json
import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from spacy.vocab import Vocab

from ..corpora.gold import DOCUMENT_ID
from ..corpora.readers.pubtator import TEXT_LINE
from ..decompression import max_line
from ..errors import BiomedError, escape
from ..language_models.sources import COMPRESSED_ENDINGS, open_binary
from ..training.corpus import read_doc_bin, read_docs

ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pubtator", ".spacy", ".txt")
# Formats that have their own compression.
_COMPRESSED_FORMATS = (".parquet", ".spacy")

_BLOCK = 1 << 20
# Rows of a Parquet file to read at a time.
_BATCH_ROWS = 256


class Columns(NamedTuple):
    """The columns (or JSON fields) of a document's text and identifier.

    Attributes:
        text: column with the text.
        id: column with the identifier. None: the column "id" if there is one, else the file's name
            and the number of the row, as in `notes.jsonl:17`.
    """

    text: str = "text"
    id: str | None = None


class Item(NamedTuple):
    """A row of the input: a document, or what is wrong with it.

    Attributes:
        id: identifier; file and row if it cannot be read.
        text: the text.
        error: why the row is no document, without its text; "" for a document.
        patient: what documents have in common that share surrogates; "" for nothing.
    """

    id: str
    text: str = ""
    error: str = ""
    patient: str = ""


class Shard(NamedTuple):
    """Consecutive rows of a part of the input.

    Attributes:
        part: index of the part.
        offset: where the rows begin, in the part's own unit: bytes of (decompressed) content, or
            rows.
        row: number of the first row within the part, from 0.
        rows: number of rows.
        first: number of the first row within the whole input, from 0.
    """

    part: int
    offset: int
    row: int
    rows: int
    first: int


class Part(ABC):
    """A file of the input, or its folder of text files.

    Attributes:
        path: the file or folder.
        name: the path within the input; the name of the input itself if it is one part.
    """

    can_seek = False

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name
        self._stream: Iterator[Item] | None = None
        self._row = 0

    @abstractmethod
    def find_offsets(self) -> Iterator[int]:
        """Yield the offset of each row."""

    @abstractmethod
    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        """Read all rows from an offset on, which is that of a row."""

    def read(self, shard: Shard) -> Iterator[Item]:
        """Read the rows of a shard.

        The file stays open, so that shards in ascending order are read at the cost of one reading.
        """
        is_behind = self._stream is None or shard.row < self._row
        if is_behind or (self.can_seek and shard.row != self._row):
            self._stream = self.read_from(shard.offset, shard.row)
            self._row = shard.row
        assert self._stream is not None
        for _ in islice(self._stream, shard.row - self._row):
            pass
        self._row = shard.row + shard.rows
        yield from islice(self._stream, shard.rows)

    def state(self) -> str:
        """Size in bytes and time of modification, one of which changes with the content."""
        with reading(self.path):
            return _describe_file(self.path)

    def checksum(self) -> str:
        """SHA-256 of the content."""
        with reading(self.path), self.path.open("rb") as file:
            return _hash(iter(lambda: file.read(_BLOCK), b""))

    def place(self, row: int) -> str:
        """The name of a row: file and number from 1."""
        return f"{self.name}:{row + 1}"


# An offset in bytes, and a line with its end; None if the line is too long.
_Line = tuple[int, bytes | None]


class RecordFile(Part):
    """A file, compressed or not, whose rows are records of one or more lines."""

    def __init__(self, path: Path, name: str, columns: Columns):
        super().__init__(path, name)
        self.columns = columns
        self._ending = path.suffix.lower()
        self.can_seek = self._ending not in COMPRESSED_ENDINGS

    @abstractmethod
    def split(self, lines: Iterator[_Line]) -> Iterator[tuple[int, Any]]:
        """Combine lines to records; yield the offset and the content of each."""

    @abstractmethod
    def parse(self, record: Any, row: int) -> Item:
        """Read a record."""

    def find_offsets(self) -> Iterator[int]:
        return (offset for offset, _ in self._records(0))

    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        for number, (_, record) in enumerate(self._records(offset), start=row):
            yield self.parse(record, number)

    def _records(self, offset: int) -> Iterator[tuple[int, Any]]:
        with reading(self.path), open_binary(self.path, "rb", self._ending) as file:
            if self.can_seek:
                file.seek(offset)
            else:
                _skip(file, offset)
            yield from self.split(_number_lines(file, offset))


class TextLines(RecordFile):
    """A text file with a document on each line that is not blank."""

    def split(self, lines: Iterator[_Line]) -> Iterator[tuple[int, bytes | None]]:
        for offset, line in lines:
            if line is None or line.strip():
                yield offset, line

    def parse(self, record: bytes | None, row: int) -> Item:
        place = self.place(row)
        if record is None:
            return Item(place, error=_too_long("line"))
        try:
            return Item(place, record.decode("utf-8-sig" if row == 0 else "utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            return Item(place, error=f"not UTF-8 ({error.reason})")


class JsonLines(TextLines):
    """A file with a JSON object on each line."""

    def parse(self, record: bytes | None, row: int) -> Item:
        place, line, error, _ = super().parse(record, row)
        if error:
            return Item(place, error=error)
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            return Item(place, error="not JSON")
        if not isinstance(fields, dict):
            return Item(place, error="JSON, but no object")
        return _create_item(fields, self.columns, place)


class DelimitedFile(RecordFile):
    """A CSV file (`.csv`, `.tsv`) with the names of the columns in its first record."""

    def __init__(self, path: Path, name: str, columns: Columns):
        super().__init__(path, name, columns)
        stem = path.name.lower()
        for ending in COMPRESSED_ENDINGS:
            stem = stem.removesuffix(ending)
        self._delimiter = "\t" if stem.endswith(".tsv") else ","
        with reading(path), open_binary(path, "rb", self._ending) as file:
            self._begin, header = next(self._parse_csv(_number_lines(file, 0)), (0, None))
        self._header: list[str] = [name.removeprefix("\ufeff") for name in header or []]
        _check_columns(str(path), columns, self._header)

    def split(self, lines: Iterator[_Line]) -> Iterator[tuple[int, list[str] | None]]:
        rows = self._parse_csv(lines)
        return ((offset, fields) for offset, fields in rows if offset > self._begin)

    def _parse_csv(self, lines: Iterator[_Line]) -> Iterator[tuple[int, list[str] | None]]:
        start: int | None = None

        def decode() -> Iterator[str]:
            nonlocal start
            for offset, line in lines:
                start = offset if start is None else start
                yield "\0" if line is None else line.decode("utf-8", "surrogateescape")

        reader = csv.reader(decode(), delimiter=self._delimiter)
        while True:
            # A limit of the whole process; other modules of this package have no use for it.
            csv.field_size_limit(max_line())
            start = None
            try:
                fields: list[str] | None = next(reader)
            except StopIteration:
                return
            except csv.Error:
                fields = None
            if fields != []:  # a blank line
                yield start or 0, fields

    def parse(self, record: list[str] | None, row: int) -> Item:
        place = self.place(row)
        if record is None or "\0" in record[:1]:
            return Item(place, error=_too_long("field or line"))
        if len(record) != len(self._header):
            return Item(place, error=f"{len(record)} fields and not {len(self._header)}")
        if any("\udc80" <= character <= "\udcff" for field in record for character in field):
            return Item(place, error="not UTF-8")
        return _create_item(dict(zip(self._header, record, strict=True)), self.columns, place)


class ParquetPart(Part):
    """A Parquet file."""

    def __init__(self, path: Path, name: str, columns: Columns):
        super().__init__(path, name)
        require_pyarrow(str(path))
        with self._open() as file:
            names = file.schema_arrow.names
            self._rows = file.metadata.num_rows
        _check_columns(str(path), columns, names)
        self.columns = columns._replace(id=columns.id or ("id" if "id" in names else None))

    def find_offsets(self) -> Iterator[int]:
        return iter(range(self._rows))

    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        names = list(filter(None, dict.fromkeys(self.columns)))
        with self._open() as file:
            skip, group = row, 0
            while group < file.num_row_groups and skip >= file.metadata.row_group(group).num_rows:
                skip -= file.metadata.row_group(group).num_rows
                group += 1
            groups = range(group, file.num_row_groups)
            number = row - skip
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names):
                columns = [batch.column(name) for name in names]
                for index in range(batch.num_rows):
                    if number >= row:
                        fields = {n: _value(c[index]) for n, c in zip(names, columns, strict=True)}
                        yield _create_item(fields, self.columns, self.place(number))
                    number += 1

    @contextmanager
    def _open(self) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        # Page by page: with its defaults, the reader loads a whole row group.
        with (
            reading(self.path),
            ParquetFile(self.path, buffer_size=_BLOCK, pre_buffer=False) as file,
        ):
            yield file


class PubTatorFile(RecordFile):
    """A PubTator file, of which only titles and abstracts are read.

    The text is title and abstract with one space between, as the offsets of PubTator count.
    """

    def split(self, lines: Iterator[_Line]) -> Iterator[tuple[int, list[bytes | None]]]:
        begin, id = 0, None
        record: list[bytes | None] = []
        for offset, line in lines:
            match = None if line is None else TEXT_LINE.fullmatch(_decode_loosely(line))
            if match is None and line is not None:  # an annotation, or blank
                continue
            is_next = match is None or match[2] == "t" or match[1].strip() != id
            if is_next and record:
                yield begin, record
            if is_next:
                begin, record, id = offset, [], None if match is None else match[1].strip()
            record.append(line)
        if record:
            yield begin, record

    def parse(self, record: list[bytes | None], row: int) -> Item:
        texts = []
        id = self.place(row)
        for line in record:
            if line is None:
                return Item(id, error=_too_long("line"))
            try:
                match = TEXT_LINE.fullmatch(_strip(line.decode()))
            except UnicodeDecodeError as error:
                return Item(id, error=f"not UTF-8 ({error.reason})")
            assert match is not None
            id = match[1].strip() or id
            texts.append(match[3])
        return Item(id, " ".join(texts))


class SpacyFile(Part):
    """A `.spacy` file, of which only the texts are read, all into memory."""

    def find_offsets(self) -> Iterator[int]:
        return iter(range(len(read_doc_bin(self.path))))

    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        docs = read_docs(self.path, Vocab())
        for number, doc in enumerate(islice(docs, row, None), start=row):
            yield Item(str(doc.user_data.get(DOCUMENT_ID) or self.place(number)), doc.text)


class TextFolder(Part):
    """A folder in and below which each `.txt` file is a document.

    The identifier is the path within the folder without `.txt`.
    """

    can_seek = True

    def __init__(self, path: Path, name: str, files: list[str]):
        super().__init__(path, name)
        self.files = files

    def find_offsets(self) -> Iterator[int]:
        return iter(range(len(self.files)))

    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        for name in islice(self.files, row, None):
            yield self._read_file(name)

    def _read_file(self, name: str) -> Item:
        id, file = name.removesuffix(Path(name).suffix), self.path / name
        try:
            if file.stat().st_size > max_line():
                return Item(id, error=_too_long("file"))
            return Item(id, file.read_bytes().decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            return Item(id, error=f"not UTF-8 ({error.reason})")
        except OSError as error:
            return Item(id, error=f"cannot be read ({error.strerror})")

    def state(self) -> str:
        """A checksum of the files' names, sizes and times of modification."""
        with reading(self.path):
            return _hash(
                f"{name} {_describe_file(self.path / name)}\n".encode("utf-8", "surrogateescape")
                for name in self.files
            )

    def checksum(self) -> str:
        """SHA-256 of the names and the contents."""
        return _hash(
            piece
            for name in self.files
            for piece in (f"{name}\n".encode("utf-8", "surrogateescape"), self._digest(name))
        )

    def _digest(self, name: str) -> bytes:
        try:
            return sha256((self.path / name).read_bytes()).digest()
        except OSError:
            return b""


def find_parts(path: Path, columns: Columns) -> list[Part]:
    """The parts of an input, in order of name.

    Args:
        path: a file of JSON lines, CSV, Parquet, PubTator or spaCy, or a text file with a document
            on each line; or a folder of such files, or of text files that are a document each, such
            as brat's.
        columns: of the text and the identifier.

    Raises:
        BiomedError: if there is no such file or folder, its ending is unknown, a table lacks a
            column, or a folder has both text files and others, or none.
    """
    if not path.is_dir():
        if not path.exists():
            raise BiomedError(f"{path}: no such file or folder; check the path")
        return [_open_part(path, path.name, columns)]
    names = sorted(
        file.relative_to(path).as_posix()
        for file in path.rglob("*")
        if file.is_file()
        and _kind(file) is not None
        and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    )
    texts = [name for name in names if name.lower().endswith(".txt")]
    if not names:
        raise BiomedError(f"{path}: no document; put files here that end in {', '.join(ENDINGS)}")
    if texts and len(texts) < len(names):
        raise BiomedError(
            f"{path}: has both .txt files and others; give a folder of one kind, or one file"
        )
    if texts:
        return [TextFolder(path, path.name, texts)]
    return [_open_part(path / name, name, columns) for name in names]


def plan_shards(parts: Iterable[Part], size: int) -> list[Shard]:
    """Cut an input into shards of `size` rows, the last of each part with what is left."""
    shards: list[Shard] = []
    first = 0
    for number, part in enumerate(parts):
        rows = -1
        begun: list[tuple[int, int]] = []
        for rows, offset in enumerate(part.find_offsets()):
            if rows % size == 0:
                begun.append((rows, offset))
        rows += 1
        for row, offset in begun:
            shards.append(Shard(number, offset, row, min(size, rows - row), first + row))
        first += rows
    return shards


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert errors of reading an input file to a one-line message."""
    try:
        yield
    except BiomedError:
        raise
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        reason = getattr(error, "strerror", None) or escape(" ".join(str(error).split()), 200)
        raise BiomedError(
            f"{path}: cannot be read ({reason}); check that it is complete, and that its ending is "
            "right"
        ) from error


def require_pyarrow(where: str) -> None:
    """Raise BiomedError if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise BiomedError(f"{where}: needs pyarrow: pip install pyarrow")


def _kind(path: Path) -> str | None:
    """The ending of a file's name without that of its compression; None if it is unknown."""
    name = path.name.lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    is_plain = name == path.name.lower()
    for ending in ENDINGS:
        if name.endswith(ending) and (is_plain or ending not in _COMPRESSED_FORMATS):
            return ending
    return None


def _open_part(path: Path, name: str, columns: Columns) -> Part:
    kind = _kind(path)
    if kind == ".parquet":
        return ParquetPart(path, name, columns)
    if kind in (".csv", ".tsv"):
        return DelimitedFile(path, name, columns)
    if kind in (".jsonl", ".ndjson"):
        return JsonLines(path, name, columns)
    if kind == ".pubtator":
        return PubTatorFile(path, name, columns)
    if kind == ".spacy":
        return SpacyFile(path, name)
    if kind == ".txt":
        return TextLines(path, name, columns)
    raise BiomedError(
        f"{path}: the ending of the name is unknown; give a folder of .txt files, or a file that "
        f"ends in {', '.join(ENDINGS)}"
    )


def _create_item(fields: dict[str, Any], columns: Columns, place: str) -> Item:
    id = fields.get(columns.id or "id")
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if not isinstance(id, str) or not id:
        if columns.id is not None:
            return Item(place, error=f"no identifier in the column {columns.id}")
        id = place
    if not _is_text(id):
        return Item(place, error="an identifier with half of a surrogate pair")
    text = fields.get(columns.text)
    if not isinstance(text, str):
        return Item(id, error=f"no text in the column {columns.text}")
    if not _is_text(text):
        return Item(id, error="a text that is not UTF-8, or has half of a surrogate pair")
    return Item(id, text)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return "\ud800"  # no text


def _check_columns(where: str, columns: Columns, found: list[str]) -> None:
    for name, option in ((columns.text, "--text-column"), (columns.id, "--id-column")):
        if name is not None and name not in found:
            shown = escape(", ".join(found) or "none", 300)
            raise BiomedError(f"{where}: no column {name}, but {shown}; name it with {option}")


def _describe_file(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _number_lines(file: BinaryIO, offset: int) -> Iterator[_Line]:
    """Yield lines with their offsets; None for a line that is longer than `max_line()`."""
    limit = max_line()
    while line := file.readline(limit + 1):
        length = len(line)
        if length <= limit:
            yield offset, line
        else:
            while line and not line.endswith(b"\n"):
                line = file.readline(_BLOCK)
                length += len(line)
            yield offset, None
        offset += length


def _skip(file: BinaryIO, count: int) -> None:
    while count > 0 and (read := file.read(min(count, _BLOCK))):
        count -= len(read)


def _decode_loosely(line: bytes) -> str:
    return _strip(line.decode("utf-8", "surrogateescape"))


def _strip(line: str) -> str:
    return line.removeprefix("\ufeff").rstrip("\r\n")


def _too_long(what: str) -> str:
    return f"a {what} of over {max_line() >> 20} MB"


def _hash(pieces: Iterable[bytes]) -> str:
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
