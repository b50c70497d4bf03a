"""SHA-256 of files and folders."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

_BLOCK = 1 << 20


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, as `sha256sum` prints it."""
    return hash_pieces(read_blocks(path))


def digest_files(path: Path) -> str:
    """A digest of the contents of a file, or of the names and contents of a folder's files."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return hash_pieces(
        piece
        for file in files
        if file.is_file()
        for piece in chain([str(file.relative_to(path)).encode()], read_blocks(file))
    )


def hash_pieces(pieces: Iterable[bytes]) -> str:
    """SHA-256 of pieces, one after the other."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in blocks of a megabyte."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
