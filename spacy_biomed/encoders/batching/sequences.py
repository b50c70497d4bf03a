"""From a batch of documents to the padded sequences of an encoder, and back to rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.tokens import Doc
from thinc.types import Floats2d, Ints1d, Ints2d

from ...errors import BiomedError
from .alignment import align_tokens, ranges
from .encoded import EncodedBatch
from .pair_pieces import PairOverflow, tokenize
from .row_layout import AFTER, SECOND, RowLayout, lay_out
from .row_packing import Placement, one_a_line, pack_by_length
from .windows import Windows, batch_by_length, make_windows
from .word_pieces import WordPieceTokenizer


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


@dataclass(frozen=True, slots=True)
class Sequences:
    """A batch of documents as sequences, and the other arrays of `EncodedBatch`.

    Attributes:
        batches: the sequences; over all of them every row is filled exactly once.
        ids: (rows,), as in `EncodedBatch`, like those that follow.
        indices: (aligned,)
        piece_counts: (tokens,)
        row_counts: (docs,)
        token_counts: (docs,)
    """

    batches: list[SequenceBatch]
    ids: Ints1d
    indices: Ints1d
    piece_counts: Ints1d
    row_counts: Ints1d
    token_counts: Ints1d

    def order(self) -> Ints1d:
        """(rows,) where each row is in the concatenated `kept` positions of all batches."""
        if not self.batches:
            return np.zeros(0, dtype="int64")
        order = np.empty(len(self.ids), dtype="int64")
        order[np.concatenate([batch.rows for batch in self.batches])] = np.arange(len(self.ids))
        return order

    def encoded(self, hidden: Floats2d, tokenizer: WordPieceTokenizer) -> EncodedBatch:
        """What the listeners read.

        Args:
            hidden: (rows, width).
        """
        return EncodedBatch(
            hidden=hidden,
            ids=self.ids,
            indices=self.indices,
            piece_counts=self.piece_counts,
            row_counts=self.row_counts,
            token_counts=self.token_counts,
            id_to_token=tokenizer.tokenizer.id_to_token,
        )


def make_sequences(
    docs: list[Doc],
    tokenizer: WordPieceTokenizer,
    *,
    window: int,
    context: int,
    budget: int,
    pair_overflow: PairOverflow = "truncate",
    share_lines: bool = False,
) -> Sequences:
    """Tokenize documents into word pieces, cut documents that are too long, and pad.

    A pair of texts is one sequence, with the special tokens and segment ids of the tokenizer's
    template. The windows of a long pair all have the whole first text. The vectors of the first
    text, and of the special tokens next to it, come from the first window.

    Args:
        window: word pieces, special tokens included, of the longest sequence.
        context: word pieces on each side of a window that serve only as context, at most a quarter
            of the window's, so that at least half of the encoded pieces are kept.
        budget: padded word pieces in one batch.
        pair_overflow: whether pairs that are too long are truncated or read in windows.
        share_lines: whether several sequences may share a line, which reduces padding if the
            encoder can separate them.

    Raises:
        BiomedError: if the window has no room for a word piece, or for a pair.
    """
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    if window <= around:
        raise BiomedError(
            f"window = {window} leaves no room for word pieces beside {around} special tokens: "
            "make it larger"
        )
    texts = tokenize(docs, tokenizer, window=window, pair_overflow=pair_overflow)
    indices, piece_counts, token_counts = align_tokens(docs, texts.pieces)
    # A document without tokens has no rows; a document of white space has its special tokens.
    layout = lay_out(texts, tokenizer, token_counts > 0)
    row_counts, heads, afters = layout.row_counts, layout.heads, layout.sizes[:, AFTER]
    capacity = np.maximum(window - heads - afters, 1)
    context = np.minimum(context, capacity // 4)
    windows = _make_windows(texts.second, row_counts, capacity, context)
    lengths = heads[windows.doc] + windows.end - windows.start + afters[windows.doc]
    if share_lines:
        placements = pack_by_length(lengths, budget)
    else:
        placements = [one_a_line(chosen, lengths) for chosen in batch_by_length(lengths, budget)]
    return Sequences(
        batches=_pad(layout, windows, placements, tokenizer.pad) if placements else [],
        ids=layout.ids,
        indices=layout.rows_of_pieces(indices, _sum_by_doc(piece_counts, token_counts)),
        piece_counts=piece_counts,
        row_counts=row_counts,
        token_counts=token_counts,
    )


def _sum_by_doc(piece_counts: Ints1d, token_counts: Ints1d) -> Ints1d:
    """(docs,) the sum over the tokens of each document."""
    borders = np.concatenate([[0], np.cumsum(token_counts)])
    return np.diff(np.concatenate([[0], np.cumsum(piece_counts)])[borders])


def _make_windows(
    lengths: Ints1d, row_counts: Ints1d, capacity: Ints1d, context: Ints1d
) -> Windows:
    """Windows of all documents that have rows; a text of white space gives an empty window."""
    windows = make_windows(lengths, capacity, context)
    blank = np.flatnonzero((row_counts > 0) & (lengths == 0))
    if len(blank) == 0:
        return windows
    zeros = np.zeros(len(blank), dtype="int64")
    doc = np.concatenate([windows.doc, blank])
    return Windows(
        doc,
        *(
            np.concatenate([field, zeros])
            for field in (windows.start, windows.end, windows.keep_start, windows.keep_end)
        ),
    )


def _pad(
    layout: RowLayout, windows: Windows, placements: list[Placement], pad: int
) -> list[SequenceBatch]:
    """Fill padded batches with their windows, all batches at once.

    A window is three stretches of its document's rows: the head, part of the (second) text, and
    the rows after it.
    """
    chosen = np.concatenate([placement.sequences for placement in placements])
    doc, start, end = windows.doc[chosen], windows.start[chosen], windows.end[chosen]
    stretches = layout.sizes[doc]
    heads = stretches[:, :SECOND].sum(axis=1)
    sizes = np.stack([heads, end - start, stretches[:, AFTER]], axis=1)
    starts = layout.starts[doc][:, [0, SECOND, AFTER]]
    starts[:, 1] += start
    rows = ranges(starts.ravel(), sizes.ravel())
    lengths = sizes.sum(axis=1)

    # Places count from the beginning of the batch, and all batches are concatenated.
    counts = np.array([len(placement.sequences) for placement in placements])
    shapes = np.array([placement.shape for placement in placements])
    borders = np.concatenate([[0], np.cumsum(shapes.prod(axis=1))])
    begins = np.concatenate([placement.lines for placement in placements])
    begins = begins * np.repeat(shapes[:, 1], counts)
    begins += np.concatenate([placement.starts for placement in placements])
    filled = ranges(begins + np.repeat(borders[:-1], counts), lengths)

    def fill(values: Ints1d | int, padding: int) -> list[Ints2d]:
        padded = np.full(borders[-1], padding, dtype="int64")
        padded[filled] = values
        return [
            part.reshape(placement.shape)
            for part, placement in zip(_split(padded, borders), placements, strict=True)
        ]

    # The first window of a document keeps the rows before its text, the last the rows after it.
    keep_start, keep_end = windows.keep_start[chosen], windows.keep_end[chosen]
    kept_sizes = sizes.copy()
    kept_sizes[:, 0] *= start == 0
    kept_sizes[:, 1] = keep_end - keep_start
    kept_sizes[:, 2] *= end == stretches[:, SECOND]
    offsets = np.cumsum(sizes, axis=1) - sizes
    offsets[:, 1] += keep_start - start
    starts[:, 1] += keep_start - start
    kept = ranges((offsets + begins[:, None]).ravel(), kept_sizes.ravel())
    kept_rows = ranges(starts.ravel(), kept_sizes.ravel())
    kept_borders = np.concatenate([[0], np.cumsum(kept_sizes.sum(axis=1))])
    kept_borders = kept_borders[np.concatenate([[0], np.cumsum(counts)])]

    nothing: list[Any] = [None] * len(placements)
    segments = nothing if layout.segments is None else fill(layout.segments[rows], 0)
    is_shared = counts > shapes[:, 0]
    shared = nothing
    if is_shared.any():
        owners = fill(np.repeat(np.arange(len(chosen)) + 1, lengths), 0)
        positions = fill(ranges(np.zeros_like(lengths), lengths), 0)
        shared = [
            SharedLines(*own) if several else None
            for several, *own in zip(is_shared, owners, positions, strict=True)
        ]
    parts = zip(
        fill(layout.ids[rows], pad),
        fill(1, 0),
        _split(kept, kept_borders),
        _split(kept_rows, kept_borders),
        segments,
        shared,
        strict=True,
    )
    return [SequenceBatch(*part) for part in parts]


def _split(values: Ints1d, borders: Ints1d) -> list[Ints1d]:
    return [values[start:end] for start, end in pairwise(borders.tolist())]
