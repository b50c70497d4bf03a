"""Output that appears whole or not at all, and takes the place of nothing but its own kind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import BiomedError


@contextmanager
def replacing_directory(output: Path, sign: str) -> Iterator[Path]:
    """Give an empty directory to write to; it becomes `output` once everything is written.

    output: directory to write; replaced if it is there.
    sign: file that every directory of this kind has. A directory with other things in it is left
        alone.
    RAISES BiomedError: if output is a file, holds something else, or cannot be written.
    """
    if output.exists() and not output.is_dir():
        raise BiomedError(f"{output}: this is a file; name a directory to write to")
    if output.is_dir() and any(output.iterdir()) and not (output / sign).is_file():
        raise BiomedError(
            f"{output}: holds other things (no {sign} among them), which are not to be replaced; "
            "name another directory"
        )
    place = output.resolve()
    partial = place.with_name(place.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    except OSError as error:
        raise _cannot_write(output, error) from error
    try:
        yield partial
        shutil.rmtree(place, ignore_errors=True)
        os.replace(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def replacing_file(output: Path) -> Iterator[Path]:
    """Give the path of a file to write; it becomes `output` once everything is written.

    RAISES BiomedError: if output is a directory or cannot be written.
    """
    if output.is_dir():
        raise BiomedError(f"{output}: this is a directory; name a file to write to")
    partial = output.with_name(output.name + ".partial")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
    except OSError as error:
        raise _cannot_write(output, error) from error
    try:
        yield partial
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def _cannot_write(output: Path, error: OSError) -> BiomedError:
    return BiomedError(
        f"{output}: cannot be written ({error.strerror}: {error.filename}); name another place"
    )
