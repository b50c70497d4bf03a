"""Corpora in the zip file that their authors publish, unpacked while they are read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ..errors import BiomedError
from ..formats.archives import list_packed_files
from .corpus_catalogue import CorpusEntry

SUFFIXES = (".ann", ".json", ".tsv", ".txt", ".xml")


@contextmanager
def unpacking(entry: CorpusEntry | None, source: Path) -> Iterator[Path]:
    """Find the folder with the files of a corpus, in a zip file where the folder has only that.

    Errors inside name its files as in the zip file.
    """
    first = next((path for paths in entry.splits.values() for path in paths), "") if entry else ""
    archives = sorted(source.glob("*.zip")) if first and not (source / first).exists() else []
    if len(archives) != 1:
        yield source
        return
    with tempfile.TemporaryDirectory() as scratch:
        for file in list_packed_files(archives[0], SUFFIXES):
            name = PurePosixPath(*file.name.parts[1:])
            if name.is_absolute() or ".." in name.parts:
                continue
            place = Path(scratch, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read())
        found = next((path for path in Path(scratch).rglob(first) if path.exists()), None)
        root = found.parents[len(PurePosixPath(first).parts) - 1] if found else source
        try:
            yield root
        except BiomedError as error:
            raise BiomedError(str(error).replace(scratch, str(source))) from None
