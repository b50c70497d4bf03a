"""The corpora that a study needs, converted from the files that are here or can be downloaded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..corpora.convert import convert_corpus
from ..corpora.corpus_catalogue import CorpusEntry, find_corpus
from ..corpora.downloads import download_corpus
from ..errors import BiomedError
from .planning import find_folder
from .study_config import GIVEN_FOLDS, Study


def prepare_corpora(
    study: Study,
    corpora_dir: Path,
    assets_dir: Path,
    progress: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Convert the catalogue's corpora of a study that are not converted yet.

    Corpora whose files no command downloads, and which are not here, are passed over: `plan_study`
    names them. A corpus that fails does not keep the others from being converted.

    Args:
        assets_dir: folder of the published files.
        progress: called with the folder of each corpus before it is converted.

    Raises:
        BiomedError: as `download_corpus` and `convert_corpus` do for the first corpus that failed,
            after the last corpus, with the names of the others that failed.
    """
    failures: dict[str, BiomedError] = {}
    for name, section in study.corpora.items():
        entry = None
        with suppress(BiomedError):
            entry = find_corpus(section.source or name)
        if entry is None:
            continue
        output = find_folder(study, name, corpora_dir)
        own = assets_dir / (section.folder or "")
        source = own if section.folder and own.is_dir() else entry.find_files(assets_dir)
        folds = [""]
        if section.folds == GIVEN_FOLDS:
            folds = [path.name for path in source.glob("*") if path.name.isdecimal()]
        for fold in folds:
            if (output / fold / "corpus.json").is_file():
                continue
            try:
                if _are_there(entry, source / fold):
                    progress(output / fold)
                    convert_corpus(entry.name, source / fold, output / fold)
            except BiomedError as error:
                failures.setdefault(entry.name, error)
    if failures:
        (_, first), *others = failures.items()
        too = f"; {', '.join(name for name, _ in others)} failed too" if others else ""
        raise BiomedError(f"{first}{too}") from first


def _are_there(entry: CorpusEntry, source: Path) -> bool:
    """Whether the files of a corpus are here; they are downloaded if a command can do so."""
    if entry.format is None:
        return False
    if entry.access == "download" and not source.is_dir():
        download_corpus(entry, source)
    return source.is_dir()
