"""Corpora cut into folds or cut short, which exist only while a run needs them."""

from __future__ import annotations

from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from ..annotations.document_keys import PART_OF
from ..corpora.convert import ATTRIBUTES
from ..corpora.splits import PARTS
from ..formats.spacy_docs import read_docs
from ..training.config import read_description, write_description


def write_cut_corpus(
    folder: Path, output: Path, *, folds: int | None = None, fold: int = 0, documents: int = 0
) -> None:
    """Write a fold of a converted corpus, or the first documents of its parts.

    A fold is of the training part: its texts are dealt to the folds in turn; sentences of the same
    text go to the same fold. Fold `fold` is for testing, the next one for development, and the
    others for training.

    Args:
        output: folder to write to; it is made if needed.
        folds: number of folds; None for the parts as they are.
        fold: number of the fold, from 0.
        documents: of each part, the first only; 0 for all.
    """
    if folds is None:
        parts = {part: _read(folder / f"{part}.spacy") for part in PARTS}
    else:
        parts = {part: [] for part in PARTS}
        texts: dict[object, int] = {}
        for number, doc in enumerate(_read(folder / "train.spacy")):
            text = texts.setdefault(doc.user_data.get(PART_OF, number), len(texts))
            place = (text - fold) % folds
            parts[{0: "test", 1: "dev"}.get(place, "train")].append(doc)
    output.mkdir(parents=True, exist_ok=True)
    for part, docs in parts.items():
        chosen = docs[:documents] if documents else docs
        if chosen:
            content = DocBin(attrs=ATTRIBUTES, store_user_data=True, docs=chosen)
            content.to_disk(output / f"{part}.spacy")
    write_description(output, read_description(folder))


def _read(path: Path) -> list[Doc]:
    return list(read_docs(path, Vocab())) if path.is_file() else []
