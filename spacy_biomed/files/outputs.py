"""Write outputs atomically, and replace only earlier outputs of the same command.

An output is written next to its final place under a temporary name, until it is complete and
flushed to disk. Then the old output is renamed, the new output is renamed to its final name, and
the old output is deleted. If anything fails, or the process is killed, one of the two is complete,
and the next run with the same output restores it. A lock keeps other processes out.

A command that can be resumed writes one part after the other into a working directory.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..errors import BiomedError
from .output_places import (
    IN_PLACE,
    MARKER,
    TemporaryNames,
    check_is_ours,
    check_output,
    check_replaceable,
    describe_output,
    explaining_errors,
    flush_file,
    flush_names,
    flush_tree,
    keeping_output,
    list_entries,
    list_files,
    locked_place,
    read_marker,
    remove_empty,
    resolve_links,
    restore_output,
    write_marker,
    writing_partial,
)

# What a run notes beside its results. Readers of a folder leave these files out.
RUN_FILES = MANIFEST, FINISHED, ERRORS = "_manifest.json", "_finished.jsonl", "_errors.jsonl"


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
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        # A bind mount of a folder of the same file system is not recognised as a mount point.
        inside = TemporaryNames(place, IN_PLACE)
        copied = inside.fresh("partial")
        shutil.copytree(partial, copied)
        flush_tree(copied)
        _move_in(copied, place)
        inside.remove_leftovers()
        return
    try:
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
