"""Write outputs atomically, and replace only earlier outputs of the same command.

An output is written next to its final place under a temporary name, until it is complete and
flushed to disk. Then the old output is renamed, the new output is renamed to its final name, and
the old output is deleted. If anything fails, or the process is killed, one of the two is complete,
and the next run with the same output restores it. A lock keeps other processes out.

An output directory has a marker, the file `.spacy-biomed.json`, with the command that made it, its
sources, and the files it wrote. A directory is replaced only if it has a marker of the same command
and no other files.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import BiomedError

if TYPE_CHECKING:
    from filelock import BaseFileLock

MARKER = ".spacy-biomed.json"

# Files of file managers and file systems, which are ignored.
_SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "lost+found"})
# Prefix of temporary names in a directory that cannot be renamed.
_IN_PLACE = "spacy-biomed"
# Temporary names, of running or killed processes: see `_TemporaryNames`.
_TEMPORARY = re.compile(r"\..+\.(lock|[0-9a-f]{8}\.(partial|old))")
_NAME_LENGTH = 200  # a file name usually has at most 255 bytes
# Errors of writing that may have no file name.
_OF_WRITING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.EBUSY, errno.ENXIO}
)
# The same errors in messages of safetensors, SQLite, PyTorch and others.
_IN_OTHER_WORDS = {
    errno.ENOSPC: re.compile(r"no space left|disk (?:is )?full|os error 28\b|storagefull", re.I),
    errno.EDQUOT: re.compile(r"quota|os error 122\b", re.I),
    errno.EFBIG: re.compile(r"file too large|os error 27\b", re.I),
    errno.EROFS: re.compile(r"read-only file system|os error 30\b", re.I),
    errno.EIO: re.compile(
        r"disk i/o error|input/output error|os error 5\b|file write failed|failed writing", re.I
    ),
}


@contextmanager
def replacing_directory(
    output: Path, made_by: str, sources: Iterable[Path | str] = ()
) -> Iterator[Path]:
    """Yield an empty directory to write to, which becomes `output` at the end of the context.

    A mount point, or a directory whose parent is not writable, cannot be renamed. There the new
    files replace the old files one by one.

    Args:
        output: directory to write; replaced if it exists.
        made_by: the command that writes it, such as "spacy biomed convert". Directories of other
            commands, or with files that it did not write, are not replaced.
        sources: files and directories that the output is made from.

    Raises:
        BiomedError: if the output is a file, is a source, contains a source or is in a source, has
            other files, is being written by another process, or cannot be written.
    """
    sources = list(sources)
    check_replaceable(output, made_by, sources)
    place = _resolve(output)
    with _writing(output, place, stays=_must_stay(place)) as beside:
        # Checked again: another process may have written here before the lock.
        check_replaceable(output, made_by, sources)
        partial = beside.fresh("partial")
        with _discarding(partial), _explaining(output):
            partial.mkdir()
            yield partial
            marker = {**_describe(made_by, sources), "files": _files(partial)}
            _write_marker(partial / MARKER, marker)
            _flush_tree(partial)
        with _keeping(output, partial, in_place=beside.folder == place):
            if beside.folder == place:
                _move_in(partial, place)
            else:
                _swap(partial, place, beside)
        beside.remove_leftovers()


@contextmanager
def replacing_file(output: Path, sources: Iterable[Path | str] = ()) -> Iterator[Path]:
    """Yield the path of a file to write, which becomes `output` at the end of the context.

    Args:
        output: file to write; replaced if it exists.
        sources: files and directories that the output is made from.

    Raises:
        BiomedError: if the output is not a regular file, is a source or is in a source, is being
            written by another process, or cannot be written.
    """
    check_output(output, sources)
    if output.is_dir():
        raise BiomedError(f"{output}: this is a directory; name a file to write to")
    if output.exists() and not output.is_file():
        raise BiomedError(f"{output}: this is not a regular file; name a file to write to")
    place = _resolve(output)
    with _writing(output, place) as beside:
        partial = beside.fresh("partial")
        with _discarding(partial), _explaining(output):
            partial.touch(exist_ok=False)
            yield partial
            _flush(partial)
        with _keeping(output, partial):
            os.replace(partial, place)
        _flush_names(place.parent)
        beside.remove_leftovers()


def replace_text(output: Path, text: str, sources: Iterable[Path | str] = ()) -> None:
    """Write a text file in UTF-8; arguments and errors are as in `replacing_file`."""
    with replacing_file(output, sources) as partial:
        partial.write_text(text, encoding="utf8")


def append_text(output: Path, text: str) -> None:
    """Append a text in UTF-8 to a file, which is created if missing, and flush it to disk.

    Raises:
        BiomedError: if it cannot be written. A part of the text may have been.
    """
    with _explaining(output):
        is_new = not output.exists()
        with output.open("ab") as stream:
            stream.write(text.encode())
        _flush(output)
        if is_new:
            _flush_names(output.parent)


def write_part(directory: Path, name: str, content: bytes) -> None:
    """Write or replace a file of a working directory that this process, or its parent, has locked.

    If the process is killed, `working_directory` deletes the incomplete file. Several processes may
    write the same content.

    Args:
        directory: the working directory.
        name: relative path of the file, whose folders are created.
        content: of the file.

    Raises:
        BiomedError: if it cannot be written; then an earlier file is unchanged.
    """
    place = directory / name
    partial = _TemporaryNames(directory, _IN_PLACE).fresh("partial")
    with _explaining(place), _discarding(partial):
        partial.write_bytes(content)
        _flush(partial)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, place)
        _flush_names(place.parent)


def write_part_folder(directory: Path, name: str, files: dict[str, bytes]) -> None:
    """Write or replace a folder of a working directory; see `write_part`.

    Args:
        directory: the working directory.
        name: of the folder.
        files: content by the name of the file in the folder.

    Raises:
        BiomedError: if it cannot be written.
    """
    place = directory / name
    names = _TemporaryNames(directory, _IN_PLACE)
    partial = names.fresh("partial")
    with _explaining(place), _discarding(partial):
        partial.mkdir()
        for file, content in files.items():
            (partial / file).write_bytes(content)
        _flush_tree(partial)
        while True:
            if place.exists():
                old = names.fresh("old")
                os.rename(place, old)
                shutil.rmtree(old)
            try:
                os.rename(partial, place)
                break
            except OSError as error:  # another process has just written it
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
        _flush_names(directory)


@contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """Lock a directory within the context, for a command that replaces its parts one by one.

    The directory is created if it does not exist, and then deleted at the end if it is empty.

    Raises:
        BiomedError: if it is a file, cannot be created, or is locked by another process.
    """
    if path.exists() and not path.is_dir():
        raise BiomedError(f"{path}: this is a file; name a directory to write to")
    with _writing(path, _resolve(path), stays=True):
        yield


@contextmanager
def working_directory(
    path: Path, made_by: str, sources: Iterable[Path | str] = ()
) -> Iterator[None]:
    """Lock a working directory within the context, for a command that can be resumed.

    The directory is created if it does not exist, and then deleted at the end if it is empty.

    Args:
        path: the directory.
        made_by: the command.
        sources: files and directories that the command reads.

    Raises:
        BiomedError: as in `replacing_directory`, but the directory may have any files if the same
            command made it.
    """
    sources = list(sources)
    _check_is_ours(path, made_by, sources)
    with _writing(path, _resolve(path), stays=True) as beside:
        beside.remove_leftovers()
        is_new = not (path / MARKER).is_file()
        claim_directory(path, made_by, sources)
        try:
            yield
        finally:
            beside.remove_leftovers()  # of processes that died and were replaced
            if is_new and [entry.name for entry in _entries(path)] == [MARKER]:
                (path / MARKER).unlink()  # nothing was written


def claim_directory(path: Path, made_by: str, sources: Iterable[Path | str] = ()) -> None:
    """Create a directory with a marker, so that a command may change, replace and delete it.

    Raises:
        BiomedError: if it has files and no marker of the command, or cannot be written.
    """
    sources = list(sources)
    if _check_is_ours(path, made_by, sources) is None:
        with _explaining(path):
            path.mkdir(parents=True, exist_ok=True)
            # Written atomically: an incomplete marker would make the directory unusable.
            partial = _TemporaryNames(path, _IN_PLACE).fresh("partial")
            with _discarding(partial):
                _write_marker(partial, _describe(made_by, sources))
                os.replace(partial, path / MARKER)


@contextmanager
def scratch_directory(output: Path) -> Iterator[Path]:
    """Yield a temporary directory next to an output that is being written.

    If the process is killed, the next run with the same output deletes the directory.
    """
    place = _resolve(output)
    path = _TemporaryNames(place.parent, place.name).fresh("partial")
    with _explaining(output):
        path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def find_paths(settings: object) -> Iterator[Path]:
    """Find the values in nested settings that are existing files or directories."""
    if isinstance(settings, dict):
        for key, value in settings.items():
            if key != "factory" and not key.startswith("@"):
                yield from find_paths(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from find_paths(value)
    elif isinstance(settings, str | Path) and str(settings) and os.path.exists(settings):
        yield Path(settings)


def check_output(output: Path, sources: Iterable[Path | str]) -> None:
    """Check that an output is not a source, is not in a source and does not contain a source.

    Args:
        output: file or directory to write.
        sources: files and directories. Paths that do not exist, such as the name of a package, are
            ignored.

    Raises:
        BiomedError: if it is a source, is in a source or contains a source.
    """
    with _explaining(output):
        place = _resolve(output)
        for source in map(Path, sources):
            if not os.path.exists(source):  # also False for a name of over 255 characters
                continue
            other = _resolve(source)
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
    marker = _check_is_ours(output, made_by, sources)
    if marker is None or marker.get("files") is None:  # a working directory may have any files
        return
    known = set(marker["files"])
    with _explaining(output):
        for file in _files(output):
            if file not in known:
                raise BiomedError(
                    f"{output}: has {file}, which `{made_by}` did not write and would delete; move "
                    "it away, or name another directory"
                )


def record_file(directory: Path, name: str) -> None:
    """Add a file to the marker of an output directory, as written by the directory's command."""
    marker = _read_marker(directory)
    if marker is not None and name not in marker["files"]:
        marker["files"] = sorted([*marker["files"], name])
        with replacing_file(directory / MARKER) as partial:
            _write_marker(partial, marker)


