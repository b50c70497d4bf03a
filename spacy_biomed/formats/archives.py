"""Files in folders and in zip files, also zip files in zip files."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import BiomedError, escape, quote
from ..files.decompression import check_ratio
from .repairs import leaving_out

_ZIP = ".zip"
# What zipfile raises for damaged content.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
# Levels of zip files within zip files; what programs export has two.
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file in a folder or a zip file.

    Attributes:
        path: the file, for messages; names of zip files are in it like folders.
        name: its path in what is read.
        read: returns its content.
        find: returns the content of the file with a name in the same folder, None if there is none.
    """

    path: Path
    name: PurePosixPath
    read: Callable[[], bytes]
    find: Callable[[str], bytes | None]


def list_packed_files(path: Path, suffixes: Collection[str]) -> Iterator[PackedFile]:
    """List files with a suffix: the path itself, or those in and below a folder and in zip files.

    Files whose names begin with a dot or an underscore are left out.

    Raises:
        BiomedError: if there is no such path, or a zip file is damaged, nested more than three
            times, or unusually compressed.
    """
    if not path.exists():
        raise BiomedError(f"{path}: no such file or folder; check the path")
    root = path if path.is_dir() else path.parent
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        name = PurePosixPath(file.relative_to(root).as_posix())
        if file.is_file() and _is_wanted(name, suffixes):
            if name.suffix.lower() == _ZIP:
                with leaving_out():
                    yield from _list_members(file, name, file.read_bytes(), suffixes)
            else:
                yield PackedFile(file, name, file.read_bytes, _finder(file.parent))


def _is_wanted(name: PurePosixPath, suffixes: Collection[str]) -> bool:
    return name.suffix.lower() in (*suffixes, _ZIP) and not name.name.startswith((".", "_"))


def _finder(folder: Path) -> Callable[[str], bytes | None]:
    return lambda name: (folder / name).read_bytes() if (folder / name).is_file() else None


def _list_members(
    path: Path, name: PurePosixPath, content: bytes, suffixes: Collection[str], depth: int = 1
) -> Iterator[PackedFile]:
    archive = _Archive(path, content)
    for member in archive.members:
        if not _is_wanted(member, suffixes):
            continue
        if member.suffix.lower() != _ZIP:
            yield archive.open(member, name)
        elif depth == _DEEPEST:
            raise BiomedError(f"{path}: zip files in zip files in zip files; unpack them")
        else:
            inner = archive.read(member)
            with leaving_out():
                yield from _list_members(
                    archive.locate(member), name / member, inner, suffixes, depth + 1
                )


class _Archive:
    """A zip file in memory.

    Args:
        path: for messages.
        content: of the zip file.

    Attributes:
        members: names of the files in it, sorted, without folders, which may be named like files.
    """

    def __init__(self, path: Path, content: bytes):
        self.path, self._size = path, len(content)
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except _DAMAGED as error:
            reason = escape(str(error))
            raise BiomedError(f"{path}: no zip file ({reason}); export it again") from None
        self._infos = {
            PurePosixPath(info.filename): info
            for info in self._archive.infolist()
            if not info.is_dir()
        }
        self.members = sorted(self._infos)

    def open(self, member: PurePosixPath, name: PurePosixPath) -> PackedFile:
        """A file by its name; `name` is the one of the zip file."""
        return PackedFile(
            self.locate(member),
            name / member,
            lambda: self.read(member),
            lambda beside: self._find(member.parent / beside),
        )

    def locate(self, member: PurePosixPath) -> Path:
        """The path of a file for messages; names in zip files may have any characters."""
        return self.path / escape(str(member).lstrip("/"), 200)

    def _find(self, member: PurePosixPath) -> bytes | None:
        return self.read(member) if member in self._infos else None

    def read(self, member: PurePosixPath) -> bytes:
        """The content of a file by its name."""
        info = self._infos[member]
        check_ratio(min(info.compress_size, self._size), info.file_size, self.path)
        try:
            return self._archive.read(info)
        except _DAMAGED:
            raise BiomedError(
                f"{self.path}: cannot read {quote(str(member))} in this zip file; export it again"
            ) from None
