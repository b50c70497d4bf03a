"""`spacy_biomed.Corpus.v1` and `NoCorpus.v1`: converted corpora, checked before training starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus, Example
from spacy.training.corpus import FILE_TYPE, walk_corpus
from spacy.vocab import Vocab

from ..annotations.layer_copies import copy_entities
from ..errors import BiomedError
from ..formats.spacy_docs import read_doc_bin, read_docs
from .sub_sentences import split_doc


def Corpus_v1(
    path: Path | list[Path] | None,
    gold_preproc: bool = False,
    max_length: int = 0,
    limit: int = 0,
    augmenter: Callable | None = None,
    max_words: int = 0,
    gold_entities: bool = False,
) -> CheckedCorpus:
    """spaCy's `spacy.Corpus.v1`, which checks at once that there are documents.

    So a missing or damaged development part is found before training starts, and not at the first
    evaluation, when the pipeline of an earlier run has already been replaced.

    Args:
        path: a .spacy file, or a folder of .spacy files; or several of these, such as the training
            and the development part, to train on both.
        gold_preproc, max_length, limit, augmenter: as in spaCy.
        max_words: maximum tokens of an example: documents of mentions are cut into sentences, and
            these into parts (`spacy_biomed.training.sub_sentences`); 0 for whole documents.
        gold_entities: whether the documents that are predicted have the gold `doc.ents`, for heads
            of relations without a component before them that finds entities.

    Raises:
        BiomedError: if a path is missing in the config, does not exist, is not a corpus, or has no
            documents, or if `max_words` is negative. While reading, if a document is damaged or
            cannot be cut.
    """
    if path is None:
        raise BiomedError(
            "a corpus has no path: fill in [paths] of the config (`python -m spacy biomed "
            "init-config` does), or give --paths.train and --paths.dev"
        )
    if max_words < 0:
        raise BiomedError(f"corpora.train.max_words is {max_words}: use 0 for no limit, or more")
    return CheckedCorpus(
        [file for one in (path if isinstance(path, list) else [path]) for file in _find_files(one)],
        max_words,
        gold_entities,
        gold_preproc=gold_preproc,
        max_length=max_length,
        limit=limit,
        augmenter=augmenter,
    )


def _find_files(path: Path) -> list[Path]:
    """The .spacy files of a path, which have documents."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[W090\]")  # the error below says more
        files = walk_corpus(path, FILE_TYPE) if Path(path).exists() else [Path(path)]
    if not files or not sum(len(read_doc_bin(file)) for file in files):
        raise BiomedError(
            f"{path}: no documents there; give .spacy files with documents, as `python -m spacy "
            "biomed convert` writes them"
        )
    return [Path(file) for file in files]


class CheckedCorpus(Corpus):
    """spaCy's corpus, which raises BiomedError for a damaged document.

    Attributes:
        files: the .spacy files.
        max_words, gold_entities: as in `Corpus_v1`.
    """

    def __init__(
        self, files: list[Path], max_words: int = 0, gold_entities: bool = False, **settings: Any
    ):
        super().__init__(files[0], **settings)
        self.files = files
        self.max_words = max_words
        self.gold_entities = gold_entities

    def __call__(self, nlp: Language) -> Iterator[Example]:
        for example in super().__call__(nlp):
            if self.gold_entities:
                copy_entities(example.reference, example.predicted)
            yield example

    def read_docbin(self, vocab: Vocab, locs: Iterable[str | Path]) -> Iterator[Doc]:
        return self.read(vocab)

    def read(self, vocab: Vocab) -> Iterator[Doc]:
        """Read the documents, or their parts of at most `max_words` tokens."""
        docs = (doc for path in self.files for doc in read_docs(path, vocab) if len(doc))
        for doc in islice(docs, self.limit if self.limit >= 1 else None):
            yield from split_doc(doc, self.max_words) if self.max_words else (doc,)


def NoCorpus_v1() -> Callable[[Language], Iterator[Example]]:
    """Create a reader without documents, for training without a development part.

    Every evaluation then has the score 0, and `model-best` is the pipeline of the last one.
    """
    return lambda nlp: iter(())


def copy_tokens(doc: Doc, vocab: Vocab) -> Doc:
    """Copy a document's tokens to another vocabulary, without annotation."""
    return Doc(
        vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
    )
