"""Directories in which a command that can be resumed writes one part after the other."""

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
    describe_output,
    discarding,
    explaining_errors,
    flush_file,
    flush_names,
    flush_tree,
    list_entries,
    locked_place,
    resolve_links,
    write_marker,
)

# What a run notes beside its results. Readers of a folder leave these files out.
RUN_FILES = MANIFEST, FINISHED, ERRORS = "_manifest.json", "_finished.jsonl", "_errors.jsonl"


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
