"""Batches by the number of word pieces, or of the sequences that an encoder reads."""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.batchers import BatcherT
from spacy.util import minibatch

from ..arrays import Ints1d
from ..encoders.batching.windows import make_windows
from ..encoders.loading import load_tokenizer
from ..errors import BiomedError

# A number of word pieces or sequences, and the example or document.
Counted = tuple[int, Example | Doc]

# Texts to tokenize at a time: enough for all cores, but without reading far ahead.
_TEXTS_AT_A_TIME = 1024


def batch_by_word_pieces_v1(
    encoder: str,
    size: int,
    buckets: int,
    discard_oversize: bool = False,
    revision: str | None = None,
) -> BatcherT:
    """Create a batcher that limits the number of word pieces in a batch.

    Args:
        encoder: catalogue name, hub id or directory; its tokenizer is loaded for the first batch.
        size: maximum word pieces in a batch, special tokens included. A longer example becomes a
            separate batch.
        buckets: number of batches whose examples are pooled and sorted by length, to reduce
            padding, and which are then shuffled; 0 to keep the order of the examples.
        discard_oversize: leave out examples that are longer than `size`.
        revision: commit, branch or tag on the hub; by default the catalogue's.

    Raises:
        BiomedError: if `size` or `buckets` is too small; from the batcher, if the tokenizer cannot
            be loaded, or no example is left.
    """
    if size < 1:
        raise BiomedError(f"training.batcher.size is {size}: a batch takes at least 1 word piece")
    if buckets < 0:
        raise BiomedError(f"training.batcher.buckets is {buckets}: use 0 for none, or more")
    load = cache(partial(load_tokenizer, encoder, revision))

    def batch(examples: Iterable[Example | Doc]) -> Iterator[list[Example | Doc]]:
        tokenizer = load()
        special = len(tokenizer.prefix) + len(tokenizer.suffix)
        counted = _count(examples, lambda texts: tokenizer(texts).lengths + special)
        if discard_oversize:
            counted = (item for item in counted if item[0] <= size)
        batches = _sort_by_length(counted, size, buckets) if buckets else _cut(counted, size)
        empty = True
        for chosen in batches:
            empty = False
            yield [example for _, example in chosen]
        if empty:  # otherwise spaCy would request batches forever
            raise BiomedError(
                f"training.batcher.size is {size}: all examples have more word pieces; raise it, "
                "or set discard_oversize = false"
            )

    return batch


def batch_by_sequences_v1(
    encoder: str, size: int, window: int = 512, context: int = 64, revision: str | None = None
) -> BatcherT:
    """Create a batcher that limits the number of sequences in a batch.

    A document is as many sequences as it has windows of the encoder. If all are shorter than a
    window, `spacy.batch_by_sequence.v1` makes the same batches and needs no tokenizer.

    Args:
        encoder, window, context, revision: as in `spacy_biomed.TransformerModel.v1`.
        size: maximum sequences in a batch. A document of more becomes a separate batch.

    Raises:
        BiomedError: if `size` or `window` is too small; from the batcher, if the tokenizer cannot
            be loaded.
    """
    if size < 1:
        raise BiomedError(f"training.batcher.size is {size}: a batch takes at least 1 sequence")
    if context < 0 or window <= 2 * context + 8:  # and its special tokens
        raise BiomedError(
            f"training.batcher.window is {window}: use more than twice the context, {context}"
        )
    load = cache(partial(load_tokenizer, encoder, revision))

    def batch(examples: Iterable[Example | Doc]) -> Iterator[list[Example | Doc]]:
        tokenizer = load()
        longest = window - len(tokenizer.prefix) - len(tokenizer.suffix)

        def count_windows(texts: list[str]) -> Ints1d:
            windows = make_windows(tokenizer(texts).lengths, longest, context)
            return np.maximum(np.bincount(windows.doc, minlength=len(texts)), 1)

        for chosen in _cut(_count(examples, count_windows), size):
            yield [example for _, example in chosen]

    return batch


def _count(
    examples: Iterable[Example | Doc], count: Callable[[list[str]], Ints1d]
) -> Iterator[Counted]:
    """Yield each example with what is counted in the text of its predicted document."""
    for some in minibatch(examples, _TEXTS_AT_A_TIME):
        docs = [item.predicted if isinstance(item, Example) else item for item in some]
        yield from zip(count([doc.text for doc in docs]).tolist(), some, strict=True)


def _cut(counted: Iterable[Counted], size: int) -> Iterator[list[Counted]]:
    """Split into runs of at most `size` in total, or a single longer example."""
    run: list[Counted] = []
    total = 0
    for length, example in counted:
        if run and total + length > size:
            yield run
            run, total = [], 0
        run.append((length, example))
        total += length
    if run:
        yield run


def _sort_by_length(counted: Iterable[Counted], size: int, buckets: int) -> Iterator[list[Counted]]:
    """Split into batches of examples of similar length, one pool after the other.

    The order depends on a single number from the module `random`. So it does not change if other
    code draws from there while the batches are used.
    """
    generator = random.Random(random.getrandbits(64))
    for pool in _cut(counted, buckets * size):
        pool.sort(key=lambda item: item[0])
        batches = list(_cut(pool, size))
        generator.shuffle(batches)
        yield from batches
