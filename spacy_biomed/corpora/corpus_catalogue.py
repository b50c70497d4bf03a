"""The corpora that the package knows by name, read from `corpus_catalogue.json`."""

import json
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import BiomedError, add_hint, suggest


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """A corpus in the catalogue.

    Attributes:
        name: identifier, lower case with underscores; the corpus lies in `assets/NAME/`.
        aliases: other names that `find_corpus` accepts.
        task: "ner", "deidentification", "textcat_multilabel", "relations", "pair_classification",
            "similarity", "qa" or "assertion".
        language: ISO 639-1 code.
        labels: as the corpus writes them; empty if its owners publish no list.
        splits: "train", "dev" and "test" to paths relative to the corpus folder, as published. A
            part that is not published has no key; a corpus published undivided has the single key
            "all". Empty if the owners' layout is unknown.
        split_sizes: part to its content, in words ("923 sentences, 787 mentions").
        metric: how the papers score it.
        source: the owners' page, or who they are.
        access: "download" (`downloads.download_corpus`), "by hand" (public, but no command can
            download it, see `instructions`), "data use agreement" (files come from the owners, see
            `instructions`) or "ships" (comes with the project).
        instructions: where to put files that cannot be downloaded; "" if nothing is to be done.
        papers: which of the five papers evaluate on it, numbered as in `docs/corpora.md`.
        format: the reader, see `formats.list_formats`; None if there is no reader for it.
        drop_repeats: whether the published parts share texts; conversion then leaves out of a part
            the texts of the parts before it.
        of: the corpus whose files these are, if this is a task that papers make of them; "" for
            a corpus of its own. What an entry does not say is as in that corpus.
        conversion: how the task is made of the files: `labels`, `map`, `sentences`, `pairs`
            and `on_error` of `convert_corpus`.
        part_ids: of a corpus in one piece, the ids of the documents of each part but train.
        repository, commit: a public git repository with the files, and the commit to use.
        repository_paths: path in the corpus folder ("." is the folder itself) to path in
            `repository`.
        sha256: path in the corpus folder to the checksum of the file (`files.digests.hash_file`) or
            folder (`digest_files`). What has none is checked by `commit` alone.
    """

    name: str
    title: str
    task: str
    language: str
    labels: tuple[str, ...]
    splits: dict[str, tuple[str, ...]]
    metric: str
    licence: str
    source: str
    access: str
    aliases: tuple[str, ...] = ()
    split_sizes: dict[str, str] = field(default_factory=dict)
    instructions: str = ""
    papers: tuple[int, ...] = ()
    format: str | None = None
    drop_repeats: bool = False
    of: str = ""
    conversion: dict[str, Any] = field(default_factory=dict)
    part_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    repository: str | None = None
    commit: str | None = None
    repository_paths: dict[str, str] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    notes: str = ""

    @property
    def folder(self) -> str:
        """The folder of its files in `assets/`."""
        return self.of or self.name

    def find_files(self, assets_dir: Path) -> Path:
        """The folder of its files; `ddi2013` is found as well as `ddi_2013`.

        Returns:
            `assets_dir / folder` if there is no such folder.
        """
        named = assets_dir / self.folder
        if named.is_dir() or not assets_dir.is_dir():
            return named
        names = {_normalise(name) for name in (self.folder, *self.aliases)}
        return next(
            (one for one in sorted(assets_dir.iterdir()) if _normalise(one.name) in names), named
        )


@cache
def all_corpora() -> tuple[CorpusEntry, ...]:
    """Every corpus of the catalogue: those of the papers, MEDDOCAN, COVID-QA, the starters."""
    from pydantic import TypeAdapter

    text = files(__package__).joinpath("corpus_catalogue.json").read_text(encoding="utf-8")
    corpora = {values["name"]: values for values in json.loads(text)["corpora"]}
    own: dict[str, object] = {"aliases": [], "papers": [], "split_sizes": {}}
    whole = [
        {**corpora[values["of"]], **own, **values} if "of" in values else values
        for values in corpora.values()
    ]
    return TypeAdapter(tuple[CorpusEntry, ...]).validate_python(whole)


def find_corpus(name: str) -> CorpusEntry:
    """Find the entry of a name; case, hyphens, spaces and common aliases do not matter.

    Raises:
        BiomedError: if the name is unknown; the message gives similar names.

    Examples:
        >>> find_corpus("NCBI-Disease").name
        'ncbi_disease'
    """
    for entry in all_corpora():
        if _normalise(name) in map(_normalise, (entry.name, *entry.aliases)):
            return entry
    problem = (
        f"no corpus named '{name}' in the catalogue: `python -m spacy biomed corpora` lists them "
        "all; `convert` takes your own with --format, such as brat, columns or jsonl"
    )
    raise BiomedError(add_hint(problem, suggest(name, [entry.name for entry in all_corpora()])))


def _normalise(name: str) -> str:
    """Normalise a name: 'i2b2-2010', 'I2B2 2010' and 'i2b2_2010' are the same."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
