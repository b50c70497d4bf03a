"""Split documents of any length into sequences that an encoder can take."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ...arrays import Ints1d


@dataclass(frozen=True, slots=True)
class Windows:
    """Stretches of word pieces to encode, and the part of each that is kept.

    All are (windows,): doc is the document's place in the batch, the others count word pieces from
    the document's beginning. Over the windows of one document, the kept parts
    `keep_start:keep_end` cover every piece exactly once.
    """

    doc: Ints1d
    start: Ints1d
    end: Ints1d
    keep_start: Ints1d
    keep_end: Ints1d

    def __len__(self) -> int:
        return len(self.doc)

    def take(self, chosen: Ints1d) -> Windows:
        """Some of the windows, by index, in this order."""
        return Windows(*(getattr(self, field.name)[chosen] for field in fields(self)))


def make_windows(
    lengths: Ints1d,
    capacity: int | Ints1d,
    context: int | Ints1d,
    is_read: np.ndarray | None = None,
) -> Windows:
    """Cut documents into windows of at most `capacity` word pieces.

    A document that fits is one window. A longer document is cut into as few equally spaced windows
    as can overlap by `2 * context` pieces, each as short as that allows. Each piece is kept from
    the window in which it is most central, so that it has at least `context` neighbours on each
    side, as far as the document has them.

    Args:
        lengths: (docs,) word pieces in each document.
        capacity, context: a number for all documents, or (docs,).
        is_read: (docs,) whether a document gets windows; by default if it has word pieces. The
            window of a document without word pieces is empty.
    """
    if np.any(capacity <= 2 * context):
        raise ValueError(f"context ({context}) must be less than half the window ({capacity})")
    is_read = lengths > 0 if is_read is None else is_read
    stride = capacity - 2 * context
    counts = np.where(lengths > capacity, -(-(lengths - 2 * context) // stride), is_read)
    doc = np.repeat(np.arange(len(lengths)), counts)
    length, count, context = lengths[doc], counts[doc], np.broadcast_to(context, counts.shape)[doc]
    place = np.arange(len(doc)) - np.repeat(np.cumsum(counts) - counts, counts)
    size = -(-(length + 2 * context * (count - 1)) // count)
    start = place * (length - size) // np.maximum(count - 1, 1)
    end = start + size
    keep_start, keep_end = start.copy(), end.copy()
    follows = place > 0
    border = (start[follows] + end[np.flatnonzero(follows) - 1]) // 2
    keep_start[follows] = border
    keep_end[np.flatnonzero(follows) - 1] = border
    return Windows(doc, start, end, keep_start, keep_end)


def batch_by_length(lengths: Ints1d, budget: int) -> list[Ints1d]:
    """Group sequences of similar length into batches of at most `budget` padded word pieces.

    Returns:
        indices of the sequences of each batch, longest batch first, so that a budget that does not
        fit into memory fails at once. A longer sequence becomes a separate batch.
    """
    order = np.argsort(-lengths, kind="stable")
    batches: list[Ints1d] = []
    start = 0
    while start < len(order):
        size = max(int(budget // max(lengths[order[start]], 1)), 1)
        batches.append(order[start : start + size])
        start += size
    return batches
