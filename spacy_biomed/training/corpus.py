"""`spacy_biomed.Corpus.v1`: converted corpora, checked before training begins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.training.corpus import FILE_TYPE, walk_corpus
from spacy.vocab import Vocab
from srsly.msgpack import msgpack_decoders, unpackb

from ..errors import BiomedError


class CheckedCorpus(Corpus):
    """spaCy's `Corpus`, which reads its documents with `read_docs`."""

    def read_docbin(self, vocab: Vocab, locs: Iterable[str | Path]) -> Iterator[Doc]:
        docs = (doc for loc in locs for doc in read_docs(Path(loc), vocab) if len(doc))
        return islice(docs, self.limit) if self.limit >= 1 else docs


def Corpus_v1(
    path: Path | None,
    gold_preproc: bool = False,
    max_length: int = 0,
    limit: int = 0,
    augmenter: Callable | None = None,
) -> CheckedCorpus:
    """spaCy's `spacy.Corpus.v1`, which sees at once whether there is something to read.

    A missing or damaged development part is thereby found before training begins, and not at its
    first evaluation, when the pipeline of an earlier run is gone.

    path: a .spacy file, or a folder of such files.
    gold_preproc, max_length, limit, augmenter: as in spaCy.
    RAISES BiomedError: if the path is not there, or is no corpus, or has no documents.
    """
    if path is None:
        raise BiomedError(
            "a corpus has no path: fill in [paths] of the config (`python -m spacy biomed "
            "init-config` does), or give --paths.train and --paths.dev"
        )
    files = walk_corpus(path, FILE_TYPE) if Path(path).exists() else [Path(path)]
    if not files or not sum(len(read_doc_bin(file)) for file in files):
        raise BiomedError(f"{path}: no documents there; `python -m spacy biomed convert` makes it")
    return CheckedCorpus(
        path,
        gold_preproc=gold_preproc,
        max_length=max_length,
        limit=limit,
        augmenter=augmenter,
    )


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Read the documents of a .spacy file.

    Faster than `DocBin.get_docs`, which looks through the entry points of all installed packages
    for each document that has user data.

    RAISES BiomedError: if it is not there, or not such a file.
    """
    return _unpack_docs(read_doc_bin(path), vocab)


def _unpack_docs(doc_bin: DocBin, vocab: Vocab) -> Iterator[Doc]:
    packed, doc_bin.user_data = doc_bin.user_data, []
    unpack = _user_data_reader()
    for doc, user_data in zip_longest(doc_bin.get_docs(vocab), packed):
        if user_data is not None:
            doc.user_data.update(unpack(user_data))
        yield doc


def _user_data_reader() -> Callable[[bytes], dict[Any, Any]]:
    """What `srsly.msgpack_loads` does, with the registered decoders looked up once."""
    hook = None
    for decoder in msgpack_decoders.get_all().values():
        hook = functools.partial(decoder, chain=hook)
    # srsly looks them up itself unless it is given `object_pairs_hook`.
    return functools.partial(
        unpackb, raw=False, use_list=False, object_hook=hook, object_pairs_hook=None
    )


def read_doc_bin(path: Path) -> DocBin:
    """Read a .spacy file.

    RAISES BiomedError: if it is not there, or not such a file.
    """
    path = Path(path)
    if not path.is_file():
        raise BiomedError(f"{path}: no such file; `python -m spacy biomed convert` makes it")
    try:
        return DocBin().from_disk(path)
    except (OSError, ValueError) as error:
        raise BiomedError(
            f"{path}: not a readable .spacy file, or damaged; `python -m spacy biomed convert` "
            "makes it anew"
        ) from error
