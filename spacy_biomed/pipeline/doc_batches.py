"""Batches of documents that are annotated together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spacy.tokens import Doc

# Maximum tokens of a batch, whose vectors are all in memory at once.
MAX_TOKENS = 8192


def batch_docs(
    stream: Iterable[Doc], batch_size: int, max_tokens: int = MAX_TOKENS
) -> Iterator[list[Doc]]:
    """Split a stream of documents into batches.

    With the same arguments the encoder and its heads make the same batches, so a head gets a whole
    batch of the encoder at once.

    Args:
        batch_size: documents in a batch.
        max_tokens: tokens of all documents of a batch. A longer document is a separate batch.
    """
    batch: list[Doc] = []
    tokens = 0
    for doc in stream:
        if batch and tokens + len(doc) > max_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(doc)
        tokens += len(doc)
        if len(batch) == batch_size:  # now, because the next document may arrive much later
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch
