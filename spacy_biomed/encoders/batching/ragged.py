"""Consecutive stretches of flat arrays: where they begin, and their contents."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ...arrays import Floats2d, Ints1d

Array = TypeVar("Array", Floats2d, Ints1d)


def borders(counts: Ints1d | Sequence[int]) -> Ints1d:
    """Where consecutive stretches of these lengths begin, and where the last one ends: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(counts)])


def split_at(values: Array, places: Ints1d) -> list[Array]:
    """Views of the consecutive stretches of an array between these places."""
    return [values[start:end] for start, end in pairwise(places.tolist())]


def ranges(starts: Ints1d, lengths: Ints1d) -> Ints1d:
    """Concatenate `range(start, start + length)` for all pairs: (sum of lengths,)."""
    total = int(lengths.sum())
    offsets = np.cumsum(lengths) - lengths
    return np.arange(total) + np.repeat(starts - offsets, lengths)
