"""Corpora cut into folds or cut short, which exist only while a run needs them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from ..annotations.document_keys import PART_OF
from ..corpora.convert import ATTRIBUTES
from ..corpora.splits import PARTS
from ..formats.spacy_docs import read_docs
from ..training.config import read_description, write_description


@dataclass(frozen=True, slots=True)
class CorpusOfRun:
    """A converted corpus as a run reads it: whole, a fold of it, or its first documents.

    A fold is of the training part: its texts are dealt to the folds in turn; sentences of the same
    text go to the same fold. Fold `fold` is for testing, the next one for development, and the
    others for training.

    Attributes:
        folder: of the corpus, or of a fold that was published.
        digest: a hash of its files.
        folds: number of folds; None for the parts as they are.
        fold: number of the fold, from 0.
        documents: of each part, the first only; 0 for all.
    """

    folder: Path
    digest: str
    folds: int | None = None
    fold: int = 0
    documents: int = 0

    @property
    def is_cut(self) -> bool:
        return bool(self.folds or self.documents)

    def place(self, output: Path) -> Path:
        """The folder with the parts to read: `output`, which is written, for a corpus that is cut.

        The parts of a whole corpus are where they are.
        """
        if not self.is_cut:
            return self.folder
        if self.folds is None:
            parts = {part: _read(self.folder / f"{part}.spacy") for part in PARTS}
        else:
            parts = {part: [] for part in PARTS}
            texts: dict[object, int] = {}
            for number, doc in enumerate(_read(self.folder / "train.spacy")):
                text = texts.setdefault(doc.user_data.get(PART_OF, number), len(texts))
                place = (text - self.fold) % self.folds
                parts[{0: "test", 1: "dev"}.get(place, "train")].append(doc)
        output.mkdir(parents=True, exist_ok=True)
        for part, docs in parts.items():
            chosen = docs[: self.documents] if self.documents else docs
            if chosen:
                content = DocBin(attrs=ATTRIBUTES, store_user_data=True, docs=chosen)
                content.to_disk(output / f"{part}.spacy")
        write_description(output, read_description(self.folder))
        return output


def _read(path: Path) -> list[Doc]:
    return list(read_docs(path, Vocab())) if path.is_file() else []
