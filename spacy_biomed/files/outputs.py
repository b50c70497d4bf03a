"""Write outputs atomically, and replace only earlier outputs of the same command.

An output is written beside its place under a temporary name and flushed to disk. Then the old
output and it are renamed, and the old one is deleted. Whatever fails, one of the two is complete,
and the next run with the same output restores it. A lock keeps other processes out.

An output directory has a marker, the file `.spacy-biomed.json`, with the command that made it, its
sources, and the files it wrote. It is replaced only by the same command, and if it has no other
files. A command that can be resumed writes one part after the other into a working directory.
"""

import errno
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import BiomedError

MARKER = ".spacy-biomed.json"
# Files of file managers and file systems, which are ignored.
SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", "lost+found"})
# Prefix of temporary names in a directory that cannot be renamed.
IN_PLACE = "spacy-biomed"
# Temporary names, of running or killed processes: see `TemporaryNames`.
TEMPORARY = re.compile(r"\..+\.(lock|[0-9a-f]{8}\.(partial|old))")
NAME_LENGTH = 200  # a file name usually has at most 255 bytes
# Errors of writing that may have no file name.
_OF_WRITING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.EBUSY, errno.ENXIO}
)
# The same errors in messages of safetensors, SQLite, PyTorch and others.
_IN_OTHER_WORDS = re.compile(
    r"no space left|disk (?:is )?full|storagefull|quota|file too large|read-only file system|"
    r"disk i/o error|input/output error|file write failed|failed writing|"
    r"os error (?:5|27|28|30|122)\b",
    re.I,
)
# What a run notes beside its results. Readers of a folder leave these files out.
RUN_FILES = MANIFEST, FINISHED, ERRORS = "_manifest.json", "_finished.jsonl", "_errors.jsonl"


class TemporaryNames:
    """Temporary names next to an output, or in an output that cannot be renamed."""

    def __init__(self, folder: Path, name: str):
        self.folder = folder
        self._name = f".{name[:NAME_LENGTH]}"
        self.lock = folder / f"{self._name}.lock"

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


def check_output(output: Path, sources: Iterable[Path | str]) -> None:
    """Raise BiomedError if an output is a source, is in a source or contains a source.

    Sources that do not exist, such as the name of a package, are ignored.
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
    """Raise BiomedError before any work if a directory cannot become a command's output."""
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


def list_entries(path: Path) -> list[Path]:
    """The entries of a directory, without system files and temporary files."""
    return [entry for entry in path.iterdir() if not _is_ignored(entry.name)]


def list_files(directory: Path) -> list[str]:
    """The relative paths of all files and links below a directory, without its marker."""
    paths = (one for one in directory.rglob("*") if one.is_symlink() or not one.is_dir())
    files = (path.relative_to(directory) for path in paths)
    kept = (file.as_posix() for file in files if not any(map(_is_ignored, file.parts)))
    return sorted(file for file in kept if file != MARKER)


