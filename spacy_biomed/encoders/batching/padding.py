"""The rows of a batch of documents, and padded batches of sequences that are filled with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Ints1d, Ints2d
from .pair_pieces import TextPieces
from .ragged import borders, ranges, split_at
from .windows import Placement, Windows
from .word_piece_tokenizer import PairTemplate, WordPieceTokenizer

# The stretches of a document's rows, in order. A single text has all its word pieces in the second
# text, and nothing in the first and between.
BEFORE, FIRST, BETWEEN, SECOND, AFTER = range(5)

# The three stretches of rows that a window reads: everything before the (second) text of its
# document, a part of that text, and the special tokens after it.
HEAD, TEXT, TAIL = range(3)


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


@dataclass(frozen=True, slots=True)
class SequenceBatch:
    """Sequences of similar length, padded together, one or several per line.

    Attributes:
        ids, mask: (lines, pieces) vocabulary ids and attention mask.
        kept: (kept,) places in the flattened batch whose vectors are used.
        rows: (kept,) the rows of the batch of documents that these fill.
        segments: (lines, pieces) segment ids; None if all are zero.
        shared: the layout if lines have several sequences; None if each has one.
    """

    ids: Ints2d
    mask: Ints2d
    kept: Ints1d
    rows: Ints1d
    segments: Ints2d | None = None
    shared: SharedLines | None = None


@dataclass(frozen=True, slots=True)
class SharedLines:
    """The layout of lines with several sequences.

    Attributes:
        owners: (lines, pieces) a number for each sequence, from 1; 0 for padding. Pieces attend
            only to pieces of the same sequence.
        positions: (lines, pieces) positions within the sequence, from 0.
    """

    owners: Ints2d
    positions: Ints2d


def pad_windows(
    layout: RowLayout, windows: Windows, placements: list[Placement], pad: int
) -> list[SequenceBatch]:
    """Fill a padded batch for each placement, at least one, of windows; `pad` is an id."""
    windows = windows.take(np.concatenate([placement.sequences for placement in placements]))
    starts, sizes = _stretches(layout, windows)
    lengths = sizes.sum(axis=1)
    places = _Places(placements, lengths)
    rows = ranges(starts.ravel(), sizes.ravel())
    kept, kept_rows = _kept(layout, windows, places)
    batches = zip(
        places.fill(layout.ids[rows], pad),
        places.fill(1, 0),
        kept,
        kept_rows,
        _fill_segments(layout, rows, places),
        _shared_lines(places, lengths),
        strict=True,
    )
    return [SequenceBatch(*batch) for batch in batches]


class _Places:
    """The places of windows in padded batches, which are concatenated.

    Attributes:
        counts: (batches,) windows in each batch.
        shapes: (batches, 2) lines of each batch, and places in a line.
        begins: (windows,) first place of each window, counted from the beginning of its batch.
    """

    def __init__(self, placements: list[Placement], lengths: Ints1d):
        self.counts = np.array([len(placement.sequences) for placement in placements])
        self.shapes = np.array([placement.shape for placement in placements])
        lines = np.concatenate([placement.lines for placement in placements])
        starts = np.concatenate([placement.starts for placement in placements])
        self.begins = lines * np.repeat(self.shapes[:, 1], self.counts) + starts
        self._borders = borders(self.shapes.prod(axis=1))
        self._filled = ranges(self.begins + np.repeat(self._borders[:-1], self.counts), lengths)

    def fill(self, values: Ints1d | int, padding: int) -> list[Ints2d]:
        """Each batch, (lines, places), with these values for the pieces of all windows."""
        padded = np.full(self._borders[-1], padding, dtype="int64")
        padded[self._filled] = values
        parts = split_at(padded, self._borders)
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def _stretches(layout: RowLayout, windows: Windows) -> tuple[Ints2d, Ints2d]:
    """First row and number of rows of each window's stretches, both (windows, 3)."""
    starts = layout.starts[windows.doc][:, [0, SECOND, AFTER]]
    starts[:, TEXT] += windows.start
    afters = layout.sizes[windows.doc, AFTER]
    sizes = np.stack([layout.heads[windows.doc], windows.end - windows.start, afters], axis=1)
    return starts, sizes


def _kept(
    layout: RowLayout, windows: Windows, places: _Places
) -> tuple[list[Ints1d], list[Ints1d]]:
    """The places whose vectors are kept in each flattened batch, and the rows that they fill.

    The first window of a document keeps the rows before its text, the last the rows after it.
    """
    starts, sizes = _stretches(layout, windows)
    offsets = np.cumsum(sizes, axis=1) - sizes + places.begins[:, None]
    for position in (starts, offsets):
        position[:, TEXT] += windows.keep_start - windows.start
    sizes[:, HEAD] *= windows.start == 0
    sizes[:, TEXT] = windows.keep_end - windows.keep_start
    sizes[:, TAIL] *= windows.end == layout.sizes[windows.doc, SECOND]
    kept, rows = ranges(offsets.ravel(), sizes.ravel()), ranges(starts.ravel(), sizes.ravel())
    batches = borders(sizes.sum(axis=1))[borders(places.counts)]
    return split_at(kept, batches), split_at(rows, batches)


def _fill_segments(layout: RowLayout, rows: Ints1d, places: _Places) -> list[Ints2d] | list[None]:
    if layout.segments is None:
        return [None] * len(places.counts)
    return places.fill(layout.segments[rows], 0)


def _shared_lines(places: _Places, lengths: Ints1d) -> list[SharedLines | None]:
    """The layout of each batch that has more windows than lines."""
    is_shared = places.counts > places.shapes[:, 0]
    if not is_shared.any():
        return [None] * len(is_shared)
    owners = places.fill(np.repeat(np.arange(len(lengths)) + 1, lengths), 0)
    positions = places.fill(ranges(np.zeros_like(lengths), lengths), 0)
    layouts = map(SharedLines, owners, positions)
    return [own if several else None for several, own in zip(is_shared, layouts, strict=True)]
