"""Open files that may be compressed, with limits, since a small file can decompress to any size."""

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from ..errors import BiomedError, escape, install_command, quote

COMPRESSED_ENDINGS = (".gz", ".xz", ".zst")

# Exceptions when reading a damaged file, which include pyarrow's.
_DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)

# Text and corpora usually compress to a tenth, rarely to a fiftieth; zeros to a thousandth.
RATIO_VARIABLE, RATIO = "SPACY_BIOMED_MAX_RATIO", 200
LINE_VARIABLE, LINE_MEGABYTES = "SPACY_BIOMED_MAX_LINE_MB", 64

# Decompressed bytes that are allowed for any file.
_FREE = 2**22
_BLOCK = 2**16

# Bytes to decompress at a time with zlib, whose output is at most about a thousand times larger.
_PIECE = 2**14

TOO_SHORT = "Compressed file ended before the end-of-stream marker was reached"


def strip_compression(name: str) -> str:
    """A file's name without `.gz`, `.xz` or `.zst`."""
    return name.rpartition(".")[0] if name.lower().endswith(COMPRESSED_ENDINGS) else name


def open_binary(path: Path, mode: Literal["rb", "wb"], ending: str) -> BinaryIO:
    """Open a file for reading or writing, with compression by an ending.

    Args:
        ending: `.gz`, `.xz` or `.zst`; any other ending means no compression.

    Raises:
        BiomedError: if pyarrow is missing for `.zst`. While reading: if the content so far has
            more than 4 MiB, and is more than `max_ratio()` times as large as what was read of the
            file.
    """
    if ending not in COMPRESSED_ENDINGS:
        return path.open(mode)
    if ending == ".zst":
        require_pyarrow(str(path))
    if mode == "rb":
        stream = _BoundedStream(path, _DECOMPRESSORS[ending])
        return cast(BinaryIO, io.BufferedReader(stream, _BLOCK))
    if ending == ".gz":
        return cast(BinaryIO, _Gzip(path))
    if ending == ".xz":
        # Half the memory of the default preset, with a few per cent more size.
        return cast(BinaryIO, lzma.open(path, mode, preset=4))
    import pyarrow

    return cast(BinaryIO, pyarrow.output_stream(str(path), compression="zstd"))


class _Gzip(gzip.GzipFile):
    """A file to write without a name and a time in it: equal content gives equal bytes."""

    def __init__(self, path: Path):
        self._file = path.open("wb")
        super().__init__("", "wb", 6, self._file, 0)

    def close(self) -> None:
        with self._file:
            super().close()


@contextmanager
def reading(path: Path, find_place: Callable[[], str] = str) -> Iterator[None]:
    """Convert errors of reading an input file to a one-line message.

    `find_place` says how far it could be read, such as " after line 3".
    """
    try:
        yield
    except BiomedError:
        raise
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or escape(" ".join(str(error).split()), 200)
        remedy = "check that it is complete, and that its ending is right"
        if isinstance(error, UnicodeDecodeError):
            remedy = "convert it to UTF-8"
        raise BiomedError(f"{path}: cannot be read{find_place()} ({reason}); {remedy}") from error


def require_pyarrow(where: str) -> None:
    """Raise BiomedError if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise BiomedError(f"{where}: needs pyarrow: {install_command('train')}")


def max_ratio() -> int:
    """The maximum ratio of decompressed to compressed size: 200, or the environment's number."""
    return _read_number(RATIO_VARIABLE, RATIO)


def max_line() -> int:
    """The maximum bytes of a line, that is, of a document: 64 MB, or the environment's number."""
    return _read_number(LINE_VARIABLE, LINE_MEGABYTES) * 2**20


class _BoundedStream(io.RawIOBase):
    """The content of a compressed file, with a check of its size; an empty file is an EOFError."""

    def __init__(self, path: Path, decompress: Callable[[BinaryIO], Any]):
        self.path, self.file = path, path.open("rb")
        self.stream = decompress(self.file)
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # A single read, so that everything before the damage in a damaged file is returned.
        content = self.stream.read1(len(buffer))
        count = len(content)
        if not count and not self.file.tell():
            raise EOFError(TOO_SHORT)  # of an empty file, which not all libraries refuse
        buffer[:count] = content
        self.size += count
        check_ratio(self.file.tell(), self.size, self.path)
        return count

    def close(self) -> None:
        if not self.closed:
            self.stream.close()
            self.file.close()
        super().close()


def check_deflated(content: bytes, path: Path) -> None:
    """Check the decompressed size of zlib data, as `check_ratio` does, and not of other data."""
    stream, size = zlib.decompressobj(), 0
    with suppress(zlib.error):
        for start in range(0, len(content), _PIECE):
            size += len(stream.decompress(content[start : start + _PIECE]))
            check_ratio(start + _PIECE, size, path)


def check_ratio(compressed: int, size: int, path: Path) -> None:
    """Raise BiomedError if `size` is over `max_ratio()` times `compressed`, in bytes, and 4 MiB."""
    ratio = max_ratio()
    if size > max(_FREE, ratio * compressed):
        raise BiomedError(
            f"{path}: becomes over {ratio} times as large when decompressed, which is unusual for "
            f"text; if you trust the file, set {RATIO_VARIABLE} higher"
        )


def _read_number(variable: str, default: int) -> int:
    value = os.environ.get(variable, "")
    if not value:
        return default
    if not value.isdecimal() or not 0 < len(value) < 10 or not int(value):
        raise BiomedError(f"{variable} = {quote(value)}: give a whole number, 1 or more")
    return int(value)


def _decompress_zstandard(file: BinaryIO) -> Any:
    """Decompress with pyarrow, which unlike python-zstandard detects truncated files."""
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")


class _Xz:
    """Decompress `.xz`; unlike `lzma.LZMAFile`, it does not pass over a damaged later stream."""

    def __init__(self, file: BinaryIO):
        self._file, self._stream = file, lzma.LZMADecompressor()

    def read1(self, size: int) -> bytes:
        while True:
            if self._stream.eof:
                rest = self._stream.unused_data.lstrip(b"\0")  # padding
                while not rest and (block := self._read()):
                    rest = block.lstrip(b"\0")
                if not rest:
                    return b""
                self._stream = lzma.LZMADecompressor()
            elif self._stream.needs_input:
                rest = self._read()
                if not rest:
                    raise EOFError(TOO_SHORT)
            else:
                rest = b""
            if content := self._stream.decompress(rest, size):
                return content

    def _read(self) -> bytes:
        return self._file.read(io.DEFAULT_BUFFER_SIZE)

    def close(self) -> None:
        pass


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": _Xz,
    ".zst": _decompress_zstandard,
}
