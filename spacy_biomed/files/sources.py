"""Collections of documents: files, or folders of them, as records that are read from any one on.

Bulk annotation reads numbered rows of parts (`find_parts`), de-identification copies them, and
cleaning, pretraining and benchmarks read the records of files one after the other.
"""

import json
import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BiomedError, escape, first_line
from . import records
from .article_xml import read_articles
from .compression import COMPRESSED_ENDINGS, max_line, open_binary, reading, strip_compression
from .digests import hash_file, hash_pieces
from .folders import FoundFile, find_files
from .parquet import read_rows, read_shape
from .records import Layout, Record

# Formats that have their own compression.
_COMPRESSED_FORMATS = (".parquet", ".spacy")


class Columns(NamedTuple):
    """The columns (or JSON fields) of a document.

    Attributes:
        text: column with the text.
        id: column with the identifier. None: the column "id" if there is one. A document without
            an identifier is named after its file and the number of the row, as in `notes.jsonl:17`.
        keep: columns that are written with what is found.
        patient: column of what documents have in common that share surrogates.
    """

    text: str = "text"
    id: str | None = None
    keep: tuple[str, ...] = ()
    patient: str | None = None


class Item(NamedTuple):
    """A row of the input: a document, or what is wrong with it.

    Attributes:
        id: identifier; file and row if it cannot be read.
        error: why the row cannot be read, without its text; "" for a document.
        patient: what documents have in common that share surrogates; "" for nothing.
        fields: the columns that are kept.
        title_length: characters of the title, with which the text begins; None if unknown.
    """

    id: str
    text: str = ""
    error: str = ""
    patient: str = ""
    fields: dict[str, object] = {}
    title_length: int | None = None


class Reading(NamedTuple):
    """How an input is read."""

    columns: Columns = Columns()
    layout: Layout = Layout()
    # Whether documents are written again in the form of the input: they are known by their place,
    # and a blank line of a text is one too.
    is_copied: bool = False
    text_option: str = "--text-column"  # what names the column of the text, for messages

    def named_columns(self) -> dict[str, str]:
        """The columns that an input must have, each with the option that names it."""
        columns = self.columns
        options = {columns.text: self.text_option, columns.id: "--id-column"}
        options |= {name: "--keep" for name in columns.keep}
        options |= {columns.patient: "--patient-column"}
        return {name: option for name, option in options.items() if name is not None}


class Shard(NamedTuple):
    """Consecutive rows of a part of the input.

    Attributes:
        part: index of the part.
        offset: where the rows begin, in bytes of (decompressed) content or in rows.
        row, rows: number of the first row within the part, from 0, and how many there are.
        first: number of the first row within the whole input, from 0.
    """

    part: int
    offset: int
    row: int
    rows: int
    first: int


def has_changed(path: Path) -> BiomedError:
    """The error of an input that changes while it is read."""
    return BiomedError(f"{path}: changes while it is read: restore it, or name another output")


class Part(ABC):
    """A file of the input, or its folder of text files.

    `name` is the path within the input, or the name of the input itself if it is one part. `state`
    is that of `find_state` when it was found. `change` is what is made of each row.
    """

    can_seek = False
    change: Callable[[Item], Item] | None = None

    def __init__(self, path: Path, name: str, how: Reading):
        self.path, self.name, self.how = path, name, how
        self._stream: Iterator[Item] | None = None
        self._row = 0
        self.state = self.find_state()

    @abstractmethod
    def find_offsets(self) -> Iterator[int]:
        """Yield the offset of each row."""

    @abstractmethod
    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        """Read all rows from an offset on, which is that of a row."""

    def read_changed(self, offset: int = 0, row: int = 0) -> Iterator[Item]:
        """What `change` makes of the rows; arguments are as in `read_from`."""
        items = self.read_from(offset, row)
        return items if self.change is None else map(self.change, items)

    def read(self, shard: Shard) -> Iterator[Item]:
        """Read the rows of a shard; shards in ascending order cost one reading of the file."""
        is_behind = self._stream is None or shard.row < self._row
        if is_behind or (self.can_seek and shard.row != self._row):
            self._stream = self.read_changed(shard.offset, shard.row)
            self._row = shard.row
        assert self._stream is not None
        for _ in islice(self._stream, shard.row - self._row):
            pass
        self._row = shard.row + shard.rows
        yield from islice(self._stream, shard.rows)

    def load_rows(self, shard: Shard) -> list[Item]:
        """The rows of a shard; raise BiomedError if the part has changed since it was found."""
        items = list(self.read(shard))
        if len(items) != shard.rows:
            raise has_changed(self.path)
        self.check_same(shard)
        return items

    def find_state(self) -> str:
        """Size in bytes and time of modification, one of which changes with the content."""
        with reading(self.path):
            return _describe_file(self.path)

    def check_same(self, shard: Shard | None = None) -> None:
        """Raise BiomedError if the part, or what was read of it, is not as it was found."""
        if self.find_state() != self.state:
            raise has_changed(self.path)

    def checksum(self) -> str:
        """SHA-256 of the content."""
        with reading(self.path):
            return hash_file(self.path)

    def place(self, row: int) -> str:
        """The name of a row: file and number from 1."""
        return f"{printable(self.name)}:{row + 1}"