def remove_directory(path: Path, made_by: str) -> None:
    """Delete a command's directory, if it exists.

    Raises:
        BiomedError: if the command did not make it, or it cannot be deleted.
    """
    if not path.exists():
        return
    _check_is_ours(path, made_by, ())
    delete_directory(path)


def delete_directory(path: Path) -> None:
    """Delete a directory with its content, without a check; only for parts of output directories.

    A marker is deleted last: without it, what is left after an error or a kill would be refused.

    Raises:
        BiomedError: if it cannot be deleted.
    """
    try:
        for entry in _entries(path) if (path / MARKER).is_file() else ():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != MARKER:
                entry.unlink()
        shutil.rmtree(path)
    except OSError as error:
        raise BiomedError(
            f"{path}: cannot be deleted ({error.strerror}); fix this, and run the command again"
        ) from error


def finish_replacing(output: Path) -> None:
    """Restore an output directory whose process was killed between the renames.

    `replacing_directory` does this too; call this before reading an output.
    """
    place = _resolve(output)
    if not place.exists() and place.parent.is_dir():
        _TemporaryNames(place.parent, place.name).restore(place)


class _TemporaryNames:
    """Temporary names next to an output, or in an output that cannot be renamed."""

    def __init__(self, folder: Path, name: str):
        self.folder = folder
        self._name = f".{name[:_NAME_LENGTH]}"

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

    def restore(self, place: Path) -> None:
        """Restore a missing output from a complete new output, or else from the old output."""
        complete = [path for path in self.leftovers("partial") if (path / MARKER).is_file()]
        for path in [*complete, *self.leftovers("old")][:1]:
            os.rename(path, place)
            _flush_names(place.parent)

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
def _writing(output: Path, place: Path, *, stays: bool = False) -> Iterator[_TemporaryNames]:
    """Create the folder of an output, and lock the output within the context.

    The output of a killed process is restored first. Folders that were created and are still empty
    are deleted at the end.
    """
    from filelock import FileLock, Timeout

    folder = place if stays else place.parent
    beside = _TemporaryNames(folder, _IN_PLACE if stays else place.name)
    with ExitStack() as stack:
        with _explaining(output):
            made = _make_folders(folder)
            stack.callback(_remove_empty, made)
            lock = FileLock(beside.lock, timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise BiomedError(
                    f"{output}: another process is writing it; wait, or name another output"
                ) from None
            stack.callback(_release, lock)
            if not stays and not place.exists():
                beside.restore(place)
        yield beside


@contextmanager
def _discarding(partial: Path) -> Iterator[None]:
    """Delete an incomplete output if the context ends with an exception."""
    try:
        yield
    except BaseException:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        raise


def _resolve(path: Path) -> Path:
    """Resolve symbolic links.

    Raises:
        OSError: if there is a loop of links; `Path.resolve` raises a different exception.
    """
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return place


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
        _remove_empty([path for path in missing if os.path.isdir(path)])
        raise
    return missing


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _must_stay(place: Path) -> bool:
    """Whether a directory cannot be renamed: it is a mount point, or its parent not writable."""
    return place.is_dir() and (os.path.ismount(place) or not os.access(place.parent, os.W_OK))


def _swap(partial: Path, place: Path, beside: _TemporaryNames) -> None:
    old = beside.fresh("old")
    try:
        if place.exists():
            os.rename(place, old)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        # A bind mount of a folder of the same file system is not recognised as a mount point.
        inside = _TemporaryNames(place, _IN_PLACE)
        copied = inside.fresh("partial")
        shutil.copytree(partial, copied)
        _flush_tree(copied)
        _move_in(copied, place)
        inside.remove_leftovers()
        return
    try:
        os.rename(partial, place)
    except OSError:
        if old.exists():
            os.rename(old, place)
        raise
    _flush_names(place.parent)


def _move_in(partial: Path, place: Path) -> None:
    """Replace the files of a directory one by one, then delete files that only the old one had.

    Meanwhile the marker lists the files of both, so that the next run can replace them.
    """
    old = set((_read_marker(place) or {}).get("files") or ())
    marker = _read_marker(partial) or {}
    new = marker.get("files") or []
    both = partial / f"{MARKER}.both"
    _write_marker(both, {**marker, "files": sorted(old.union(new))})
    os.replace(both, place / MARKER)
    for file in new:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial / file, place / file)
    for file in sorted(old.difference(new)):
        (place / file).unlink(missing_ok=True)
        _remove_empty([folder for folder in (place / file).parents if folder != place])
    os.replace(partial / MARKER, place / MARKER)
    _flush_names(place)


