"""Read compressed files with limits, since a small file can decompress to any size."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..errors import BiomedError, quote

# Text and corpora usually compress to a tenth, rarely to a fiftieth; zeros to a thousandth.
RATIO_VARIABLE, RATIO = "SPACY_BIOMED_MAX_RATIO", 200
LINE_VARIABLE, LINE_MEGABYTES = "SPACY_BIOMED_MAX_LINE_MB", 64

# Decompressed bytes that are allowed for any file.
_FREE = 2**22
_BLOCK = 2**16

# Bytes to decompress at a time with zlib, whose output is at most about a thousand times larger.
_PIECE = 2**14

TOO_SHORT = "Compressed file ended before the end-of-stream marker was reached"


def max_ratio() -> int:
    """The maximum ratio of decompressed to compressed size: 200, or the environment's number."""
    return _read_number(RATIO_VARIABLE, RATIO)


def max_line() -> int:
    """The maximum bytes of a line, that is, of a document: 64 MB, or the environment's number."""
    return _read_number(LINE_VARIABLE, LINE_MEGABYTES) * 2**20


def open_bounded(path: Path, decompress: Callable[[BinaryIO], Any]) -> BinaryIO:
    """Open a compressed file for reading, with constant memory.

    Raises:
        BiomedError: while reading, if the content so far is more than `max_ratio()` times as large
            as the part of the file that was read, and more than 4 MiB.
        EOFError: while reading, if the file is empty.
    """
    file = path.open("rb")
    stream = _BoundedStream(path, file, decompress(file))
    return cast(BinaryIO, io.BufferedReader(stream, _BLOCK))


class _BoundedStream(io.RawIOBase):
    """The content of a compressed file, with a check of its size."""

    def __init__(self, path: Path, file: BinaryIO, stream: Any):
        self.path, self.file, self.stream = path, file, stream
        self.ratio = max_ratio()
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
        check_ratio(self.file.tell(), self.size, self.path, self.ratio)
        return count

    def close(self) -> None:
        if not self.closed:
            self.stream.close()
            self.file.close()
        super().close()


def check_deflated(content: bytes, path: Path) -> None:
    """Check the decompressed size of zlib data. Other data are not checked.

    Raises:
        BiomedError: if the size is more than `max_ratio()` times larger, and more than 4 MiB.
    """
    ratio, size = max_ratio(), 0
    stream = zlib.decompressobj()
    with suppress(zlib.error):
        for start in range(0, len(content), _PIECE):
            size += len(stream.decompress(content[start : start + _PIECE]))
            check_ratio(start + _PIECE, size, path, ratio)


def check_ratio(compressed: int, size: int, path: Path, ratio: int | None = None) -> None:
    """Check the ratio of decompressed to compressed size.

    Args:
        compressed, size: number of bytes before and after decompression.

    Raises:
        BiomedError: if `size` is more than `ratio` times `compressed`, and more than 4 MiB.
    """
    ratio = ratio or max_ratio()
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
