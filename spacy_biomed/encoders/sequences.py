"""From a batch of documents to the padded sequences that an encoder takes, and back to rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from spacy.tokens import Doc
from thinc.types import Floats2d, Ints1d, Ints2d

from ..errors import BiomedError
from .alignment import align_tokens, ranges
from .encoded import EncodedBatch
from .windows import Windows, batch_by_length, make_windows
from .word_pieces import WordPieces, WordPieceTokenizer


@dataclass(frozen=True, slots=True)
class SequenceBatch:
    """Sequences of similar length, padded together.

    ids, mask: (sequences, pieces) vocabulary ids and attention mask.
    kept: (kept,) positions in the flattened batch whose vectors are wanted.
    rows: (kept,) the rows of the batch of documents that these fill.
    """

    ids: Ints2d
    mask: Ints2d
    kept: Ints1d
    rows: Ints1d


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
    docs: list[Doc], tokenizer: WordPieceTokenizer, *, window: int, context: int, budget: int
) -> Sequences:
    """Tokenize documents into word pieces, cut those that are too long, and pad.

    window: word pieces, special tokens included, of the longest sequence.
    context: word pieces on each side of a window that serve as context only; less where the window
        is too small for so many.
    budget: padded word pieces in one batch.
    RAISES BiomedError: if the window has no room for a word piece.
    """
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    capacity = window - around
    if capacity < 1:
        raise BiomedError(
            f"window = {window} leaves no room for word pieces beside {around} special tokens: "
            "make it larger"
        )
    context = min(context, (capacity - 1) // 2)
    pieces = tokenizer([doc.text for doc in docs])
    indices, piece_counts, token_counts = align_tokens(docs, pieces)
    # A document without tokens has no rows; one of white space has its special tokens.
    row_counts = np.where(token_counts > 0, pieces.lengths + around, 0)
    windows = _make_windows(pieces.lengths, row_counts, capacity, context)
    lengths = windows.end - windows.start + around
    return Sequences(
        batches=[
            _pad(tokenizer, pieces, row_counts, windows, chosen)
            for chosen in batch_by_length(lengths, budget)
        ],
        ids=_ids_of_rows(tokenizer, pieces, row_counts),
        indices=indices + len(tokenizer.prefix),
        piece_counts=piece_counts,
        row_counts=row_counts,
        token_counts=token_counts,
    )


def _make_windows(lengths: Ints1d, row_counts: Ints1d, capacity: int, context: int) -> Windows:
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


def _ids_of_rows(tokenizer: WordPieceTokenizer, pieces: WordPieces, row_counts: Ints1d) -> Ints1d:
    """Vocabulary ids with each document's special tokens around them: (rows,)."""
    prefix, suffix = len(tokenizer.prefix), len(tokenizer.suffix)
    ids = np.empty(int(row_counts.sum()), dtype="int64")
    ends = np.cumsum(row_counts)[row_counts > 0]
    starts = ends - row_counts[row_counts > 0]
    ids[(starts[:, None] + np.arange(prefix)).ravel()] = np.tile(tokenizer.prefix, len(starts))
    ids[(ends[:, None] - suffix + np.arange(suffix)).ravel()] = np.tile(tokenizer.suffix, len(ends))
    ids[ranges(starts + prefix, ends - starts - prefix - suffix)] = pieces.ids
    return ids


def _pad(
    tokenizer: WordPieceTokenizer,
    pieces: WordPieces,
    row_counts: Ints1d,
    windows: Windows,
    chosen: Ints1d,
) -> SequenceBatch:
    """Fill one padded batch with the chosen windows."""
    prefix, suffix = np.array(tokenizer.prefix), np.array(tokenizer.suffix)
    before, after = len(prefix), len(suffix)
    doc, start, end = windows.doc[chosen], windows.start[chosen], windows.end[chosen]
    sizes = end - start
    longest = int(sizes.max()) + before + after
    sequences = np.arange(len(chosen))
    ids = np.full((len(chosen), longest), tokenizer.pad, dtype="int64")
    ids[:, :before] = prefix
    piece_offsets = np.cumsum(pieces.lengths) - pieces.lengths
    columns = ranges(np.full(len(chosen), before), sizes)
    ids[np.repeat(sequences, sizes), columns] = pieces.ids[
        ranges(piece_offsets[doc] + start, sizes)
    ]
    for i in range(after):
        ids[sequences, before + sizes + i] = suffix[i]
    mask = np.arange(longest) < (sizes + before + after)[:, None]
    # The first window of a document keeps the special tokens before it, the last those after it.
    is_first, is_last = start == 0, end == pieces.lengths[doc]
    keep_start = windows.keep_start[chosen] + np.where(is_first, 0, before)
    keep_end = windows.keep_end[chosen] + before + np.where(is_last, after, 0)
    counts = keep_end - keep_start
    row_offsets = np.cumsum(row_counts) - row_counts
    return SequenceBatch(
        ids=ids,
        mask=mask.astype("int64"),
        kept=ranges(sequences * longest + keep_start - start, counts),
        rows=ranges(row_offsets[doc] + keep_start, counts),
    )
