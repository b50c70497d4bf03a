"""From a batch of documents to the padded sequences that an encoder takes, and back to rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from spacy.tokens import Doc
from thinc.types import Floats2d, Ints1d, Ints2d

from ..errors import BiomedError
from .alignment import align_tokens, ranges
from .encoded import EncodedBatch
from .pair_pieces import PairOverflow, tokenize
from .row_layout import AFTER, SECOND, RowLayout, lay_out
from .windows import Windows, batch_by_length, make_windows
from .word_pieces import WordPieceTokenizer


@dataclass(frozen=True, slots=True)
class SequenceBatch:
    """Sequences of similar length, padded together.

    ids, mask: (sequences, pieces) vocabulary ids and attention mask.
    kept: (kept,) positions in the flattened batch whose vectors are wanted.
    rows: (kept,) the rows of the batch of documents that these fill.
    segments: (sequences, pieces) segment ids; None if there are none but zeros.
    """

    ids: Ints2d
    mask: Ints2d
    kept: Ints1d
    rows: Ints1d
    segments: Ints2d | None = None


@dataclass(frozen=True, slots=True)
class Sequences:
    """A batch of documents as sequences, and what `EncodedBatch` says of its rows.

    batches: the sequences; over all of them every row is filled exactly once.
    ids (rows,), indices (aligned,), piece_counts (tokens,), row_counts (docs,), token_counts
    (docs,): as in `EncodedBatch`.
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
) -> Sequences:
    """Tokenize documents into word pieces, cut those that are too long, and pad.

    A pair of texts is one sequence, with the special tokens and segment ids of the tokenizer's
    template. Windows of one that is too long each have the whole first text; its vectors, and those
    of the special tokens beside it, are those of the first window.

    window: word pieces, special tokens included, of the longest sequence.
    context: word pieces on each side of a window that serve as context only, a quarter of the
        window's at most: half of what is encoded is kept at least.
    budget: padded word pieces in one batch.
    pair_overflow: whether pairs that are too long are truncated or read in windows.
    RAISES BiomedError: if the window has no room for a word piece, or for a pair.
    """
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    if window <= around:
        raise BiomedError(
            f"window = {window} leaves no room for word pieces beside {around} special tokens: "
            "make it larger"
        )
    texts = tokenize(docs, tokenizer, window=window, pair_overflow=pair_overflow)
    indices, piece_counts, token_counts = align_tokens(docs, texts.pieces)
    # A document without tokens has no rows; one of white space has its special tokens.
    layout = lay_out(texts, tokenizer, token_counts > 0)
    row_counts, heads, afters = layout.row_counts, layout.heads, layout.sizes[:, AFTER]
    capacity = np.maximum(window - heads - afters, 1)
    context = np.minimum(context, capacity // 4)
    windows = _make_windows(texts.second, row_counts, capacity, context)
    lengths = heads[windows.doc] + windows.end - windows.start + afters[windows.doc]
    return Sequences(
        batches=[
            _pad(layout, windows, chosen, tokenizer.pad)
            for chosen in batch_by_length(lengths, budget)
        ],
        ids=layout.ids,
        indices=layout.rows_of_pieces(indices, _sum_by_doc(piece_counts, token_counts)),
        piece_counts=piece_counts,
        row_counts=row_counts,
        token_counts=token_counts,
    )


def _sum_by_doc(piece_counts: Ints1d, token_counts: Ints1d) -> Ints1d:
    """(docs,) what the tokens of each document add up to."""
    borders = np.concatenate([[0], np.cumsum(token_counts)])
    return np.diff(np.concatenate([[0], np.cumsum(piece_counts)])[borders])


def _make_windows(
    lengths: Ints1d, row_counts: Ints1d, capacity: Ints1d, context: Ints1d
) -> Windows:
    """Windows of all documents that have rows; white space alone makes an empty window."""
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


def _pad(layout: RowLayout, windows: Windows, chosen: Ints1d, pad: int) -> SequenceBatch:
    """Fill one padded batch with the chosen windows.

    A window is three stretches of its document's rows: the head, some of the (second) text, and
    what comes after.
    """
    doc, start, end = windows.doc[chosen], windows.start[chosen], windows.end[chosen]
    stretches = layout.sizes[doc]
    heads = stretches[:, :SECOND].sum(axis=1)
    sizes = np.stack([heads, end - start, stretches[:, AFTER]], axis=1)
    starts = layout.starts[doc][:, [0, SECOND, AFTER]]
    starts[:, 1] += start
    lengths = sizes.sum(axis=1)
    longest = int(lengths.max())
    sequences = np.arange(len(chosen))
    filled = np.repeat(sequences, lengths), ranges(np.zeros_like(lengths), lengths)
    rows = ranges(starts.ravel(), sizes.ravel())

    def fill(values: Ints1d, padding: int) -> Ints2d:
        padded = np.full((len(chosen), longest), padding, dtype="int64")
        padded[filled] = values[rows]
        return padded

    # The first window of a document keeps what comes before its text, the last what comes after.
    keep_start, keep_end = windows.keep_start[chosen], windows.keep_end[chosen]
    kept_sizes = sizes.copy()
    kept_sizes[:, 0] *= start == 0
    kept_sizes[:, 1] = keep_end - keep_start
    kept_sizes[:, 2] *= end == stretches[:, SECOND]
    offsets = np.cumsum(sizes, axis=1) - sizes
    offsets[:, 1] += keep_start - start
    starts[:, 1] += keep_start - start
    return SequenceBatch(
        ids=fill(layout.ids, pad),
        mask=(np.arange(longest) < lengths[:, None]).astype("int64"),
        kept=ranges((offsets + sequences[:, None] * longest).ravel(), kept_sizes.ravel()),
        rows=ranges(starts.ravel(), kept_sizes.ravel()),
        segments=None if layout.segments is None else fill(layout.segments, 0),
    )
