"""Several sequences in one line of a batch, so that little of it is padding."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
from thinc.types import Ints1d

# Places planned for each one that is filled: the ends of lines stay empty.
_SLACK = 1.1


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the sequences of one batch lie.

    sequences: (sequences,) which ones they are.
    lines: (sequences,) the line of the batch that each lies in.
    starts: (sequences,) its first place in that line.
    shape: lines of the batch, and places in each.
    """

    sequences: Ints1d
    lines: Ints1d
    starts: Ints1d
    shape: tuple[int, int]


def one_a_line(sequences: Ints1d, lengths: Ints1d) -> Placement:
    """Each sequence at the beginning of a line of its own.

    lengths: of all sequences, also of those of other batches.
    """
    lines = np.arange(len(sequences))
    shape = len(sequences), int(lengths[sequences].max())
    return Placement(sequences, lines, np.zeros_like(sequences), shape)


def pack_by_length(lengths: Ints1d, budget: int) -> list[Placement]:
    """Lay sequences one after the other into lines as wide as the longest of their batch.

    Best fit by decreasing length (Johnson et al. 1974, "Worst-case performance bounds for simple
    one-dimensional packing algorithms"): each goes into the fullest line that has room for it. The
    batches are about equally large.

    lengths: (sequences,) places that each needs, at least 1.
    budget: most places of one batch; a sequence longer than it is a batch of its own.
    RETURNS: the batches, that of the longest sequence first.
    """
    order = np.argsort(-lengths, kind="stable").tolist()
    sizes = lengths.tolist()
    planned = sum(sizes) * _SLACK
    share = planned / max(math.ceil(planned / budget), 1)
    batches = []
    while order:
        width = sizes[order[0]]
        most_lines = max(min(math.ceil(share / width), budget // width), 1)
        placed, order = _fill_lines(order, sizes, width, most_lines)
        sequences, lines, starts = np.array(placed, dtype="int64").T
        batches.append(Placement(sequences, lines, starts, (int(lines.max()) + 1, width)))
    return batches


def _fill_lines(
    order: list[int], sizes: list[int], width: int, most_lines: int
) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Fill the lines of one batch.

    order: sequences, the longest first.
    RETURNS: (sequence, line, start) of those that found room; and those that did not.
    """
    placed: list[tuple[int, int, int]] = []
    left: list[int] = []
    rooms: list[tuple[int, int]] = []  # (places left, line), the fullest first
    lines = 0
    for i, sequence in enumerate(order):
        size = sizes[sequence]
        fitting = bisect_left(rooms, (size, 0))
        if fitting < len(rooms):
            room, line = rooms.pop(fitting)
        elif lines < most_lines:
            room, line = width, lines
            lines += 1
        else:
            left.append(sequence)
            if not rooms:
                return placed, left + order[i + 1 :]
            continue
        placed.append((sequence, line, width - room))
        if room > size:
            insort(rooms, (room - size, line))
    return placed, left
