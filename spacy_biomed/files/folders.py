"""Find the files of a folder, and name whatever in it cannot be read."""

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import BiomedError

# Endings of compressed files.
_PACKED = frozenset({"gz", "xz", "zst", "bz2", "zip", "7z", "lz4", "lzma", "rar", "z", "br"})


class FoundFile(NamedTuple):
    """A file in or below a folder, or what is there and cannot be read.

    Attributes:
        name: path within the folder, with slashes.
        error: why it cannot be read; "" for a file.
    """

    name: str
    error: str = ""


def find_files(folder: Path, is_wanted: Callable[[str], bool]) -> list[FoundFile]:
    """Find the files in and below a folder that are wanted by their names, in order of their paths.

    Links to files are followed. Links to folders are not: they may lead in a circle. Names that
    begin with a dot are left out. Entries that cannot be read have an error: folders without
    permission, links to folders or to nothing, pipes or devices, and wanted files in a compression
    that is not.
    """
    found: list[FoundFile] = []
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            entries = list(os.scandir(folder / prefix))
        except OSError as error:
            found.append(FoundFile(prefix or ".", f"cannot be read: {error.strerror}"))
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            name = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif (problem := _judge(entry, is_wanted)) is not None:
                found.append(FoundFile(name, problem))
    return sorted(found, key=lambda one: PurePosixPath(one.name).parts)


def list_files(folder: Path, is_wanted: Callable[[str], bool], missing: str) -> list[Path]:
    """The paths of what `find_files` finds, all of which can be read; `missing` is said of none."""
    found = find_files(folder, is_wanted)
    for name, error in found:
        if error:
            raise BiomedError(f"{folder / name}: {error}")
    if not found:
        raise BiomedError(f"{folder}: {missing}")
    return [folder / name for name, _ in found]


def tell_unread(folder: Path, is_wanted: Callable[[str], bool]) -> None:
    """Print how many files in and below a folder are not wanted, by the endings of their names.

    Names that begin with `_` or `~` are other programs' marks. A long ending may be part of a name
    that tells who somebody is. For a file it prints nothing.
    """
    if not folder.is_dir():
        return
    known = {one.name for one in find_files(folder, is_wanted)}  # also those in other compression
    others = [one.name for one in find_files(folder, lambda name: name[0] not in "_~")]
    names = [Path(name).suffix.lower() for name in others if name not in known]
    endings = Counter(one if re.fullmatch(r"\.\w{1,8}", one) else "others" for one in names)
    if endings:
        listed = ", ".join(f"{count:,} {ending}" for ending, count in endings.most_common(8))
        print(f"⚠ {folder}: files that are not read, by their endings: {listed}", file=sys.stderr)


def _judge(entry: os.DirEntry[str], is_wanted: Callable[[str], bool]) -> str | None:
    """Why an entry that is not a folder cannot be read; "" if it can; None if nobody wants it."""
    try:
        mode = entry.stat().st_mode
    except OSError as error:
        return f"a link that leads nowhere: {error.strerror}" if entry.is_symlink() else None
    if stat.S_ISDIR(mode):
        return "a link to a folder, which is not followed: give that folder by itself"
    if not is_wanted(entry.name):
        plain, _, ending = entry.name.rpartition(".")
        is_packed = ending.lower() in _PACKED and is_wanted(plain)
        return "compressed in a form that is not read here: unpack it" if is_packed else None
    return "" if stat.S_ISREG(mode) else "not a regular file, but a pipe, a socket or a device"
