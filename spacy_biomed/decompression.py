"""Compressed files that cannot fill the memory: a few bytes can stand for any number of them."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from .errors import BiomedError, quote

# Text and corpora are compressed to a tenth or less seldom to a fiftieth; zeros to a thousandth.
RATIO_VARIABLE, RATIO = "SPACY_BIOMED_MAX_RATIO", 200
LINE_VARIABLE, LINE_MEGABYTES = "SPACY_BIOMED_MAX_LINE_MB", 64

# Bytes that any file may become, however small it is.
_FREE = 2**22
_BLOCK = 2**16

# Bytes that zlib decompresses at a time, to at most a thousand times as many.
_PIECE = 2**14


class _Readable(Protocol):
    def read1(self, size: int) -> bytes: ...
    def close(self) -> None: ...


def max_ratio() -> int:
    """How many times as large as it is a file may become: 200, or the environment's number."""
    return _read_number(RATIO_VARIABLE, RATIO)


def max_line() -> int:
    """Bytes that a line, which is a document, may have: 64 MB, or the environment's number."""
    return _read_number(LINE_VARIABLE, LINE_MEGABYTES) * 2**20


def open_bounded(path: Path, decompress: Callable[[BinaryIO], _Readable]) -> BinaryIO:
    """Open a compressed file to read what is in it, in flat memory.

    Args:
        decompress: makes the stream of what a file holds.

    Raises:
        BiomedError: while reading, if it becomes more than `max_ratio()` times as large as what was
            read of the file so far, and more than 4 MiB.
    """
    file = path.open("rb")
    try:
        stream = decompress(file)
    except BaseException:
        file.close()
        raise
    return cast(BinaryIO, io.BufferedReader(_BoundedStream(path, file, stream), _BLOCK))


class _BoundedStream(io.RawIOBase):
    """What is in a compressed file, as long as it does not become too large.

    Attributes:
        file: the compressed one. stream: what is in it.
    """

    def __init__(self, path: Path, file: BinaryIO, stream: _Readable):
        self.path, self.file, self.stream = path, file, stream
        self.ratio = max_ratio()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # What comes at once, so that of a damaged file all is given that is before the damage.
        content = self.stream.read1(len(buffer))
        count = len(content)
        buffer[:count] = content
        self.size += count
        check_ratio(self.file.tell(), self.size, self.path, self.ratio)
        return count

    def close(self) -> None:
        if not self.closed:
            self.stream.close()
            self.file.close()
        super().close()


def read_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Read the lines of a file, with their ends.

    Raises:
        BiomedError: if one is longer than `max_line()`.
    """
    limit = max_line()
    for number, line in enumerate(iter(lambda: file.readline(limit + 1), b""), start=1):
        if len(line) > limit:
            raise BiomedError(
                f"{path}:{number}: a line of over {limit >> 20} MB; put a document on each line, "
                f"or set {LINE_VARIABLE} higher"
            )
        yield line


def check_deflated(content: bytes, path: Path) -> None:
    """Raise BiomedError where bytes that zlib wrote become more than `max_ratio()` times as large.

    Args:
        path: where they are from, for the message. What is no such data is left to who reads it.
    """
    ratio, size = max_ratio(), 0
    stream = zlib.decompressobj()
    try:
        for start in range(0, len(content), _PIECE):
            size += len(stream.decompress(content[start : start + _PIECE]))
            check_ratio(start + _PIECE, size, path, ratio)
    except zlib.error:
        return


def check_ratio(compressed: int, size: int, path: Path, ratio: int | None = None) -> None:
    """Raise BiomedError where bytes become more than `ratio` times as many, and more than 4 MiB.

    Args:
        path: where they are from, for the message.
        ratio: `max_ratio()`, where it is known.
    """
    ratio = ratio or max_ratio()
    if size > max(_FREE, ratio * compressed):
        raise BiomedError(
            f"{path}: becomes over {ratio} times as large when it is decompressed, as no text "
            f"does; if you trust it, set {RATIO_VARIABLE} higher"
        )


def _read_number(variable: str, default: int) -> int:
    value = os.environ.get(variable, "")
    if not value:
        return default
    if not value.isdecimal() or not 0 < len(value) < 10 or not int(value):
        raise BiomedError(f"{variable} = {quote(value)}: give a whole number, 1 or more")
    return int(value)