class RecordFile(Part):
    """A file, compressed or not, whose rows are records."""

    unit = "line"  # what is counted where the file is damaged

    def __init__(self, path: Path, name: str, how: Reading):
        super().__init__(path, name, how)
        self.can_seek = self.unit == "line" and path.suffix.lower() not in COMPRESSED_ENDINGS

    @abstractmethod
    def records(self, offset: int = 0) -> Iterator[Record]:
        """Read records from an offset on."""

    def parse(self, value: Any, place: str) -> Item:
        """Make a document of the content of a record that is not damaged."""
        if isinstance(value, str):
            return Item(place, value)
        return _create_item(value, self.how, place)

    def find_offsets(self) -> Iterator[int]:
        with reading(self.path):
            for record in self.read_all():
                yield record.offset

    def read_all(self) -> Iterator[Record]:
        """Read all records, and print which of them may be several."""
        doubtful: list[int] = []
        for record in self.records():
            doubtful += [record.line] if record.is_doubtful else []
            yield record
        if doubtful:
            print(
                f"⚠ {self.path}:{doubtful[0]}: a quoted field of several lines, each of which "
                f"would be a record by itself ({len(doubtful):,} in the file); if they are, use "
                "--quoting none",
                file=sys.stderr,
            )

    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        with reading(self.path):
            for number, record in enumerate(self.records(offset), start=row):
                place = self.place(number)
                error = record.error
                yield Item(place, error=error) if error else self.parse(record.value, place)

    def list_columns(self) -> list[str]:
        """The names of the columns; of objects, the fields of the first."""
        with reading(self.path):
            values = (record.value for record in self.records())
            return [*next((value for value in values if isinstance(value, dict)), ())]

    def read_strictly(self) -> Iterator[tuple[str, Any]]:
        """Yield each record's file and line, and its content; raise BiomedError at damage."""
        number = 0
        separator = ":" if self.unit == "line" else f": {self.unit} "
        with reading(self.path, lambda: f" after {self.unit} {number}"):
            for record in self.read_all():
                number = record.line
                place = f"{self.path}{separator}{number}"
                if record.error:
                    raise BiomedError(f"{place}: {record.error}")
                yield place, record.value


class TextLines(RecordFile):
    """A text file with a document on each line that is not blank."""

    def records(self, offset: int = 0) -> Iterator[Record]:
        lines = records.read_text_lines(self.path, self.how.layout, offset)
        return (line for line in lines if self.how.is_copied or line.error or line.value.strip())


class JsonLines(RecordFile):
    """A file with a JSON object on each line."""

    def records(self, offset: int = 0) -> Iterator[Record]:
        return records.read_objects(self.path, self.how.layout, offset)

    def find_offsets(self) -> Iterator[int]:
        """Yield the offset of each row, and check that objects have the fields that are named."""
        missing, has_objects = self.how.named_columns(), False
        with reading(self.path):
            for record in self.records():
                if isinstance(record.value, dict):
                    has_objects = True
                    missing = {n: option for n, option in missing.items() if n not in record.value}
                yield record.offset
        # Fields of other names may be personal.
        for name, option in missing.items() if has_objects else ():
            raise BiomedError(
                f"{self.path}: no object has a field {name}; name another with {option}"
            )


class JsonList(JsonLines):
    """A JSON file with a list of objects, which is read into memory."""

    unit = "row"

    def records(self, offset: int = 0) -> Iterator[Record]:
        with open_binary(self.path, "rb", self.path.suffix.lower()) as file:
            text, damage = records.decode_file(file.read(), self.how.layout)
        if damage:
            raise BiomedError(f"{self.path}: {damage}")
        try:
            values = records.parse_json(text)
        except (ValueError, RecursionError) as error:
            where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            problem = records.explain_json(error, "mend the file")
            raise BiomedError(f"{self.path}{where}: {problem}") from None
        for number, value in enumerate(values[offset:], start=offset):
            problem = "" if isinstance(value, dict) else "no object; write a list of objects"
            yield Record(number, number + 1, value, problem)

    @staticmethod
    def has_list(path: Path) -> bool:
        """Whether a file begins with a list, in any encoding."""
        with reading(path), open_binary(path, "rb", path.suffix.lower()) as file:
            return file.read(1 << 10).lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"[")


class DelimitedFile(RecordFile):
    """A CSV file (`.csv`, `.tsv`) with the names of the columns in its first record."""

    def __init__(self, path: Path, name: str, how: Reading):
        super().__init__(path, name, how)
        with reading(path):
            self._names = records.read_header(path, how.layout)
        _check_columns(path, how, self._names)

    def list_columns(self) -> list[str]:
        return self._names

    def records(self, offset: int = 0) -> Iterator[Record]:
        return records.read_delimited(self.path, self._names, self.how.layout, offset)


class ParquetPart(RecordFile):
    """A Parquet file."""

    unit = "row"

    def __init__(self, path: Path, name: str, how: Reading):
        super().__init__(path, name, how)
        with reading(path):
            self._all_names, self._rows = read_shape(path)
        _check_columns(path, how, self._all_names)
        wanted = [*how.named_columns(), "id"]
        self._names = [name for name in wanted if name in self._all_names]

    def list_columns(self) -> list[str]:
        return self._all_names

    def records(self, offset: int = 0) -> Iterator[Record]:
        rows = enumerate(read_rows(self.path, self._names))
        for number, fields in islice(rows, offset, None):
            yield Record(number, number + 1, fields)

    def find_offsets(self) -> Iterator[int]:
        return iter(range(self._rows))


class ArticleFile(RecordFile):
    """An XML file with articles (`article_xml`)."""

    unit = "article"

    def records(self, offset: int = 0) -> Iterator[Record]:
        with open_binary(self.path, "rb", self.path.suffix.lower()) as file:
            articles = enumerate(read_articles(file, self.path))
            for number, text in islice(articles, offset, None):
                yield Record(number, number + 1, text)


class TextFolder(Part):
    """A folder in and below which each `.txt` file, compressed or not, is a document.

    The identifier is the path within the folder without `.txt`; with it, if documents are copied,
    or if another document would have the same.
    """

    can_seek = True

    def __init__(self, path: Path, name: str, how: Reading, files: list[FoundFile]):
        self.files = files
        self._counts = Counter(_without_ending(file.name) for file in files)
        super().__init__(path, name, how)

    def find_offsets(self) -> Iterator[int]:
        return iter(range(len(self.files)))

    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        return map(self._read_file, islice(self.files, row, None))

    def _read_file(self, file: FoundFile) -> Item:
        name, error = file
        id = _without_ending(name)
        if self.how.is_copied or self._counts[id] > 1:
            id = name
        if not error and not self.how.is_copied and not is_text(name):
            error = "a name that is not UTF-8; rename the file"
        if error:
            return Item(printable(id), error=error)
        try:
            with open_binary(self.path / name, "rb", Path(name).suffix.lower()) as stream:
                content = stream.read(max_line() + 1)
        except Exception as problem:  # also of damaged compression
            reason = getattr(problem, "strerror", None) or escape(first_line(problem))
            return Item(printable(id), error=f"cannot be read ({reason})")
        if len(content) > max_line():
            return Item(printable(id), error=records.too_long("file"))
        text, error = records.decode_file(content, self.how.layout)
        return Item(printable(id) if error else id, text, error)

    def find_state(self) -> str:
        """A checksum of the files' names, sizes and times of modification."""
        self._states = self._describe(self.files)
        return hash_pieces(
            f"{file.name} {state}\n".encode("utf-8", "surrogateescape")
            for file, state in zip(self.files, self._states, strict=True)
        )

    def check_same(self, shard: Shard | None = None) -> None:
        rows = slice(shard.row, shard.row + shard.rows) if shard else slice(None)
        if self._describe(self.files[rows]) != self._states[rows]:
            raise has_changed(self.path)

    def _describe(self, files: list[FoundFile]) -> list[str]:
        with reading(self.path):
            return [error or _describe_file(self.path / name) for name, error in files]

    def checksum(self) -> str:
        """SHA-256 of the names and the contents."""
        return hash_pieces(
            piece
            for name, error in self.files
            for piece in (
                f"{name}\n".encode("utf-8", "surrogateescape"),
                error.encode() or self._digest(name),
            )
        )

    def _digest(self, name: str) -> bytes:
        try:
            return sha256((self.path / name).read_bytes()).digest()
        except OSError:
            return b""


# The classes of files by the ending of their names.
TABLES: dict[str, type[RecordFile]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".json": JsonLines,
    ".csv": DelimitedFile,
    ".tsv": DelimitedFile,
    ".parquet": ParquetPart,
}
TEXTS: dict[str, type[RecordFile]] = {".txt": TextLines, ".text": TextLines}
KINDS: Mapping[str, type[Part]] = {**TABLES, **TEXTS}


def find_parts(
    path: Path,
    columns: Columns,
    layout: Layout = Layout(),
    *,
    is_copied: bool = False,
    kinds: Mapping[str, type[Part]] = KINDS,
) -> list[Part]:
    """The parts of an input, in order of name.

    Args:
        path: a file of one of the kinds, or a folder of such files, or of text files that are a
            document each.
        is_copied: see `Reading`.
        kinds: the class of each ending of a name.

    Raises:
        BiomedError: if there is no such file or folder, its ending is unknown, a table lacks a
            column, or a folder has both text files and others, or none. The same happens if the
            layout names how CSV is written and no file is CSV.
    """
    how = Reading(columns, layout.check(), is_copied)
    if path.is_dir():
        parts = _open_folder(path, how, kinds)
    elif not path.exists():
        raise BiomedError(f"{path}: no such file or folder; check the path")
    elif not path.is_file():
        raise BiomedError(f"{path}: not a regular file; give a file or a folder")
    else:
        parts = [open_part(path, path.name, how, kinds)]
    if not any(isinstance(part, DelimitedFile) for part in parts):
        for option in ("delimiter", "quoting"):
            if getattr(layout, option) != getattr(Layout(), option):
                raise BiomedError(f"{path}: has no .csv or .tsv file; leave out --{option}")
    return parts


def _open_folder(path: Path, how: Reading, kinds: Mapping[str, type[Part]]) -> list[Part]:
    found = find_files(path, lambda name: find_kind(name, kinds) is not None)
    if not how.is_copied:
        found = _leave_out_hidden(found, kinds)
    are_texts = {find_kind(name, kinds) in TEXTS for name, error in found if not error}
    if not are_texts:
        for name, error in found:
            raise BiomedError(f"{path / name}: {error}")
        raise BiomedError(f"{path}: no document; put files here that end in {', '.join(kinds)}")
    if len(are_texts) > 1:
        raise BiomedError(
            f"{path}: has both .txt files and others; give a folder of one kind, or one file"
        )
    if are_texts == {True}:
        _check_no_columns(path, how)
        return [TextFolder(path, path.name, how, found)]
    unread = [file for file in found if file.error]
    parts = [open_part(path / name, name, how, kinds) for name, error in found if not error]
    # What cannot be read is a part too, with a row for each.
    return [*parts, TextFolder(path, ".", how, unread)] if unread else parts


def _leave_out_hidden(found: list[FoundFile], kinds: Mapping[str, type[Part]]) -> list[FoundFile]:
    """Leave out the files beside tables whose names begin with "_": other programs' marks."""
    files = [one for one in found if not one.error]
    hidden = {one for one in files if any(part[0] == "_" for part in Path(one.name).parts)}
    texts = {one for one in files if find_kind(one.name, kinds) in TEXTS}
    has_tables = not hidden.union(texts).issuperset(files)
    return [one for one in found if one not in (hidden if has_tables else hidden - texts)]


