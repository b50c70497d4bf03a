"""Temporary names of outputs that are being written, and flushing them to disk."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Files of file managers and file systems, which are ignored.
SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "lost+found"})
# Prefix of temporary names in a directory that cannot be renamed.
IN_PLACE = "spacy-biomed"
# Temporary names, of running or killed processes: see `TemporaryNames`.
TEMPORARY = re.compile(r"\..+\.(lock|[0-9a-f]{8}\.(partial|old))")
NAME_LENGTH = 200  # a file name usually has at most 255 bytes


class TemporaryNames:
    """Temporary names next to an output, or in an output that cannot be renamed."""

    def __init__(self, folder: Path, name: str):
        self.folder = folder
        self._name = f".{name[:NAME_LENGTH]}"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self._name}.lock"

    def fresh(self, kind: str) -> Path:
        """A new random name."""
        return self.folder / f"{self._name}.{secrets.token_hex(4)}.{kind}"

    def leftovers(self, *kinds: str) -> list[Path]:
        """Temporary files and directories of other processes, the newest first."""
        pattern = re.compile(rf"{re.escape(self._name)}\.[0-9a-f]{{8}}\.({'|'.join(kinds)})")
        found = []
        for entry in os.scandir(self.folder):
            if pattern.fullmatch(entry.name):
                with suppress(FileNotFoundError):  # of a process that is still alive
                    found.append((entry.stat().st_mtime, Path(entry.path)))
        return [path for _, path in sorted(found, reverse=True)]

    def remove_leftovers(self) -> None:
        """Delete temporary files and directories, with a warning if this fails."""
        for path in self.leftovers("partial", "old"):
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            except FileNotFoundError:
                pass
            except OSError as error:
                print(
                    f"⚠ {path}: the old output could not be deleted ({error.strerror}); delete it",
                    file=sys.stderr,
                )


@contextmanager
def discarding(partial: Path) -> Iterator[None]:
    """Delete an incomplete output if the context ends with an exception."""
    try:
        yield
    except BaseException:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        raise


def flush_tree(directory: Path) -> None:
    """Flush all files below a directory, and the entries of its folders, to disk."""
    for folder, _, names in os.walk(directory):
        for name in names:
            flush_file(Path(folder, name))
        flush_names(Path(folder))


def flush_file(file: Path) -> None:
    """Flush a file to disk."""
    if file.is_symlink():
        return
    with file.open("rb+" if os.name == "nt" else "rb") as stream:
        try:
            os.fsync(stream.fileno())
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without support
                raise


def flush_names(folder: Path) -> None:
    """Flush the entries of a folder to disk, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
