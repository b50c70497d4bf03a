"""Read lines, JSON lines, CSV and TSV a record at a time, with constant memory.

All readers give each record with its place and, if it is damaged, with an error in place of its
content. Errors never quote the content, which may be personal.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast

from ..errors import BiomedError, escape, quote
from .compression import COMPRESSED_ENDINGS, LINE_VARIABLE, max_line, open_binary, strip_compression

_BLOCK = 1 << 20
_BYTE_ORDER_MARK = "\ufeff"
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NUL = (
    "NUL characters, as UTF-16 has when it is read in another encoding: convert the file to UTF-8, "
    "give its --encoding, or remove them"
)
_WIDE = "{}, by its first bytes; convert the file to UTF-8, or give --encoding {}"
CR_ALONE = "its lines end in CR alone, as on old Macintoshes; convert the line ends to LF"
# The rest of a quoted field, up to the quotation mark that closes it. A doubled one does not.
_QUOTED = re.compile('[^"]*(?:""[^"]*)*')
_COLUMN_NAME = re.compile(r"[^\W\d][\w.()/#-]{,40}")


class Layout(NamedTuple):
    """How text files, and the records in them, are written.

    Attributes:
        encoding: as Python names it; byte-order marks do not belong to a text.
        delimiter: the character between fields; None for a tab in .tsv, and a comma in .csv.
        quoting: "minimal" if fields may be in quotation marks, "none" if these are characters like
            any other.
    """

    encoding: str = "utf-8"
    delimiter: str | None = None
    quoting: Literal["minimal", "none"] = "minimal"

    def check(self) -> Layout:
        """Raise BiomedError if there is no such encoding, delimiter or quoting."""
        try:
            encoder = codecs.getincrementalencoder(self.encoding)()
            written = encoder.encode("a\n") + encoder.encode("a\n")
            is_of_files = written.decode(self.encoding) == "a\na\n"  # unlike IDNA
        except (LookupError, TypeError, AttributeError, UnicodeError):
            is_of_files = False
        if not is_of_files:
            raise BiomedError(
                f"--encoding {quote(self.encoding)}: unknown; give one that Python knows, such as "
                "cp1252, latin-1 or utf-16"
            )
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or self.delimiter in '"\r\n' or not self.delimiter.isascii()
        ):
            raise BiomedError(
                f"--delimiter {quote(self.delimiter)}: give one character, such as ; or \\t"
            )
        if self.quoting not in ("minimal", "none"):
            raise BiomedError(f"--quoting {quote(self.quoting)}: give minimal or none")
        return self

    def find_delimiter(self, path: Path) -> str:
        """The character between the fields of a file."""
        is_tsv = strip_compression(path.name.lower()).endswith(".tsv")
        return self.delimiter or ("\t" if is_tsv else ",")


class Record(NamedTuple):
    """A record of a file.

    Attributes:
        offset: where it begins, in bytes of the (decompressed) content.
        line: number of its first line, from 1 where reading began.
        value: its content; None if it is damaged.
        error: why it is damaged, and what to do.
        is_doubtful: whether it has several lines that may be records by themselves.
    """

    offset: int
    line: int
    value: Any = None
    error: str = ""
    is_doubtful: bool = False


def read_text_lines(path: Path, layout: Layout = Layout(), offset: int = 0) -> Iterator[Record]:
    """Yield the lines of a file without their ends, LF or CRLF.

    Args:
        offset: where to begin, which is where a line does.

    Raises:
        BiomedError: if the file is UTF-16 and the encoding is not, or its lines end in CR alone.
        OSError and others: if the file is damaged (`compression.reading`).
    """
    for record in _read_lines(path, layout, offset):
        value = None if record.error else _without_end(record.value)
        yield record._replace(value=value)


def read_objects(path: Path, layout: Layout = Layout(), offset: int = 0) -> Iterator[Record]:
    """Yield the objects of JSON lines; blank lines are skipped. See `read_text_lines`."""
    for record in _read_lines(path, layout, offset):
        if record.error:
            yield record
        elif record.value.strip():
            value, error = parse_object(_without_end(record.value))
            yield record._replace(value=value, error=error)


def parse_object(text: str) -> tuple[dict[str, object] | None, str]:
    """Parse a JSON object; return it, or why the text cannot be parsed as an object."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError) as error:
        return None, explain_json(error, "put an object on each line")
    if not isinstance(value, dict):
        return None, "JSON, but no object; put an object on each line"
    return value, ""


