"""Word pieces of batches that may contain pairs of texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from spacy.tokens import Doc, Span

from ...annotations.pairs import PAIR_KEY, PAIR_SEPARATOR, get_pair
from ...arrays import Ints1d
from ...errors import BiomedError
from ...normalization import get_text
from .ragged import ranges
from .word_piece_tokenizer import WordPieces, WordPieceTokenizer

PairOverflow = Literal["truncate", "window"]

# A pair's place in the batch, and its two texts.
Pairs = dict[int, tuple[Span, Span]]


@dataclass(frozen=True, slots=True)
class TextPieces:
    """The word pieces of a batch of documents, each with one text or, for a pair, two.

    Attributes:
        pieces: those of each document's first text, then those of its second; offsets count from
            the document's beginning.
        is_pair: (docs,) whether it is a pair.
        first, second: (docs,) pieces of each text; a single text has all its pieces in the second.
    """

    pieces: WordPieces
    is_pair: np.ndarray
    first: Ints1d
    second: Ints1d


def tokenize(
    docs: list[Doc],
    tokenizer: WordPieceTokenizer,
    *,
    window: int,
    pair_overflow: PairOverflow,
    normalize: bool = False,
) -> TextPieces:
    """Tokenize documents, the two texts of a pair separately.

    Args:
        window: word pieces, special tokens included, of the longest sequence.
        pair_overflow: how to handle a longer pair. "truncate" drops pieces from the end of the
            longer text, and once both are equally long from both, like the strategy "longest_first"
            of transformers. "window" drops none.
        normalize: whether texts are read as `normalization.normalize_text` has them.

    Raises:
        BiomedError: if the window has no room for a pair, or with "window" only for a pair's first
            text.
    """
    texts = [get_text(doc) for doc in docs]
    read = tokenizer.read_normalized if normalize else tokenizer
    pairs = find_pairs(docs, texts)
    is_pair = np.zeros(len(docs), dtype=bool)
    if not pairs:
        pieces = read(texts)
        return TextPieces(pieces, is_pair, np.zeros_like(pieces.lengths), pieces.lengths)
    is_pair[list(pairs)] = True
    parts, starts = zip(*_split(texts, pairs), strict=True)
    pieces = read(list(parts))
    place = np.arange(len(docs)) + np.cumsum(is_pair) - is_pair  # of each document's first part
    first = np.where(is_pair, pieces.lengths[place], 0)
    second = pieces.lengths[place + is_pair]
    room = _room_for_pair(tokenizer, window)
    if pair_overflow == "truncate":
        first[is_pair], second[is_pair] = truncate_longest_first(
            first[is_pair], second[is_pair], room
        )
    else:
        for i in pairs:
            if first[i] + min(second[i], 1) > room:
                raise BiomedError(_explain_overflow(pairs[i][0], int(first[i]), room, window))
    kept = np.empty_like(pieces.lengths)
    kept[place], kept[place + is_pair] = first, second
    pieces = _take(pieces, np.array(starts), kept)
    return TextPieces(replace(pieces, lengths=first + second), is_pair, first, second)


def find_pairs(docs: list[Doc], texts: list[str]) -> Pairs:
    """The documents that are pairs, by their texts."""
    found = {
        i: get_pair(doc)
        for i, (doc, text) in enumerate(zip(docs, texts, strict=True))
        if PAIR_SEPARATOR in text or PAIR_KEY in doc.spans
    }
    return {i: pair for i, pair in found.items() if pair is not None}


def truncate_longest_first(first: Ints1d, second: Ints1d, room: int) -> tuple[Ints1d, Ints1d]:
    """How much of each text of each pair to keep, (pairs,), dropping from the longer text first.

    `room` is the maximum number of pieces of a pair.
    """
    kept_of_shorter = np.minimum(np.minimum(first, second), room // 2)
    kept_of_longer = np.minimum(np.maximum(first, second), room - kept_of_shorter)
    is_first_longer = first > second
    return (
        np.where(is_first_longer, kept_of_longer, kept_of_shorter),
        np.where(is_first_longer, kept_of_shorter, kept_of_longer),
    )


def _split(texts: list[str], pairs: Pairs) -> Iterator[tuple[str, int]]:
    """Each text to tokenize, and its start in its document."""
    for i, text in enumerate(texts):
        if i not in pairs:
            yield text, 0
            continue
        for span in pairs[i]:
            yield text[span.start_char : span.end_char], span.start_char


def _room_for_pair(tokenizer: WordPieceTokenizer, window: int) -> int:
    pair = tokenizer.pair
    around = len(pair.before) + len(pair.between) + len(pair.after)
    if window <= around:
        raise BiomedError(
            f"window = {window} leaves no room for a pair of texts beside {around} special tokens: "
            "make it larger"
        )
    return window - around


def _take(pieces: WordPieces, starts: Ints1d, kept: Ints1d) -> WordPieces:
    """A given number of pieces from the beginning of each text, with shifted offsets."""
    chosen = ranges(np.cumsum(pieces.lengths) - pieces.lengths, kept)
    moved = np.repeat(starts, kept)
    return WordPieces(
        pieces.ids[chosen], pieces.starts[chosen] + moved, pieces.ends[chosen] + moved, kept
    )


def _explain_overflow(first: Span, length: int, room: int, window: int) -> str:
    beginning = " ".join(first.text.split())[:50]
    return (
        f"'{beginning}': this first text of a pair has {length} word pieces and leaves no room for "
        f"the second, as both have {room} in window = {window}: shorten it, or set "
        "pair_overflow = 'truncate'"
    )
