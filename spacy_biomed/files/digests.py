"""SHA-256 of files and folders."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, as `sha256sum` prints it."""
    digest = hashlib.sha256()
    _add(digest, path)
    return digest.hexdigest()


def digest_files(path: Path) -> str:
    """A digest of the contents of a file, or of the names and contents of a folder's files."""
    digest = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            digest.update(str(file.relative_to(path)).encode())
            _add(digest, file)
    return digest.hexdigest()


def _add(digest: Any, file: Path) -> None:
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
