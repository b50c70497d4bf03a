"""Pack several sequences into one line of a batch to reduce padding."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from ...arrays import Ints1d

# Places planned for each filled place: the ends of lines stay empty.
_SLACK = 1.1

# Lines are a multiple of this wide, so that batches of few different shapes recur. PyTorch's
# libraries prepare a kernel for each new shape on a CPU, which takes time, and keep hundreds.
_GRAIN = 32


@dataclass(frozen=True, slots=True)
class Placement:
    """The positions of the sequences in one batch.

    Attributes:
        sequences: (sequences,) indices of the sequences.
        lines: (sequences,) the line of the batch that contains each sequence.
        starts: (sequences,) its first place in that line.
        shape: number of lines of the batch, and of places in each line.
    """

    sequences: Ints1d
    lines: Ints1d
    starts: Ints1d
    shape: tuple[int, int]


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

    Args:
        lengths: (sequences,) number of places of each sequence, at least 1.
        budget: maximum places of one batch; a longer sequence gets a batch with a single line.
        longest: maximum places of a line.

    Returns:
        the batches, starting with that of the longest sequence.
    """
    order = np.argsort(-lengths, kind="stable").tolist()
    sizes = lengths.tolist()
    planned = sum(sizes) * _SLACK
    share = planned / max(math.ceil(planned / budget), 1)
    batches = []
    while order:
        width = min(math.ceil(sizes[order[0]] / _GRAIN) * _GRAIN, longest)
        most_lines = max(min(math.ceil(share / width), budget // width), 1)
        placed, order = _fill_lines(order, sizes, width, most_lines)
        sequences, lines, starts = np.array(placed, dtype="int64").T
        batches.append(Placement(sequences, lines, starts, (int(lines.max()) + 1, width)))
    return batches


def _fill_lines(
    order: list[int], sizes: list[int], width: int, most_lines: int
) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Fill the lines of one batch with sequences, the longest first.

    Returns:
        (sequence, line, start) of the sequences that fit; and the sequences that do not.
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
