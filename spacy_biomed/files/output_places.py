"""Where a command may write: locks, and markers of what a command has written.

An output directory has a marker, the file `.spacy-biomed.json`, with the command that made it, its
sources, and the files it wrote. A directory is replaced only if it has a marker of the same command
and no other files.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BiomedError
from .temporary_names import IN_PLACE, SYSTEM_FILES, TEMPORARY, TemporaryNames, flush_names
from .write_errors import explaining_errors

if TYPE_CHECKING:
    from filelock import BaseFileLock

MARKER = ".spacy-biomed.json"


def check_output(output: Path, sources: Iterable[Path | str]) -> None:
    """Check that an output is not a source, is not in a source and does not contain a source.

    Args:
        sources: files and directories. Paths that do not exist, such as the name of a package, are
            ignored.

    Raises:
        BiomedError: if it is a source, is in a source or contains a source.
    """
    with explaining_errors(output):
        place = resolve_links(output)
        for source in map(Path, sources):
            if not os.path.exists(source):  # also False for a name of over 255 characters
                continue
            other = resolve_links(source)
            if place == other or (output.exists() and output.samefile(source)):
                relation = "is what is read"
            elif place.is_relative_to(other):
                relation = f"lies in {source}, which is read"
            elif other.is_relative_to(place):
                relation = f"holds {source}, which is read"
            else:
                continue
            raise BiomedError(f"{output}: {relation}; name another output")


def check_replaceable(output: Path, made_by: str, sources: Iterable[Path | str] = ()) -> None:
    """Check that a directory can become a command's output, before any work is done.

    Raises:
        BiomedError: as in `replacing_directory`, except for locks and errors of writing.
    """
    marker = check_is_ours(output, made_by, sources)
    if marker is None or marker.get("files") is None:  # a working directory may have any files
        return
    known = set(marker["files"])
    with explaining_errors(output):
        for file in list_files(output):
            if file not in known:
                raise BiomedError(
                    f"{output}: has {file}, which `{made_by}` did not write and would delete; move "
                    "it away, or name another directory"
                )


def check_is_ours(path: Path, made_by: str, sources: Iterable[Path | str]) -> dict[str, Any] | None:
    """The marker of a directory, which must be the command's; None if it is empty or missing."""
    with explaining_errors(path):
        if path.exists() and not path.is_dir():
            raise BiomedError(f"{path}: this is a file; name a directory to write to")
    check_output(path, sources)
    with explaining_errors(path):
        if not path.is_dir() or not any(list_entries(path)):
            return None
        marker = read_marker(path)
    if marker is None:
        raise BiomedError(
            f"{path}: holds files that `{made_by}` did not write (it has no {MARKER}) and would "
            "delete; move them away, or name another directory"
        )
    if marker.get("made_by") != made_by:
        raise BiomedError(
            f"{path}: was made by `{marker.get('made_by')}` and not by `{made_by}`, so it is not "
            "replaced; name another directory"
        )
    return marker


def list_entries(path: Path) -> Iterator[Path]:
    """The entries of a directory, without system files and temporary files."""
    for entry in path.iterdir():
        if entry.name not in SYSTEM_FILES and not TEMPORARY.fullmatch(entry.name):
            yield entry


def list_files(directory: Path) -> list[str]:
    """The relative paths of all files below a directory, without its marker."""
    files = []
    for entry in list_entries(directory):
        if entry.is_dir() and not entry.is_symlink():
            files += [f"{entry.name}/{file}" for file in _files_below(entry)]
        elif entry.name != MARKER:
            files.append(entry.name)
    return sorted(files)


def _files_below(directory: Path) -> Iterator[str]:
    for folder, _, names in os.walk(directory):
        for name in names:
            if name not in SYSTEM_FILES and not TEMPORARY.fullmatch(name):
                yield Path(folder, name).relative_to(directory).as_posix()


def describe_output(made_by: str, sources: Iterable[Path | str]) -> dict[str, object]:
    """A marker's content. It has no time and no paths, so a copied output does not reveal them."""
    names = sorted({Path(source).name for source in sources})
    return {"made_by": made_by, "from": names, "files": None}


def write_marker(path: Path, marker: dict[str, object]) -> None:
    path.write_text(json.dumps(marker, indent=2) + "\n", encoding="utf8")


def read_marker(directory: Path) -> dict[str, Any] | None:
    try:
        marker = json.loads((directory / MARKER).read_text(encoding="utf8"))
    except (FileNotFoundError, ValueError):
        return None
    return marker if isinstance(marker, dict) else None


def resolve_links(path: Path) -> Path:
    """Resolve symbolic links.

    Raises:
        OSError: if there is a loop of links; `Path.resolve` raises a different exception.
    """
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return place


def restore_output(place: Path, beside: TemporaryNames) -> None:
    """Restore a missing output from a complete new output, or else from the old output."""
    complete = [path for path in beside.leftovers("partial") if (path / MARKER).is_file()]
    for path in [*complete, *beside.leftovers("old")][:1]:
        os.rename(path, place)
        flush_names(place.parent)


@contextmanager
def locked_place(output: Path, place: Path, *, stays: bool = False) -> Iterator[TemporaryNames]:
    """Create the folder of an output, and lock the output within the context.

    The output of a killed process is restored first. Folders that were created and are still empty
    are deleted at the end.
    """
    from filelock import FileLock, Timeout

    folder = place if stays else place.parent
    beside = TemporaryNames(folder, IN_PLACE if stays else place.name)
    with ExitStack() as stack:
        with explaining_errors(output):
            made = _make_folders(folder)
            stack.callback(remove_empty, made)
            lock = FileLock(beside.lock, timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise BiomedError(
                    f"{output}: another process is writing it; wait, or name another output"
                ) from None
            stack.callback(_release, lock)
            if not stays and not place.exists():
                restore_output(place, beside)
        yield beside


def _release(lock: BaseFileLock) -> None:
    # Deleted while held: a waiting process notices that the file is gone, and creates a new one.
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


def _make_folders(folder: Path) -> list[Path]:
    """Create a folder and its parents; return the new folders, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # a file is in its place
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error
    except OSError:
        remove_empty([path for path in missing if os.path.isdir(path)])
        raise
    return missing


def remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
