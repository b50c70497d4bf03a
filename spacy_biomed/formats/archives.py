"""Files in folders and in zip files, also zip files in zip files."""

import io
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from ..errors import BiomedError, escape, quote
from ..files.compression import check_ratio
from .repairs import leaving_out

_ZIP = ".zip"
# Levels of zip files within zip files; what programs export has two.
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file in a folder or a zip file.

    `path` is for messages, with names of zip files like folders; `name` is its path in what is
    read. `find` returns the content of another file in its folder, None if there is none.
    """

    path: Path
    name: PurePosixPath
    read: Callable[[], bytes]
    find: Callable[[str], bytes | None]


def list_packed_files(path: Path, suffixes: Collection[str]) -> Iterator[PackedFile]:
    """List files with a suffix: the path itself, or those in and below a folder and in zip files.

    Files whose names begin with a dot or an underscore are left out. Raise BiomedError if there is
    no such path, or a zip file is damaged, nested more than three times, or unusually compressed.
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
                yield PackedFile(file, name, file.read_bytes, partial(_find, file.parent))


def _is_wanted(name: PurePosixPath, suffixes: Collection[str]) -> bool:
    return name.suffix.lower() in (*suffixes, _ZIP) and not name.name.startswith((".", "_"))


def _find(folder: Path, name: str) -> bytes | None:
    return (folder / name).read_bytes() if (folder / name).is_file() else None


def _list_members(
    path: Path, name: PurePosixPath, content: bytes, suffixes: Collection[str], depth: int = 1
) -> Iterator[PackedFile]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except Exception as error:  # zipfile raises errors of many kinds for damaged content
        reason = escape(str(error))
        raise BiomedError(f"{path}: no zip file ({reason}); export it again") from None
    # Without folders, which may be named like files.
    infos = {PurePosixPath(one.filename): one for one in archive.infolist() if not one.is_dir()}

    def read(member: PurePosixPath) -> bytes:
        info = infos[member]
        check_ratio(min(info.compress_size, len(content)), info.file_size, path)
        try:
            return archive.read(info)
        except Exception:
            raise BiomedError(
                f"{path}: cannot read {quote(str(member))} in this zip file; export it again"
            ) from None

    def find(folder: PurePosixPath, beside: str) -> bytes | None:
        return read(folder / beside) if folder / beside in infos else None

    for member in sorted(infos):
        # Names in zip files may have any characters.
        place = path / escape(str(member).lstrip("/"), 200)
        if not _is_wanted(member, suffixes):
            continue
        if member.suffix.lower() != _ZIP:
            yield PackedFile(
                place, name / member, partial(read, member), partial(find, member.parent)
            )
        elif depth == _DEEPEST:
            raise BiomedError(f"{path}: zip files in zip files in zip files; unpack them")
        else:
            inner = read(member)
            with leaving_out():
                yield from _list_members(place, name / member, inner, suffixes, depth + 1)
