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
from collections.abc import Iterable, Iterator
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
    discarding,
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
)

# What a run notes beside its results. Readers of a folder leave these files out.
RUN_FILES = MANIFEST, FINISHED, ERRORS = "_manifest.json", "_finished.jsonl", "_errors.jsonl"


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
    place = resolve_links(output)
    with locked_place(output, place, stays=_must_stay(place)) as beside:
        # Checked again: another process may have written here before the lock.
        check_replaceable(output, made_by, sources)
        partial = beside.fresh("partial")
        with discarding(partial), explaining_errors(output):
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
    place = resolve_links(output)
    with locked_place(output, place) as beside:
        partial = beside.fresh("partial")
        with discarding(partial), explaining_errors(output):
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
    """Append a text in UTF-8 to a file, which is created if missing, and flush it to disk.

    Raises:
        BiomedError: if it cannot be written. A part of the text may have been.
    """
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
    """Delete a command's directory, if it exists.

    Raises:
        BiomedError: if the command did not make it, or it cannot be deleted.
    """
    if not path.exists():
        return
    check_is_ours(path, made_by, ())
    delete_directory(path)


def delete_directory(path: Path) -> None:
    """Delete a directory with its content, without a check; only for parts of output directories.

    A marker is deleted last: without it, what is left after an error or a kill would be refused.

    Raises:
        BiomedError: if it cannot be deleted.
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
def locked_directory(path: Path) -> Iterator[None]:
    """Lock a directory within the context, for a command that replaces its parts one by one.

    The directory is created if it does not exist, and then deleted at the end if it is empty.

    Raises:
        BiomedError: if it is a file, cannot be created, or is locked by another process.
    """
    if path.exists() and not path.is_dir():
        raise BiomedError(f"{path}: this is a file; name a directory to write to")
    with locked_place(path, resolve_links(path), stays=True):
        yield


@contextmanager
def working_directory(
    path: Path, made_by: str, sources: Iterable[Path | str] = ()
) -> Iterator[None]:
    """Lock a working directory within the context, for a command that can be resumed.

    The directory is created if it does not exist, and then deleted at the end if it is empty.

    Args:
        sources: files and directories that the command reads.

    Raises:
        BiomedError: as in `replacing_directory`, but the directory may have any files if the same
            command made it.
    """
    sources = list(sources)
    check_is_ours(path, made_by, sources)
    with locked_place(path, resolve_links(path), stays=True) as beside:
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
    """Create a directory with a marker, so that a command may change, replace and delete it.

    Raises:
        BiomedError: if it has files and no marker of the command, or cannot be written.
    """
    sources = list(sources)
    if check_is_ours(path, made_by, sources) is None:
        with explaining_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            # Written atomically: an incomplete marker would make the directory unusable.
            partial = TemporaryNames(path, IN_PLACE).fresh("partial")
            with discarding(partial):
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


def write_part(directory: Path, name: str, content: bytes) -> None:
    """Write or replace a file of a working directory that this process, or its parent, has locked.

    If the process is killed, `working_directory` deletes the incomplete file. Several processes may
    write the same content.

    Args:
        name: relative path of the file, whose folders are created.

    Raises:
        BiomedError: if it cannot be written; then an earlier file is unchanged.
    """
    place = directory / name
    partial = TemporaryNames(directory, IN_PLACE).fresh("partial")
    with explaining_errors(place), discarding(partial):
        partial.write_bytes(content)
        flush_file(partial)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, place)
        flush_names(place.parent)


def write_part_folder(directory: Path, name: str, files: dict[str, bytes]) -> None:
    """Write or replace a folder of a working directory; see `write_part`.

    Args:
        files: content by the name of the file in the folder.

    Raises:
        BiomedError: if it cannot be written.
    """
    place = directory / name
    names = TemporaryNames(directory, IN_PLACE)
    partial = names.fresh("partial")
    with explaining_errors(place), discarding(partial):
        partial.mkdir()
        for file, content in files.items():
            (partial / file).write_bytes(content)
        flush_tree(partial)
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
        flush_names(directory)


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