def _is_ignored(name: str) -> bool:
    return name in SYSTEM_FILES or TEMPORARY.fullmatch(name) is not None


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
    """Resolve symbolic links; raise OSError if they lead in a circle."""
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
def locked_place(output: Path, *, stays: bool = False) -> Iterator[TemporaryNames]:
    """Create the folder of an output, and lock the output within the context.

    An output that `stays` is a directory whose content is replaced one by one. The output of a
    killed process is restored first. Folders that were created and are still empty are deleted at
    the end.
    """
    from filelock import FileLock, Timeout

    with ExitStack() as stack:
        with explaining_errors(output):
            place = resolve_links(output)
            folder = place if stays else place.parent
            beside = TemporaryNames(folder, IN_PLACE if stays else place.name)
            missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
            stack.callback(remove_empty, missing)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:  # a file is in its place
                reason = os.strerror(errno.ENOTDIR)
                raise NotADirectoryError(errno.ENOTDIR, reason, str(folder)) from error
            lock = FileLock(beside.lock, timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise BiomedError(
                    f"{output}: another process is writing it; wait, or name another output"
                ) from None
            stack.callback(lock.release)
            # While held: a waiting process notices that the file is gone, and makes a new one.
            stack.callback(_remove_file, beside.lock)
            if not stays and not place.exists():
                restore_output(place, beside)
        yield beside


def _remove_file(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def remove_empty(folders: Iterable[Path]) -> None:
    """Delete those of the folders that are empty, the innermost first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def writing_partial(output: Path, names: TemporaryNames) -> Iterator[Path]:
    """Yield a temporary name for an output, which is deleted if the context ends with an error."""
    partial = names.fresh("partial")
    with explaining_errors(output):
        try:
            yield partial
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


@contextmanager
def explaining_errors(output: Path) -> Iterator[None]:
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


@contextmanager
def keeping_output(output: Path, partial: Path, *, in_place: bool = False) -> Iterator[None]:
    """If a finished output cannot be put in its place, keep it and name its temporary path."""
    try:
        yield
    except OSError as error:
        if in_place:
            left = f"some of its files are new, the others are in {partial}: run the command again"
        else:
            left = f"it is as it was, and the new one is complete in {partial}: move it there"
        raise BiomedError(f"{output}: cannot be replaced ({error.strerror}); {left}") from error


def _find_reason(error: Exception, output: Path) -> str | None:
    """The reason why an output cannot be written; None if the error has another cause."""
    if isinstance(error, OSError) and _is_of_writing(error, output):
        return error.strerror or str(error)
    # Not the whole message, which may quote a text.
    found = _IN_OTHER_WORDS.search(str(error))
    return found and found[0]


def _is_of_writing(error: OSError, output: Path) -> bool:
    if not isinstance(error.filename, str | os.PathLike):
        return error.errno in _OF_WRITING
    path, place = Path(error.filename).absolute(), output.absolute()
    beside = path.is_relative_to(place.parent) and f".{place.name[:NAME_LENGTH]}." in str(path)
    # Files of a working directory have temporary names without their own (`write_part`).
    is_partial = path.parent == place.parent and TEMPORARY.fullmatch(path.name) is not None
    return beside or is_partial or path.is_relative_to(place) or place.is_relative_to(path)


@contextmanager
def replacing_directory(
    output: Path, made_by: str, sources: Iterable[Path | str] = ()
) -> Iterator[Path]:
    """Yield an empty directory to write to, which becomes `output` at the end of the context.

    A mount point, or a directory whose parent is not writable, cannot be renamed. There the new
    files replace the old files one by one. A directory of another command than `made_by`, or with
    files that it did not write, is not replaced.
    """
    sources = list(sources)
    check_replaceable(output, made_by, sources)
    place = resolve_links(output)
    with locked_place(output, stays=_must_stay(place)) as beside:
        # Checked again: another process may have written here before the lock.
        check_replaceable(output, made_by, sources)
        with writing_partial(output, beside) as partial:
            partial.mkdir()
            yield partial
            marker = {**describe_output(made_by, sources), "files": list_files(partial)}
            write_marker(partial / MARKER, marker)
            flush_tree(partial)
        with keeping_output(output, partial, in_place=beside.folder == place):
            if beside.folder == place:
                _move_in(partial, place)
            else:
                _swap(partial, place, beside)
        beside.remove_leftovers()


@contextmanager
def replacing_file(output: Path, sources: Iterable[Path | str] = ()) -> Iterator[Path]:
    """Yield the path of a file to write, which becomes `output` at the end of the context."""
    check_output(output, sources)
    if output.exists() and not output.is_file():
        kind = "a directory" if output.is_dir() else "not a regular file"
        raise BiomedError(f"{output}: this is {kind}; name a file to write to")
    place = resolve_links(output)
    with locked_place(output) as beside:
        with writing_partial(output, beside) as partial:
            partial.touch(exist_ok=False)
            yield partial
            flush_file(partial)
        with keeping_output(output, partial):
            os.replace(partial, place)
        flush_names(place.parent)
        beside.remove_leftovers()


def replace_text(output: Path, text: str, sources: Iterable[Path | str] = ()) -> None:
    """Write a text file in UTF-8; arguments and errors are as in `replacing_file`."""
    with replacing_file(output, sources) as partial:
        partial.write_text(text, encoding="utf8")


def append_text(output: Path, text: str) -> None:
    """Append a text in UTF-8 to a file, which is created if missing, and flush it to disk."""
    with explaining_errors(output):
        is_new = not output.exists()
        with output.open("ab") as stream:
            stream.write(text.encode())
        flush_file(output)
        if is_new:
            flush_names(output.parent)


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


def record_file(directory: Path, name: str) -> None:
    """Add a file to the marker of an output directory, as written by the directory's command."""
    marker = read_marker(directory)
    if marker is not None and name not in marker["files"]:
        marker["files"] = sorted([*marker["files"], name])
        with replacing_file(directory / MARKER) as partial:
            write_marker(partial, marker)


def remove_directory(path: Path, made_by: str) -> None:
    """Delete a directory, if it exists; raise BiomedError if it is not the command's."""
    if path.exists():
        check_is_ours(path, made_by, ())
        delete_directory(path)


def delete_directory(path: Path) -> None:
    """Delete a directory with its content, without a check; only for parts of output directories.

    A marker is deleted last: without it, what is left after an error or a kill would be refused.
    """
    try:
        for entry in list_entries(path) if (path / MARKER).is_file() else ():
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
    place = resolve_links(output)
    if not place.exists() and place.parent.is_dir():
        restore_output(place, TemporaryNames(place.parent, place.name))


@contextmanager
def working_directory(
    path: Path, made_by: str, sources: Iterable[Path | str] = ()
) -> Iterator[None]:
    """Lock a working directory within the context, for a command that can be resumed.

    It may have any files if the same command made it. It is created if it does not exist, and then
    deleted at the end if it is empty.
    """
    sources = list(sources)
    check_is_ours(path, made_by, sources)
    with locked_place(path, stays=True) as beside:
        beside.remove_leftovers()
        is_new = not (path / MARKER).is_file()
        claim_directory(path, made_by, sources)
        try:
            yield
        finally:
            beside.remove_leftovers()  # of processes that died and were replaced
            if is_new and [entry.name for entry in list_entries(path)] == [MARKER]:
                (path / MARKER).unlink()  # nothing was written


def claim_directory(path: Path, made_by: str, sources: Iterable[Path | str] = ()) -> None:
    """Create a directory with a marker, so that a command may change, replace and delete it."""
    sources = list(sources)
    if check_is_ours(path, made_by, sources) is None:
        # Written atomically: an incomplete marker would make the directory unusable.
        with writing_partial(path, TemporaryNames(path, IN_PLACE)) as partial:
            path.mkdir(parents=True, exist_ok=True)
            write_marker(partial, describe_output(made_by, sources))
            os.replace(partial, path / MARKER)


@contextmanager
def scratch_directory(output: Path) -> Iterator[Path]:
    """Yield a temporary directory next to an output that is being written.

    If the process is killed, the next run with the same output deletes the directory.
    """
    place = resolve_links(output)
    path = TemporaryNames(place.parent, place.name).fresh("partial")
    with explaining_errors(output):
        path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write_part(directory: Path, name: str, content: bytes | Mapping[str, bytes]) -> None:
    """Write or replace a file of a working directory, or a folder of files by their names.

    This process, or its parent, has locked the directory: if the process is killed,
    `working_directory` deletes what is incomplete. Several processes may write the same content.
    """
    place = directory / name
    names = TemporaryNames(directory, IN_PLACE)
    with writing_partial(place, names) as partial:
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            partial.write_bytes(content)
            flush_file(partial)
            os.replace(partial, place)
        else:
            partial.mkdir()
            for file, part in content.items():
                (partial / file).write_bytes(part)
            flush_tree(partial)
            _replace_folder(partial, place, names)
        flush_names(place.parent)


def _replace_folder(partial: Path, place: Path, names: TemporaryNames) -> None:
    while True:
        if place.exists():
            old = names.fresh("old")
            os.rename(place, old)
            shutil.rmtree(old)
        try:
            os.rename(partial, place)
            return
        except OSError as error:  # another process has just written it
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


def _must_stay(place: Path) -> bool:
    """Whether a directory cannot be renamed: it is a mount point, or its parent not writable."""
    return place.is_dir() and (os.path.ismount(place) or not os.access(place.parent, os.W_OK))


def _swap(partial: Path, place: Path, beside: TemporaryNames) -> None:
    old = beside.fresh("old")
    try:
        if place.exists():
            os.rename(place, old)
        os.rename(partial, place)
    except OSError:
        if old.exists():
            os.rename(old, place)
        raise
    flush_names(place.parent)


def _move_in(partial: Path, place: Path) -> None:
    """Replace the files of a directory one by one, then delete files that only the old one had.

    Meanwhile the marker lists the files of both, so that the next run can replace them.
    """
    old = set((read_marker(place) or {}).get("files") or ())
    marker = read_marker(partial) or {}
    new = marker.get("files") or []
    both = partial / f"{MARKER}.both"
    write_marker(both, {**marker, "files": sorted(old.union(new))})
    os.replace(both, place / MARKER)
    for file in new:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial / file, place / file)
    for file in sorted(old.difference(new)):
        (place / file).unlink(missing_ok=True)
        remove_empty([folder for folder in (place / file).parents if folder != place])
    os.replace(partial / MARKER, place / MARKER)
    flush_names(place)
