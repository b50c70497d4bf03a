"""Split documents into sequences that an encoder can take, and place these in the lines of batches.

Several sequences may share a line, to reduce padding.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...arrays import Ints1d

# Places planned for each filled place: the ends of lines stay empty.
_SLACK = 1.1

# Lines are a multiple of this wide, so that batches of few different shapes recur. PyTorch's
# libraries prepare a kernel for each new shape on a CPU, which takes time, and keep hundreds.
_GRAIN = 32


class Windows(NamedTuple):
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

    def take(self, chosen: Ints1d) -> Windows:
        """Some of the windows, by index, in this order."""
        return Windows(*(part[chosen] for part in self))


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

    `lengths`, (docs,), are word pieces; `capacity` and `context` are numbers or (docs,). `is_read`,
    (docs,), says whether a document gets windows, by default if it has word pieces. The window of
    a document without word pieces is empty.
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
    follows = np.flatnonzero(place)
    keep_start[follows] = keep_end[follows - 1] = (start[follows] + end[follows - 1]) // 2
    return Windows(doc, start, end, keep_start, keep_end)


def batch_by_length(lengths: Ints1d, budget: int) -> list[Ints1d]:
    """The indices of sequences of similar length, in batches of at most `budget` padded pieces.

    The longest batch is the first, so that a budget that does not fit into memory fails at once. A
    longer sequence becomes a separate batch.
    """
    order = np.argsort(-lengths, kind="stable")
    batches: list[Ints1d] = []
    start = 0
    while start < len(order):
        size = max(int(budget // max(lengths[order[start]], 1)), 1)
        batches.append(order[start : start + size])
        start += size
    return batches


@dataclass(frozen=True, slots=True)
class Placement:
    """The positions of the sequences in one batch."""

    sequences: Ints1d  # (sequences,) indices of the sequences
    lines: Ints1d  # (sequences,) the line of the batch that contains each of them
    starts: Ints1d  # (sequences,) its first place in that line
    shape: tuple[int, int]  # number of lines, and of places in each


def one_a_line(sequences: Ints1d, lengths: Ints1d) -> Placement:
    """Place each sequence at the beginning of a separate line, by the lengths of all sequences."""
    lines = np.arange(len(sequences))
    shape = len(sequences), int(lengths[sequences].max())
    return Placement(sequences, lines, np.zeros_like(sequences), shape)


def pack_by_length(lengths: Ints1d, budget: int, longest: int) -> list[Placement]:
    """Pack sequences into lines about as wide as the longest sequence of their batch.

    Best fit by decreasing length (Johnson et al. 1974, "Worst-case performance bounds for simple
    one-dimensional packing algorithms"): each sequence goes into the fullest line that has room.
    The batches are about equally large.

    `lengths`, (sequences,), are at least 1, `budget` is the most places of a batch with several
    lines, and `longest` of a line. The batch of the longest sequence is the first.
    """
    order = np.argsort(-lengths, kind="stable").tolist()
    sizes = lengths.tolist()
    planned = sum(sizes) * _SLACK
    share = planned / max(math.ceil(planned / budget), 1)
    batches = []
    while order:
        width = min(math.ceil(sizes[order[0]] / _GRAIN) * _GRAIN, longest)
        most_lines = max(min(math.ceil(share / width), budget // width), 1)
        rooms = [(width, line) for line in range(most_lines)]  # places left, the fullest line first
        placed, left = [], []
        for sequence in order:
            size = sizes[sequence]
            fitting = bisect_left(rooms, (size, 0))
            if fitting == len(rooms):
                left.append(sequence)
                continue
            room, line = rooms.pop(fitting)
            placed.append((sequence, line, width - room))
            insort(rooms, (room - size, line))
        sequences, lines, starts = np.array(placed, dtype="int64").T
        batches.append(Placement(sequences, lines, starts, (int(lines.max()) + 1, width)))
        order = left
    return batches
