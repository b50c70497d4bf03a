"""Open files that may be compressed."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from ..errors import BiomedError, escape, install_command
from .decompression import TOO_SHORT, open_bounded

COMPRESSED_ENDINGS = (".gz", ".xz", ".zst")

# Exceptions when reading a damaged file, which include pyarrow's.
DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


def strip_compression(name: str) -> str:
    """A file's name without `.gz`, `.xz` or `.zst`."""
    return name.rpartition(".")[0] if name.lower().endswith(COMPRESSED_ENDINGS) else name


def open_binary(path: Path, mode: Literal["rb", "wb"], ending: str) -> BinaryIO:
    """Open a file for reading or writing, with compression by an ending.

    Args:
        ending: `.gz`, `.xz` or `.zst`; any other ending means no compression.

    Raises:
        BiomedError: if pyarrow is missing for `.zst`; while reading, if the file becomes too large
            when decompressed (`spacy_biomed.files.decompression`).
    """
    if ending not in COMPRESSED_ENDINGS:
        return path.open(mode)
    if ending == ".zst":
        require_pyarrow(str(path))
    if mode == "rb":
        return open_bounded(path, _DECOMPRESSORS[ending])
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
def reading(path: Path, where: str = "") -> Iterator[None]:
    """Convert errors of reading an input file to a one-line message.

    Args:
        where: how far it could be read, such as "after line 3".
    """
    try:
        yield
    except BiomedError:
        raise
    except DAMAGE as error:
        raise cannot_read(path, where, error) from error


def cannot_read(path: Path, where: str, error: Exception) -> BiomedError:
    """The error of a file that the system, or the library of its format, cannot read."""
    reason = getattr(error, "strerror", None) or escape(" ".join(str(error).split()), 200)
    remedy = "check that it is complete, and that its ending is right"
    if isinstance(error, UnicodeDecodeError):
        remedy = "convert it to UTF-8"
    return BiomedError(f"{path}: cannot be read{where and f' {where}'} ({reason}); {remedy}")


def require_pyarrow(where: str) -> None:
    """Raise BiomedError if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise BiomedError(f"{where}: needs pyarrow: {install_command('train')}")


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
