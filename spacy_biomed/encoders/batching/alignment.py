"""Which word pieces cover which tokens, by character offsets, for a whole batch in arrays."""

import numpy as np
from spacy.attrs import IDX, LENGTH
from spacy.tokens import Doc

from ...arrays import Ints1d
from .ragged import ranges
from .word_piece_tokenizer import WordPieces


def token_offsets(docs: list[Doc]) -> tuple[Ints1d, Ints1d, Ints1d]:
    """Character offsets of all tokens in their documents: starts and ends, (tokens,), and lengths,
    (docs,), the tokens of each document.
    """
    attributes = [doc.to_array([IDX, LENGTH]).astype("int64") for doc in docs]
    flat = np.concatenate(attributes) if attributes else np.zeros((0, 2), dtype="int64")
    lengths = np.array([len(doc) for doc in docs], dtype="int64")
    return flat[:, 0], flat[:, 0] + flat[:, 1], lengths


def align_tokens(docs: list[Doc], pieces: WordPieces) -> tuple[Ints1d, Ints1d, Ints1d]:
    """Align the tokens of each document with the word pieces of its text.

    A piece belongs to every token with which it shares a character. It gives indices, (aligned,),
    the pieces of the first token, then of the second, and so on, counted from the beginning of
    their document; piece_counts, (tokens,); and token_counts, (docs,).
    """
    token_starts, token_ends, token_counts = token_offsets(docs)
    # Texts are concatenated, so that one binary search serves the whole batch.
    last = np.concatenate([[0], token_ends])[np.cumsum(token_counts) * (token_counts > 0)]
    room = last + 2  # beyond the last token: a space, and one so that texts do not touch
    bases = np.cumsum(room) - room
    token_bases = np.repeat(bases, token_counts)
    piece_bases = np.repeat(bases, pieces.lengths)
    starts, ends = pieces.starts + piece_bases, pieces.ends + piece_bases
    first = np.searchsorted(token_ends + token_bases, starts, side="right")
    last = np.searchsorted(token_starts + token_bases, ends, side="left")
    counts = np.where(ends > starts, np.maximum(last - first, 0), 0)
    piece_offsets = np.cumsum(pieces.lengths) - pieces.lengths
    local = np.arange(len(starts)) - np.repeat(piece_offsets, pieces.lengths)
    tokens = ranges(first, counts)
    indices = np.repeat(local, counts)
    if np.any(np.diff(tokens) < 0):  # several pieces of one character that lies in several tokens
        order = np.argsort(tokens, kind="stable")
        tokens, indices = tokens[order], indices[order]
    return indices, np.bincount(tokens, minlength=len(token_starts)), token_counts
