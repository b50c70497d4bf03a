"""Pairs of mentions that may be related, and the texts that show an encoder one pair each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

import numpy as np
from spacy.attrs import IDX, LENGTH, SENT_START
from spacy.tokens import Doc
from thinc.types import Ints1d

from ..annotations.pairs import PAIR_SEPARATOR
from ..corpora.marked_arguments import Argument, Style, find_marked_arguments, mark_arguments
from ..encoders.batching.alignment import ranges


class Candidate(NamedTuple):
    """Two mentions of a document that may be related.

    Attributes:
        doc: the document's place in its batch.
        window: half-open character offsets of what the encoder reads; None where it reads the
            document itself, in which the two are marked.
        words: tokens in the window.
    """

    doc: int
    head: Argument
    tail: Argument
    window: tuple[int, int] | None
    words: int

    def text(self, doc_text: str, style: Style) -> str:
        """What the encoder reads of a candidate with a window."""
        window = cast("tuple[int, int]", self.window)
        text = mark_arguments(doc_text, self.head, self.tail, style, window)
        return text.replace(PAIR_SEPARATOR, " ")  # it is one text, whatever it is cut from


class _Tokens(NamedTuple):
    """A document's tokens and sentences.

    Attributes:
        starts, ends: (tokens,) half-open character offsets.
        sentences: (sentences,) the first token of each; the first token of all where a document is
            not divided into sentences.
    """

    starts: Ints1d
    ends: Ints1d
    sentences: Ints1d


def find_candidates(
    place: int,
    doc: Doc,
    mentions: Collection[Argument],
    *,
    pairs: Collection[tuple[str, str]],
    directed: bool,
    max_distance: int,
    reference: Doc | None = None,
) -> list[Candidate]:
    """Find the pairs of mentions that may be related.

    A document that shows two arguments itself is its own, only candidate. Else two mentions are
    one if they are of an allowed pair of types, share no character, lie in one sentence (begin in
    it) where sentences are known, and have at most `max_distance` tokens between them. The window
    is their sentence, but no more than `max_distance` tokens on each side.

    Args:
        place: the document's place in its batch.
        mentions: of the document, in any order.
        pairs: allowed types of head and tail.
        directed: whether two mentions are two candidates where both orders are allowed; else they
            are one, and the first in the text is the head.
        reference: the annotated document, which tells of sentences where `doc` does not.
    """
    marked = find_marked_arguments(doc.text)
    if marked is not None:
        return [Candidate(place, *marked, None, len(doc))]
    ordered = sorted(set(mentions))
    if len(ordered) < 2 or not pairs or not len(doc):
        return []
    tokens = _get_tokens(doc, reference)
    mention_starts = np.array([mention.start for mention in ordered])
    mention_ends = np.array([mention.end for mention in ordered])
    first = _token_at(tokens, mention_starts)
    last = _token_at(tokens, mention_ends - 1)
    sentence = np.searchsorted(tokens.sentences, first, side="right") - 1
    left, right = _near(first, last, sentence, max_distance)
    apart = mention_starts[right] >= mention_ends[left]
    left, right = left[apart], right[apart]
    is_head_left, is_head_right = _allowed(ordered, left, right, pairs, directed)
    heads = np.concatenate([left[is_head_left], right[is_head_right]])
    tails = np.concatenate([right[is_head_left], left[is_head_right]])
    order = np.lexsort((tails, heads))
    heads, tails = heads[order], tails[order]
    starts, ends = _windows(tokens, first, last, heads, tails, max_distance)
    windows = zip(tokens.starts[starts].tolist(), tokens.ends[ends - 1].tolist(), strict=True)
    found = zip(heads.tolist(), tails.tolist(), windows, (ends - starts).tolist(), strict=True)
    return [
        Candidate(place, ordered[head], ordered[tail], window, words)
        for head, tail, window, words in found
    ]


def _get_tokens(doc: Doc, reference: Doc | None) -> _Tokens:
    starts, lengths = doc.to_array([IDX, LENGTH]).astype("int64").T
    sentences = np.zeros(1, dtype="int64")
    divided = next(
        (one for one in (doc, reference) if one and one.has_annotation("SENT_START")), None
    )
    if divided is not None:
        offsets, is_start = divided.to_array([IDX, SENT_START]).astype("int64").T
        first = np.searchsorted(starts, offsets[is_start == 1])
        sentences = np.unique(np.concatenate([sentences, first[first < len(starts)]]))
    return _Tokens(starts, starts + lengths, sentences)


def _token_at(tokens: _Tokens, characters: Ints1d) -> Ints1d:
    return np.maximum(np.searchsorted(tokens.starts, characters, side="right") - 1, 0)


def _near(
    first: Ints1d, last: Ints1d, sentence: Ints1d, max_distance: int
) -> tuple[Ints1d, Ints1d]:
    """Pairs of mentions in one sentence that are not too far apart: the left and the right one.

    Args:
        first, last: (mentions,) their first and last tokens, the first in text order.
        sentence: (mentions,) the sentence that each begins in.
    """
    mention = np.arange(len(first))
    beyond = np.searchsorted(first, last + 1 + max_distance, side="right")
    beyond = np.minimum(beyond, np.searchsorted(sentence, sentence, side="right"))
    counts = np.maximum(beyond - mention - 1, 0)
    return np.repeat(mention, counts), ranges(mention + 1, counts)


def _allowed(
    mentions: Sequence[Argument],
    left: Ints1d,
    right: Ints1d,
    pairs: Collection[tuple[str, str]],
    directed: bool,
) -> tuple[Ints1d, Ints1d]:
    """Of which pairs the left mention, and of which the right one may be the head: (pairs,)."""
    types = sorted({mention.label for mention in mentions})
    type_of = np.array([types.index(mention.label) for mention in mentions])
    is_allowed = np.zeros((len(types), len(types)), dtype=bool)
    for head, tail in pairs:
        if head in types and tail in types:
            is_allowed[types.index(head), types.index(tail)] = True
    is_head_left = is_allowed[type_of[left], type_of[right]]
    is_head_right = is_allowed[type_of[right], type_of[left]]
    return is_head_left, is_head_right if directed else is_head_right & ~is_head_left


def _windows(
    tokens: _Tokens,
    first: Ints1d,
    last: Ints1d,
    heads: Ints1d,
    tails: Ints1d,
    max_distance: int,
) -> tuple[Ints1d, Ints1d]:
    """The tokens that each pair is read with: the first, and the one after the last."""
    begin = np.minimum(first[heads], first[tails])
    end = np.maximum(last[heads], last[tails])
    borders = np.append(tokens.sentences, len(tokens.starts))
    sentence_begin = borders[np.searchsorted(tokens.sentences, begin, side="right") - 1]
    sentence_end = borders[np.searchsorted(tokens.sentences, end, side="right")]
    starts = np.maximum(sentence_begin, begin - max_distance)
    return starts, np.minimum(sentence_end, end + 1 + max_distance)