def plan_shards(parts: Iterable[Part], size: int) -> list[Shard]:
    """Cut an input into shards of `size` rows, the last of each part with what is left."""
    shards: list[Shard] = []
    first = 0
    for number, part in enumerate(parts):
        rows = 0
        begun: list[tuple[int, int]] = []
        for offset in part.find_offsets():
            begun += [(rows, offset)] if rows % size == 0 else []
            rows += 1
        for row, offset in begun:
            shards.append(Shard(number, offset, row, min(size, rows - row), first + row))
        first += rows
    return shards


def find_kind(name: str, kinds: Mapping[str, type[Part]] = KINDS) -> str | None:
    """The ending of a file's name without that of its compression; None if it is unknown."""
    plain = strip_compression(name.lower())
    for ending in kinds:
        if plain.endswith(ending):
            is_packed_twice = plain != name.lower() and ending in _COMPRESSED_FORMATS
            return None if is_packed_twice else ending
    return None


def open_part(path: Path, name: str, how: Reading, kinds: Mapping[str, type[Part]]) -> Part:
    """Open a file by the ending of its name."""
    kind = find_kind(path.name, kinds)
    if kind is None:
        raise BiomedError(
            f"{path}: the ending of the name is unknown; give a folder of .txt files, or a file "
            f"that ends in {', '.join(kinds)}"
        )
    if kind not in TABLES:
        _check_no_columns(path, how)
    if kind == ".json" and JsonList.has_list(path):
        return JsonList(path, name, how)
    return kinds[kind](path, name, how)


def _check_no_columns(path: Path, how: Reading) -> None:
    for name, option in how.named_columns().items():
        if name != Columns().text:
            raise BiomedError(f"{path}: has no columns; leave out {option}")


def _create_item(fields: dict[str, object], how: Reading, place: str) -> Item:
    columns, id = how.columns, place
    if not how.is_copied:
        given, error = read_identifier(fields.get(columns.id or "id"))
        if error:
            return Item(place, error=f"an identifier {error}")
        id = given or place
    text = fields.get(columns.text)
    if not isinstance(text, str):
        return Item(id, error=f"no text in the column {columns.text}")
    if not is_text(text):
        return Item(id, error="a text that is not UTF-8, or has half of a surrogate pair")
    if error := records.check_text(text):
        return Item(id, error=error)
    patient = ""
    if columns.patient is not None:
        patient, error = read_identifier(fields.get(columns.patient))
        if error or not patient:
            return Item(id, error=f"no identifier in the column {columns.patient}")
    kept = {name: fields.get(name) for name in columns.keep}
    error = next(filter(None, (_check_writable(*field) for field in kept.items())), "")
    return Item(id, error=error) if error else Item(id, text, "", patient.strip(), kept)


def read_identifier(value: object) -> tuple[str, str]:
    """An identifier as text, or why it cannot be one; "" twice for a value that is missing."""
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return "", ""
        # pandas makes a column of numbers floating-point if one of them is missing.
        value = int(value) if value == int(value) else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return "", ""
    if not isinstance(value, str):
        return "", "that is neither text nor a number"
    return (value, "") if is_text(value) else ("", "with half of a surrogate pair")


def _check_writable(name: str, value: object) -> str:
    """Why UTF-8 or JSON cannot contain a value: half of a surrogate pair, or infinity."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode()
    except UnicodeEncodeError:
        problem = "half of a surrogate pair (U+D800 to U+DFFF), which is not a character"
    except (ValueError, RecursionError):
        problem = "a number that JSON does not allow, or too deep a structure"
    else:
        return ""
    return f"the field {name} has {problem}: mend it, or leave it out of --keep"


def is_text(value: str) -> bool:
    """Whether a string can be written in UTF-8: it has no half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_columns(path: Path, how: Reading, found: list[str]) -> None:
    if not found:
        raise BiomedError(f"{path}: has no header, and so no column; is it complete?")
    for name, option in how.named_columns().items():
        if name not in found:
            if len(found) == 1 and any(character in found[0] for character in ",;|\t"):
                option += ", or the character between fields with --delimiter"
            raise BiomedError(
                f"{path}: no column {name}, but {records.show_names(found)}; name it with {option}"
            )


def _without_ending(name: str) -> str:
    plain = strip_compression(name)
    return plain.removesuffix(Path(plain).suffix)


def printable(name: str) -> str:
    """The name of a file as text; bytes that are not UTF-8 are escaped, as in `mar\\xeda`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _describe_file(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"
