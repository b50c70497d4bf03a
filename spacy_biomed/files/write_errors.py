"""One line that says why an output cannot be written."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import BiomedError
from .temporary_names import NAME_LENGTH, TEMPORARY

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
    beside = path.is_relative_to(place.parent) and f".{place.name[:NAME_LENGTH]}." in str(path)
    # Files of a working directory have temporary names without their own (`write_part`).
    beside = beside or (path.parent == place.parent and bool(TEMPORARY.fullmatch(path.name)))
    return beside or path.is_relative_to(place) or place.is_relative_to(path)