def _check_is_ours(
    path: Path, made_by: str, sources: Iterable[Path | str]
) -> dict[str, Any] | None:
    """The marker of a directory, which must be the command's; None if it is empty or missing."""
    with _explaining(path):
        if path.exists() and not path.is_dir():
            raise BiomedError(f"{path}: this is a file; name a directory to write to")
    check_output(path, sources)
    with _explaining(path):
        if not path.is_dir() or not any(_entries(path)):
            return None
        marker = _read_marker(path)
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


def _entries(path: Path) -> Iterator[Path]:
    """The entries of a directory, without system files and temporary files."""
    for entry in path.iterdir():
        if entry.name not in _SYSTEM_FILES and not _TEMPORARY.fullmatch(entry.name):
            yield entry


def _files(directory: Path) -> list[str]:
    """The relative paths of all files below a directory, without its marker."""
    files = []
    for entry in _entries(directory):
        if entry.is_dir() and not entry.is_symlink():
            files += [f"{entry.name}/{file}" for file in _files_below(entry)]
        elif entry.name != MARKER:
            files.append(entry.name)
    return sorted(files)


def _files_below(directory: Path) -> Iterator[str]:
    for folder, _, names in os.walk(directory):
        for name in names:
            if name not in _SYSTEM_FILES and not _TEMPORARY.fullmatch(name):
                yield Path(folder, name).relative_to(directory).as_posix()