TWICE = "two fields of an object have one name: rename one, or remove it"


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raise ValueError if two fields of an object have one name."""
    return json.loads(text, object_pairs_hook=_make_object)


def explain_json(error: Exception, advice: str) -> str:
    """Why `parse_json` failed, without the content, and what to do."""
    if str(error) == TWICE:
        return TWICE
    reason = "a number of too many digits"
    if isinstance(error, json.JSONDecodeError):
        reason = f"{error.msg.removesuffix(' at')} at character {error.colno}"
    elif isinstance(error, RecursionError):
        reason = "nested too deeply"
    return f"not JSON ({reason}); {advice}"


def _make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(TWICE)
    return made


def read_header(path: Path, layout: Layout = Layout()) -> list[str]:
    """The names of the columns of a CSV or TSV file, which are in its first record."""
    first = next(_split(path, layout, 0), Record(0, 1, []))
    if first.error:
        raise BiomedError(f"{path}:{first.line}: {first.error}")
    names: list[str] = first.value
    check_names(names, path)
    return names


def check_names(names: list[str], path: Path) -> None:
    """Raise BiomedError if two columns have one name; several may have none."""
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            is_shown = _COLUMN_NAME.fullmatch(name)
            named = f"are named {escape(name)}" if is_shown else "have one name"
            raise BiomedError(f"{path}: two columns {named}; rename one")


def show_names(names: list[str]) -> str:
    """The names of columns, for messages; none of them if they may be a record about a patient.

    Examples:
        >>> show_names(["id", "text"]), show_names(["12", "Ana is well."])
        ('id, text', '2 that are not shown, as the first line may be no header')
    """
    words = [word.strip() for name in names for word in re.split(r"[,;|\t]", name)]
    if all(not word or _COLUMN_NAME.fullmatch(word) for word in words):
        return escape(", ".join(names), 300)
    return f"{len(names)} that are not shown, as the first line may be no header"


def read_delimited(
    path: Path,
    names: list[str],
    layout: Layout = Layout(),
    offset: int = 0,
    *,
    has_header: bool = True,
) -> Iterator[Record]:
    """Yield the records below the header of a CSV or TSV file, fields by the name of the column.

    Blank lines are skipped. A field in quotation marks may have several lines, and keeps their
    ends. In TSV a quotation mark that closes within a field, and not at its end, is a character
    like any other.

    Args:
        names: of the columns (`read_header`).
        offset: where to begin, which is where a record does.

    Raises:
        BiomedError: if a quotation mark opens a field and does not close at the end of one, so that
            what follows cannot be told apart from other records; see also `read_text_lines`.
    """
    records = _split(path, layout, offset)
    for record in islice(records, 1 if has_header and not offset else 0, None):
        if record.error:
            yield record
        elif len(record.value) != len(names):
            error = f"{len(record.value)} fields and not {len(names)}, as the first line has"
            yield record._replace(value=None, error=error)
        else:
            yield record._replace(value=dict(zip(names, record.value, strict=True)))


def _split(path: Path, layout: Layout, offset: int) -> Iterator[Record]:
    """Yield records of CSV or TSV as lists of fields, the header among them."""
    delimiter = layout.find_delimiter(path)
    lines = _read_lines(path, layout, offset)
    for line in lines:
        if line.value is None:
            yield line
        elif not _without_end(line.value):
            continue
        elif layout.quoting == "none" or '"' not in line.value:
            fields = _without_end(line.value).split(delimiter)
            yield line._replace(value=None if line.error else fields)
        else:
            yield _QuotedRecord(line, lines, delimiter, path).read()


def format_fields(values: Iterable[object], delimiter: str, quoting: str = "minimal") -> str:
    """A line of CSV or TSV, which `read_delimited` reads as the same fields; None is empty."""
    line = io.StringIO()
    quotes: dict[str, Any] = {"quoting": csv.QUOTE_NONE, "quotechar": None}
    # Both CR and LF are quoted, as they are characters of this line end.
    writer = csv.writer(line, delimiter=delimiter, **({} if quoting == "minimal" else quotes))
    try:
        writer.writerow(values)
    except csv.Error:
        raise BiomedError(
            "a field has a delimiter or a line end, or a record is empty: leave out --quoting none"
        ) from None
    return line.getvalue().removesuffix("\r\n") + "\n"


class _QuotedRecord:
    """A record whose fields may be in quotation marks, and so have several lines.

    The module `csv` takes a CR for the end of a line, and either lets a field that is not closed
    swallow records, or does not say where it began.
    """

    def __init__(self, first: Record, lines: Iterator[Record], delimiter: str, path: Path):
        self.first, self.lines, self.delimiter, self.path = first, lines, delimiter, path
        self.line, self.text, self.error = first.line, first.value, first.error
        self.at = 0

    def read(self) -> Record:
        fields = []
        while True:
            is_quoted = self.text.startswith('"', self.at)
            fields.append(self._read_quoted() if is_quoted else self._read_plain())
            if self.at >= len(_without_end(self.text)):
                break
            self.at += 1
        # Perhaps two marks that only seem to belong together.
        is_doubtful = may_be_records(fields, self.delimiter) or self._has_identifiers(fields)
        value = None if self.error else fields
        return self.first._replace(value=value, error=self.error, is_doubtful=is_doubtful)

    def _has_identifiers(self, fields: list[str]) -> bool:
        """Whether a line within a field begins as the record does: with 2, if that with 1."""
        if not re.fullmatch(r"[\w-]*\d[\w-]*", fields[0]):
            return False
        kind = re.sub(r"\d+", r"\\d+", re.escape(fields[0]))
        if re.fullmatch(r"[0-9a-fA-F-]{8,}", fields[0]):  # of a UUID, for example
            kind += rf"|[0-9a-fA-F-]{{{len(fields[0])}}}"
        begins = re.compile(rf"[\r\n](?:{kind}){re.escape(self.delimiter)}(?=\S)")
        return any(map(begins.search, fields))

    def _read_plain(self) -> str:
        content, begin = _without_end(self.text), self.at
        self.at = content.find(self.delimiter, begin)
        if self.at < 0:
            self.at = len(content)
        return content[begin : self.at]

    def _read_quoted(self) -> str:
        opened, begin, pieces, size = self.line, self.at, [], 0
        start = begin + 1
        while (end := _find_end(self.text, start)) == len(self.text):
            pieces.append(self.text[start:])
            size += end - start
            following = next(self.lines, None)
            if following is None or following.value is None or size > max_line():
                raise self._not_closed(opened)
            self.line, self.text = following.line, following.value
            self.error = self.error or following.error
            start = 0
        pieces.append(self.text[start:end])
        self.at = end + 1
        if self.at == len(_without_end(self.text)) or self.text.startswith(self.delimiter, self.at):
            return "".join(pieces).replace('""', '"')
        is_one_cell = self.line == opened and self.delimiter not in pieces[0]
        if self.delimiter != "\t" or not is_one_cell:
            raise self._not_closed(opened)
        self.at = begin
        return self._read_plain()

    def _not_closed(self, line: int) -> BiomedError:
        return BiomedError(
            f"{self.path}:{line}: a quotation mark opens a field here and does not close at the "
            "end of one; double the marks within a field, or read them as characters like any "
            "other with --quoting none"
        )


def may_be_records(fields: list[str], delimiter: str) -> bool:
    """Whether a field has as many delimiters in each line as if its lines were records.

    They are also counted without those before a space, as in sentences.
    """
    delimiter, others = re.escape(delimiter), len(fields) - 1
    for place, field in enumerate(fields if others else ()):
        first, *rest = re.split("[\r\n]", field)
        lines = [first, *filter(str.strip, rest)]
        expected = [others - place, *[others] * (len(lines) - 2), place]
        for counted in (delimiter, f"{delimiter}(?! )") if len(lines) > 1 else ():
            if [len(re.findall(counted, line)) for line in lines] == expected:
                return True
    return False


def _find_end(text: str, start: int) -> int:
    """Where a quoted field is closed; the length of the text if it is not."""
    found = _QUOTED.match(text, start)
    assert found is not None  # it matches nothing too
    return found.end()


def _read_lines(path: Path, layout: Layout, offset: int) -> Iterator[Record]:
    """Yield lines with their ends; with an error, one that is not in the encoding has its text."""
    encoding = layout.encoding
    is_wide = "\n".encode(encoding) != b"\n"  # UTF-16, for example
    ending = path.suffix.lower()
    with open_binary(path, "rb", ending) as opened:
        file = opened
        if is_wide:
            file, encoding = cast(BinaryIO, _Utf8Lines(opened, encoding)), "utf-8"
        _skip(file, offset, can_seek=not is_wide and ending not in COMPRESSED_ENDINGS)
        for number, (begin, content) in enumerate(_number_lines(file, offset), start=1):
            if content is None:
                yield Record(begin, number, None, too_long("line"))
                continue
            if begin == 0:
                _check_beginning(content, path, encoding)
            text, error = _decode(content, encoding, "line")
            text = text.lstrip(_BYTE_ORDER_MARK) if begin == 0 else text
            yield Record(begin, number, text, error)


def _decode(content: bytes, encoding: str, what: str) -> tuple[str, str]:
    """The text of a line or file, and what is wrong with it."""
    try:
        text, error = content.decode(encoding), ""
    except UnicodeDecodeError as problem:
        text = content.decode(encoding, "replace")
        error = (
            f"not {encoding.upper()} (byte {problem.start + 1} of the {what}: {problem.reason}); "
            "convert the file to UTF-8, or give its --encoding"
        )
    return text, error or check_text(text)


def decode_file(content: bytes, layout: Layout) -> tuple[str, str]:
    """Decode a text; return it without a byte-order mark, or "" and why it cannot be decoded."""
    if wide := _find_wide_mark(content, layout.encoding):
        return "", _WIDE.format(wide.upper(), wide)
    text, error = _decode(content, layout.encoding, "file")
    return ("", error) if error else (text.lstrip(_BYTE_ORDER_MARK), "")


def check_text(text: str) -> str:
    """Why a text was decoded wrongly; "" if nothing tells so."""
    return _NUL if "\0" in text else ""


def too_long(what: str) -> str:
    """What is said of a line, file or value over the limit."""
    return (
        f"a {what} of over {max_line() >> 20} MB; put a document on each line, or set "
        f"{LINE_VARIABLE} higher"
    )


def _check_beginning(line: bytes, path: Path, encoding: str) -> None:
    """Raise BiomedError if a file cannot be split into lines, judged by its first."""
    if wide := _find_wide_mark(line, encoding):
        raise BiomedError(f"{path}: {_WIDE.format(wide.upper(), wide)}")
    if b"\0" in line:
        raise BiomedError(f"{path}:1: {_NUL}")
    if not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r"):
        raise BiomedError(f"{path}: {CR_ALONE}")


def _find_wide_mark(content: bytes, encoding: str) -> str:
    """The encoding that a byte-order mark tells, if it cannot be the one that was given."""
    if len("\n".encode(encoding)) > 1:
        return ""
    return next((name for mark, name in _WIDE_MARKS.items() if content.startswith(mark)), "")


def _number_lines(file: BinaryIO, offset: int) -> Iterator[tuple[int, bytes | None]]:
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


def _skip(file: BinaryIO, count: int, *, can_seek: bool) -> None:
    if can_seek:
        file.seek(count)
    while not can_seek and count > 0 and (read := file.read(min(count, _BLOCK))):
        count -= len(read)


def _without_end(line: str) -> str:
    """A line without LF or CRLF; another CR belongs to its text."""
    if line.endswith("\r\n"):
        return line[:-2]
    return line[:-1] if line.endswith("\n") else line


class _Utf8Lines:
    """The lines of a file in UTF-8, whatever encoding the file has."""

    def __init__(self, file: BinaryIO, encoding: str):
        self._text = io.TextIOWrapper(file, encoding, newline="\n")

    def readline(self, size: int) -> bytes:
        """At most so many characters of a line."""
        return self._text.readline(size).encode()

    read = readline  # `_skip` ends where a line does
