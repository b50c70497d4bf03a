"""The rows of a batch of documents: special tokens, and word pieces between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Ints1d, Ints2d
from .pair_pieces import TextPieces
from .ragged import ranges
from .word_piece_tokenizer import PairTemplate, WordPieceTokenizer

# The stretches of a document's rows, in order. A single text has all its word pieces in the second
# text, and nothing in the first and between.
BEFORE, FIRST, BETWEEN, SECOND, AFTER = range(5)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The positions of each document's special tokens and word pieces in the batch's rows.

    Attributes:
        sizes, starts: (docs, 5) length and first row of each stretch.
        ids: (rows,) vocabulary ids.
        segments: (rows,) segment ids; None if all are zero.
    """

    sizes: Ints2d
    starts: Ints2d
    ids: Ints1d
    segments: Ints1d | None

    @property
    def row_counts(self) -> Ints1d:
        """(docs,) rows of each document."""
        return self.sizes.sum(axis=1)

    @property
    def heads(self) -> Ints1d:
        """(docs,) rows before the second text."""
        return self.sizes[:, :SECOND].sum(axis=1)

    def rows_of_pieces(self, pieces: Ints1d, counts: Ints1d) -> Ints1d:
        """The rows of word pieces, which like these count from the beginning of their document.

        `counts`, (docs,), has the number of pieces of each document, which follow each other.
        """
        doc = np.repeat(np.arange(len(counts)), counts)
        before, first, between = (self.sizes[doc, i] for i in (BEFORE, FIRST, BETWEEN))
        return pieces + before + np.where(pieces >= first, between, 0)


def lay_out(texts: TextPieces, tokenizer: WordPieceTokenizer, has_rows: np.ndarray) -> RowLayout:
    """Put the tokenizer's special tokens around the word pieces of each document.

    A document for which `has_rows`, (docs,), is false gets no rows, not even for special tokens.
    """
    pair = tokenizer.pair
    singles, pairs = has_rows & ~texts.is_pair, has_rows & texts.is_pair
    special_ids = [
        (singles, {BEFORE: tokenizer.prefix, AFTER: tokenizer.suffix}),
        (pairs, {BEFORE: pair.before, BETWEEN: pair.between, AFTER: pair.after}),
    ]
    sizes = np.zeros((len(has_rows), 5), dtype="int64")
    sizes[:, FIRST], sizes[:, SECOND] = texts.first, texts.second
    special_ids = [(chosen, ids) for chosen, ids in special_ids if chosen.any()]
    for chosen, ids in special_ids:
        for stretch, values in ids.items():
            sizes[chosen, stretch] = len(values)
    starts = np.cumsum(sizes).reshape(sizes.shape) - sizes
    rows = np.empty(int(sizes.sum()), dtype="int64")
    rows[_rows_of(starts, sizes, [FIRST, SECOND])] = texts.pieces.ids
    for chosen, ids in special_ids:
        for stretch, values in ids.items():
            rows[starts[chosen, stretch, None] + np.arange(len(values))] = values
    has_segments = pair.has_segments and pairs.any()
    segments = _segments(starts[pairs], sizes[pairs], pair, len(rows)) if has_segments else None
    return RowLayout(sizes, starts, rows, segments)


def _segments(starts: Ints2d, sizes: Ints2d, pair: PairTemplate, rows: int) -> Ints1d:
    """Segment ids, (rows,): the template's for pairs, else zeros."""
    segments = np.zeros(rows, dtype="int64")
    parts: tuple[list[int] | int, ...] = pair.segments
    for stretch, values in enumerate(parts):
        if isinstance(values, int):
            segments[_rows_of(starts, sizes, [stretch])] = values
        else:
            segments[starts[:, stretch, None] + np.arange(len(values))] = values
    return segments


def _rows_of(starts: Ints2d, sizes: Ints2d, stretches: list[int]) -> Ints1d:
    """The rows of these stretches of each document."""
    return ranges(starts[:, stretches].ravel(), sizes[:, stretches].ravel())