def _describe(made_by: str, sources: Iterable[Path | str]) -> dict[str, object]:
    """A marker's content. It has no time and no paths, so a copied output does not reveal them."""
    names = sorted({Path(source).name for source in sources})
    return {"made_by": made_by, "from": names, "files": None}


def _write_marker(path: Path, marker: dict[str, object]) -> None:
    path.write_text(json.dumps(marker, indent=2) + "\n", encoding="utf8")


def _read_marker(directory: Path) -> dict[str, Any] | None:
    try:
        marker = json.loads((directory / MARKER).read_text(encoding="utf8"))
    except (FileNotFoundError, ValueError):
        return None
    return marker if isinstance(marker, dict) else None


def _flush_tree(directory: Path) -> None:
    for folder, _, names in os.walk(directory):
        for name in names:
            _flush(Path(folder, name))
        _flush_names(Path(folder))


def _flush(file: Path) -> None:
    """Flush a file to disk."""
    if file.is_symlink():
        return
    with file.open("rb+" if os.name == "nt" else "rb") as stream:
        try:
            os.fsync(stream.fileno())
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without support
                raise


def _flush_names(folder: Path) -> None:
    """Flush the entries of a folder to disk, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _explaining(output: Path) -> Iterator[None]:
    """Convert errors of writing an output to a one-line message.

    Errors of files that are read meanwhile are not converted.
    """
    try:
        yield
    except BiomedError:
        raise
    except Exception as error:
        reason = _find_reason(error, output)
        if reason is None:
            raise
        raise BiomedError(
            f"{output}: cannot be written ({reason}); nothing was changed: fix this, or name "
            "another place"
        ) from error


def _find_reason(error: Exception, output: Path) -> str | None:
    """The reason why an output cannot be written; None if the error has another cause."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        # From `shutil.copytree`: a message for each file.
        for _, target, words in error.args[0]:
            found = re.match(r"\[Errno \d+\] (.+?): ", words)
            if found and str(target) in words:
                return found[1]
    if isinstance(error, OSError) and _is_of_writing(error, output):
        return error.strerror or str(error)
    for number, words in _IN_OTHER_WORDS.items():
        if words.search(str(error)):
            return os.strerror(number)
    return None


def _is_of_writing(error: OSError, output: Path) -> bool:
    if not isinstance(error.filename, str | os.PathLike):
        return error.errno in _OF_WRITING
    path, place = Path(error.filename).absolute(), output.absolute()
    beside = path.is_relative_to(place.parent) and f".{place.name[:_NAME_LENGTH]}." in str(path)
    # Files of a working directory have temporary names without their own (`write_part`).
    beside = beside or (path.parent == place.parent and bool(_TEMPORARY.fullmatch(path.name)))
    return beside or path.is_relative_to(place) or place.is_relative_to(path)


@contextmanager
def _keeping(output: Path, partial: Path, *, in_place: bool = False) -> Iterator[None]:
    """If a finished output cannot be put in its place, keep it and name its temporary path."""
    try:
        yield
    except OSError as error:
        if in_place:
            left = f"some of its files are new, the others are in {partial}: run the command again"
        else:
            left = f"it is as it was, and the new one is complete in {partial}: move it there"
        raise BiomedError(f"{output}: cannot be replaced ({error.strerror}); {left}") from error
