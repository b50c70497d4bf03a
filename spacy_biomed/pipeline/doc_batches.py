"""Batches of documents that are annotated together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spacy.tokens import Doc

# Maximum tokens of a batch, whose vectors are all in memory at once.
MAX_TOKENS = 8192


def batch_docs(stream: Iterable[Doc], batch_size: int) -> Iterator[list[Doc]]:
    """Batches of `batch_size` documents, or fewer, so that a batch has at most 8,192 tokens.

    The encoder and its heads split a stream into the same batches, so a head gets a whole batch of
    the encoder at once. A longer document becomes a separate batch.
    """
    batch: list[Doc] = []
    tokens = 0
    for doc in stream:
        if batch and tokens + len(doc) > MAX_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(doc)
        tokens += len(doc)
        if len(batch) == batch_size:  # now, because the next document may arrive much later
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch
