"""From a batch of documents to the padded sequences of an encoder, and back to rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from spacy.tokens import Doc

from ...arrays import Floats2d, Ints1d
from ...errors import BiomedError
from .alignment import align_tokens
from .encoded import EncodedBatch
from .padding import AFTER, SequenceBatch, lay_out, pad_windows
from .pair_pieces import PairOverflow, tokenize
from .ragged import borders
from .windows import batch_by_length, make_windows, one_a_line, pack_by_length
from .word_piece_tokenizer import WordPieceTokenizer


@dataclass(frozen=True, slots=True)
class Sequences:
    """A batch of documents as sequences.

    Attributes:
        batches: the sequences; over all of them every row is filled exactly once.
        ids: (rows,) vocabulary ids.
        encoded: makes the batch for the listeners from the vectors of all rows, (rows, width).
    """

    batches: list[SequenceBatch]
    ids: Ints1d
    encoded: Callable[[Floats2d], EncodedBatch]

    def order(self) -> Ints1d:
        """(rows,) where each row is in the concatenated `kept` positions of all batches."""
        order = np.empty(len(self.ids), dtype="int64")
        order[np.concatenate([batch.rows for batch in self.batches])] = np.arange(len(self.ids))
        return order


def make_sequences(
    docs: list[Doc],
    tokenizer: WordPieceTokenizer,
    *,
    window: int,
    context: int,
    budget: int,
    pair_overflow: PairOverflow = "truncate",
    normalize: bool = False,
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
        normalize: whether texts are read as `normalization.normalize_text` has them.
        share_lines: whether several sequences may share a line, which reduces padding if the
            encoder can separate them.
    """
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    if window <= around:
        raise BiomedError(
            f"window = {window} leaves no room for word pieces beside {around} special tokens: "
            "make it larger"
        )
    texts = tokenize(
        docs, tokenizer, window=window, pair_overflow=pair_overflow, normalize=normalize
    )
    indices, piece_counts, token_counts = align_tokens(docs, texts.pieces)
    is_one = len(docs) == 1 and not (texts.is_pair[0] or share_lines)
    if is_one and 0 < len(texts.pieces.ids) <= window - around:
        return _make_one(texts.pieces.ids, indices, piece_counts, tokenizer)
    # A document without tokens has no rows; a document of white space has its special tokens.
    layout = lay_out(texts, tokenizer, token_counts > 0)
    row_counts, heads, afters = layout.row_counts, layout.heads, layout.sizes[:, AFTER]
    capacity = np.maximum(window - heads - afters, 1)
    context = np.minimum(context, capacity // 4)
    windows = make_windows(texts.second, capacity, context, row_counts > 0)
    lengths = heads[windows.doc] + windows.end - windows.start + afters[windows.doc]
    if share_lines:
        placements = pack_by_length(lengths, budget, longest=window)
    else:
        placements = [one_a_line(chosen, lengths) for chosen in batch_by_length(lengths, budget)]
    batches = pad_windows(layout, windows, placements, tokenizer.pad) if placements else []
    pieces_of_docs = np.diff(borders(piece_counts)[borders(token_counts)])
    rows = layout.rows_of_pieces(indices, pieces_of_docs)
    id_to_token = tokenizer.tokenizer.id_to_token
    arrays = layout.ids, rows, piece_counts, row_counts, token_counts
    return Sequences(batches, layout.ids, lambda hidden: EncodedBatch(hidden, *arrays, id_to_token))


def _make_one(
    pieces: Ints1d, indices: Ints1d, piece_counts: Ints1d, tokenizer: WordPieceTokenizer
) -> Sequences:
    """A single text that fits into a window, with less work than any batch takes.

    `pieces`, (pieces,), are vocabulary ids; `align_tokens` gives the rest.
    """
    ids = np.concatenate([tokenizer.prefix, pieces, tokenizer.suffix]).astype("int64")
    rows = np.arange(len(ids))
    batch = SequenceBatch(ids[None], np.ones((1, len(ids)), dtype="int64"), rows, rows)
    row_counts, token_counts = np.array([len(ids)]), np.array([len(piece_counts)])
    arrays = ids, indices + len(tokenizer.prefix), piece_counts, row_counts, token_counts
    id_to_token = tokenizer.tokenizer.id_to_token
    return Sequences([batch], ids, lambda hidden: EncodedBatch(hidden, *arrays, id_to_token))
