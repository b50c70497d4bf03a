"""Word pieces of batches that may contain pairs of texts."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from spacy.tokens import Doc, Span

from ...annotations.pairs import PAIR_KEY, PAIR_SEPARATOR, get_pair
from ...arrays import Ints1d
from ...errors import BiomedError
from ...normalization import get_text
from .ragged import borders, ranges
from .word_piece_tokenizer import WordPieces, WordPieceTokenizer

PairOverflow = Literal["truncate", "window"]


@dataclass(frozen=True, slots=True)
class TextPieces:
    """The word pieces of a batch of documents, each with one text or, for a pair, two.

    They are those of each document's first text, then those of its second, and offsets count from
    the document's beginning. A single text has all its pieces in the second.
    """

    pieces: WordPieces
    is_pair: np.ndarray  # (docs,)
    first: Ints1d  # (docs,) pieces of the first text
    second: Ints1d  # (docs,)


def tokenize(
    docs: list[Doc],
    tokenizer: WordPieceTokenizer,
    *,
    window: int,
    pair_overflow: PairOverflow,
    normalize: bool = False,
) -> TextPieces:
    """Tokenize documents, the two texts of a pair separately.

    `window` is the most word pieces of a sequence, special tokens included. In a longer pair,
    "truncate" drops pieces from the end of the longer text; once both are equally long, from both,
    like the strategy "longest_first" of transformers. "window" drops none, and raises
    BiomedError if the first text leaves no room. With `normalize`, texts are read as
    `normalization.normalize_text` has them.
    """
    texts = [get_text(doc) for doc in docs]
    read = tokenizer.read_normalized if normalize else tokenizer
    pairs = _find_pairs(docs, texts)
    is_pair = np.zeros(len(docs), dtype=bool)
    if not pairs:
        pieces = read(texts)
        return TextPieces(pieces, is_pair, np.zeros_like(pieces.lengths), pieces.lengths)
    is_pair[list(pairs)] = True
    parts = []  # each text to tokenize, and its start in its document
    for i, text in enumerate(texts):
        if i in pairs:
            parts += [(text[span.start_char : span.end_char], span.start_char) for span in pairs[i]]
        else:
            parts.append((text, 0))
    pieces = read([text for text, _ in parts])
    place = np.arange(len(docs)) + np.cumsum(is_pair) - is_pair  # of each document's first part
    first = np.where(is_pair, pieces.lengths[place], 0)
    second = pieces.lengths[place + is_pair]
    pair = tokenizer.pair
    special = len(pair.before) + len(pair.between) + len(pair.after)
    room = room_in(window, special, "a pair of texts")
    if pair_overflow == "truncate":
        first[is_pair], second[is_pair] = _truncate_longest(first[is_pair], second[is_pair], room)
    else:
        for i, (one, _) in pairs.items():
            if first[i] + min(second[i], 1) > room:
                beginning = " ".join(one.text.split())[:50]
                raise BiomedError(
                    f"'{beginning}': this first text of a pair has {first[i]} word pieces and "
                    f"leaves no room for the second, as both have {room} in window = {window}: "
                    "shorten it, or set pair_overflow = 'truncate'"
                )
    kept = np.empty_like(pieces.lengths)
    kept[place], kept[place + is_pair] = first, second
    chosen = ranges(borders(pieces.lengths)[:-1], kept)
    moved = np.repeat([start for _, start in parts], kept)
    starts, ends = pieces.starts[chosen] + moved, pieces.ends[chosen] + moved
    pieces = WordPieces(pieces.ids[chosen], starts, ends, first + second)
    return TextPieces(pieces, is_pair, first, second)


def room_in(window: int, special: int, what: str) -> int:
    """The word pieces that a window has room for beside special tokens, at least one."""
    if window <= special:
        raise BiomedError(
            f"window = {window} leaves no room for {what} beside {special} special tokens: make it "
            "larger"
        )
    return window - special


def _find_pairs(docs: list[Doc], texts: list[str]) -> dict[int, tuple[Span, Span]]:
    """The two texts of each document that is a pair, by its place in the batch."""
    found = {
        i: get_pair(doc)
        for i, (doc, text) in enumerate(zip(docs, texts, strict=True))
        if PAIR_SEPARATOR in text or PAIR_KEY in doc.spans
    }
    return {i: pair for i, pair in found.items() if pair is not None}


def _truncate_longest(first: Ints1d, second: Ints1d, room: int) -> tuple[Ints1d, Ints1d]:
    """What to keep of both texts of each pair, (pairs,), so that at most `room` pieces remain."""
    kept_of_shorter = np.minimum(np.minimum(first, second), room // 2)
    kept_of_longer = np.minimum(np.maximum(first, second), room - kept_of_shorter)
    is_first_longer = first > second
    return (
        np.where(is_first_longer, kept_of_longer, kept_of_shorter),
        np.where(is_first_longer, kept_of_shorter, kept_of_longer),
    )
