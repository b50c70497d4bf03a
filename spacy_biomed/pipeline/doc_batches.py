"""Documents that are annotated together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spacy.tokens import Doc

# Tokens that are annotated together, at most: the vectors of all of them are in memory at once.
MAX_TOKENS = 8192


def batch_docs(stream: Iterable[Doc], batch_size: int) -> Iterator[list[Doc]]:
    """Batches of `batch_size` documents, and fewer where they have more than 8,192 tokens together.

    The encoder and its heads make the same ones of a stream, so that heads find in one piece what
    the encoder computed. A document that is longer is a batch of its own.
    """
    batch: list[Doc] = []
    tokens = 0
    for doc in stream:
        if batch and tokens + len(doc) > MAX_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(doc)
        tokens += len(doc)
        if len(batch) == batch_size:  # now, as the next document may be long in coming
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch
