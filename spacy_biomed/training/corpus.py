"""`spacy_biomed.Corpus.v1`: converted corpora, checked before training starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.training.corpus import FILE_TYPE, walk_corpus
from spacy.vocab import Vocab
from srsly.msgpack import msgpack_decoders

from ..decompression import check_deflated
from ..errors import BiomedError


def Corpus_v1(
    path: Path | None,
    gold_preproc: bool = False,
    max_length: int = 0,
    limit: int = 0,
    augmenter: Callable | None = None,
) -> Corpus:
    """spaCy's `spacy.Corpus.v1`, which checks at once that there are documents.

    So a missing or damaged development part is found before training starts, and not at the first
    evaluation, when the pipeline of an earlier run has already been replaced.

    Args:
        path: a .spacy file, or a folder of .spacy files.
        gold_preproc, max_length, limit, augmenter: as in spaCy.

    Raises:
        BiomedError: if the path is missing in the config, does not exist, is no corpus, or has no
            documents; while reading, if a document is damaged.
    """
    if path is None:
        raise BiomedError(
            "a corpus has no path: fill in [paths] of the config (`python -m spacy biomed "
            "init-config` does), or give --paths.train and --paths.dev"
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[W090\]")  # the error below says more
        files = walk_corpus(path, FILE_TYPE) if Path(path).exists() else [Path(path)]
    if not files or not sum(len(read_doc_bin(file)) for file in files):
        raise BiomedError(f"{path}: no documents there; `python -m spacy biomed convert` makes it")
    return _CheckedCorpus(
        path,
        gold_preproc=gold_preproc,
        max_length=max_length,
        limit=limit,
        augmenter=augmenter,
    )


class _CheckedCorpus(Corpus):
    """spaCy's corpus, which raises BiomedError for a damaged document."""

    def read_docbin(self, vocab: Vocab, locs: Iterable[str | Path]) -> Iterator[Doc]:
        docs = (doc for path in locs for doc in read_docs(Path(path), vocab) if len(doc))
        return islice(docs, self.limit if self.limit >= 1 else None)


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Read the documents of a .spacy file.

    Raises:
        BiomedError: at once if the file does not exist or is not a .spacy file; while reading, if a
            document is damaged.
    """
    return _unpack(read_doc_bin(path), path, vocab)


def _unpack(doc_bin: DocBin, path: Path, vocab: Vocab) -> Iterator[Doc]:
    docs = doc_bin.get_docs(vocab)
    while True:
        with _explaining_damage(path):
            doc = next(docs, None)
        if doc is None:
            return
        yield doc


def read_doc_bin(path: Path) -> DocBin:
    """Read a .spacy file.

    Raises:
        BiomedError: if the file does not exist, is not a .spacy file, or becomes too large when it
            is decompressed (`spacy_biomed.decompression`).
    """
    find_decoders_once()
    path = Path(path)
    if not path.is_file():
        raise BiomedError(f"{path}: no such file; `python -m spacy biomed convert` makes it")
    with _explaining_damage(path):
        content = path.read_bytes()
        check_deflated(content, path)
        return DocBin().from_bytes(content)


def copy_tokens(doc: Doc, vocab: Vocab) -> Doc:
    """Copy a document's tokens to another vocabulary, without annotation."""
    return Doc(
        vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
    )


@contextmanager
def _explaining_damage(path: Path) -> Iterator[None]:
    """Convert any error to the message that the file is damaged, since spaCy does not check it."""
    try:
        yield
    except BiomedError:
        raise
    except Exception as error:
        raise BiomedError(
            f"{path}: not a readable .spacy file, or damaged; `python -m spacy biomed convert` "
            "writes it again"
        ) from error


def find_decoders_once() -> None:
    """Register the MessagePack decoders of installed packages, so that srsly does not search them.

    srsly searches the entry points of all packages for each object it unpacks, several times for a
    document with user data or span groups. This takes most of the time for reading a corpus.
    """
    if msgpack_decoders.entry_points:
        for name, decoder in msgpack_decoders.get_entry_points().items():
            msgpack_decoders.register(name, func=decoder)
        msgpack_decoders.entry_points = False
