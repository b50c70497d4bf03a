"""Pairs of mentions that may be related, and the texts that show an encoder one pair each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

import numpy as np
from spacy.attrs import IDX, LENGTH, SENT_START
from spacy.tokens import Doc, Span
from thinc.types import Ints1d

from ...annotations.marked_arguments import Argument, Style, find_marked_arguments, mark_arguments
from ...annotations.pairs import PAIR_SEPARATOR
from ...annotations.relation_layer import SpanRelation
from ...encoders.batching.ragged import ranges
from ...encoders.batching.windows import batch_by_length


class Candidate(NamedTuple):
    """Two mentions of a document that may be related.

    Attributes:
        doc: the document's place in its batch.
        window: half-open character offsets of the text that the encoder reads; None if it reads the
            whole document, in which the two mentions are marked.
        words: tokens in the window.
    """

    doc: int
    head: Argument
    tail: Argument
    window: tuple[int, int] | None
    words: int

    def text(self, doc_text: str, style: Style) -> str:
        """The text that the encoder reads for a candidate with a window."""
        window = cast("tuple[int, int]", self.window)
        text = mark_arguments(doc_text, self.head, self.tail, style, window)
        return text.replace(PAIR_SEPARATOR, " ")  # the window of a pair is one text


def get_argument(span: Span) -> Argument:
    return Argument(span.start_char, span.end_char, span.label_)


def get_arguments(relation: SpanRelation, directed: bool) -> tuple[Argument, Argument]:
    """Get the arguments of a relation, in text order if its direction does not matter."""
    return order_arguments(get_argument(relation.head), get_argument(relation.tail), directed)


def order_arguments(head: Argument, tail: Argument, directed: bool) -> tuple[Argument, Argument]:
    """Put two arguments in text order if the direction does not matter."""
    return (head, tail) if directed or head <= tail else (tail, head)


def find_marked(reference: Doc) -> tuple[Argument, Argument] | None:
    """The arguments that an annotated document marks in its text; None if it marks none.

    In corpora of marked sentences the entities are not annotated. Where they are, the same signs
    are a part of the text.
    """
    if reference.has_annotation("ENT_IOB") or reference.spans:
        return None
    return find_marked_arguments(reference.text)


class _Tokens(NamedTuple):
    """A document's tokens and sentences.

    Attributes:
        starts, ends: (tokens,) half-open character offsets.
        sentences: (sentences,) the first token of each; a document without sentences counts as one.
    """

    starts: Ints1d
    ends: Ints1d
    sentences: Ints1d


class _Placed(NamedTuple):
    """The mentions of a document in text order: all arrays are (mentions,).

    Attributes:
        starts, ends: half-open character offsets.
        first, last: the first and the last token of each mention.
        sentence: the sentence that each mention begins in.
    """

    starts: Ints1d
    ends: Ints1d
    first: Ints1d
    last: Ints1d
    sentence: Ints1d


def find_candidates(
    place: int,
    doc: Doc,
    mentions: Collection[Argument],
    *,
    pairs: Collection[tuple[str, str]],
    directed: bool,
    max_distance: int,
    reference: Doc | None = None,
    reads_marks: bool = True,
) -> list[Candidate]:
    """Find the pairs of mentions that may be related.

    With `reads_marks` a document whose text marks two arguments is a single candidate. Otherwise
    two mentions are a candidate if their types are an allowed pair and they share no character. At
    most `max_distance` tokens lie between them, and they begin in the same sentence, if the
    document has sentences. The window is their sentence, but at most `max_distance` tokens on each
    side.

    Args:
        place: the document's place in its batch.
        mentions: of the document, in any order.
        pairs: allowed types of head and tail.
        directed: whether two mentions are two candidates if both orders are allowed. Otherwise they
            are one candidate, and the first in the text is the head.
        max_distance: in tokens.
        reference: the annotated document, whose sentences count if `doc` has none.
    """
    marked = find_marked_arguments(doc.text) if reads_marks else None
    if marked is not None:
        return [Candidate(place, *marked, None, len(doc))]
    ordered = sorted(set(mentions))
    if len(ordered) < 2 or not pairs or not len(doc):
        return []
    tokens = _get_tokens(doc, reference)
    placed = _place(ordered, tokens)
    left, right = _near(placed, max_distance)
    is_head_left, is_head_right = _allowed(ordered, left, right, pairs, directed)
    heads = np.concatenate([left[is_head_left], right[is_head_right]])
    tails = np.concatenate([right[is_head_left], left[is_head_right]])
    order = np.lexsort((tails, heads))
    heads, tails = heads[order], tails[order]
    starts, ends = _windows(tokens, placed, heads, tails, max_distance)
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


def _place(mentions: Sequence[Argument], tokens: _Tokens) -> _Placed:
    starts = np.array([mention.start for mention in mentions])
    ends = np.array([mention.end for mention in mentions])
    first = _token_at(tokens, starts)
    sentence = np.searchsorted(tokens.sentences, first, side="right") - 1
    return _Placed(starts, ends, first, _token_at(tokens, ends - 1), sentence)


def _near(placed: _Placed, max_distance: int) -> tuple[Ints1d, Ints1d]:
    """The pairs of mentions in one sentence that share no character and are not too far apart.

    Returns:
        the left and the right mention of each pair, (pairs,) each.
    """
    mention = np.arange(len(placed.first))
    beyond = np.searchsorted(placed.first, placed.last + 1 + max_distance, side="right")
    beyond = np.minimum(beyond, np.searchsorted(placed.sentence, placed.sentence, side="right"))
    counts = np.maximum(beyond - mention - 1, 0)
    left, right = np.repeat(mention, counts), ranges(mention + 1, counts)
    is_apart = placed.starts[right] >= placed.ends[left]
    return left[is_apart], right[is_apart]


def _allowed(
    mentions: Sequence[Argument],
    left: Ints1d,
    right: Ints1d,
    pairs: Collection[tuple[str, str]],
    directed: bool,
) -> tuple[Ints1d, Ints1d]:
    """Whether the left, and whether the right mention of each pair may be the head: (pairs,)."""
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
    tokens: _Tokens, placed: _Placed, heads: Ints1d, tails: Ints1d, max_distance: int
) -> tuple[Ints1d, Ints1d]:
    """The first token that each pair is read with, and the one after the last: (pairs,) each."""
    begin = np.minimum(placed.first[heads], placed.first[tails])
    end = np.maximum(placed.last[heads], placed.last[tails])
    borders = np.append(tokens.sentences, len(tokens.starts))
    sentence_begin = borders[np.searchsorted(tokens.sentences, begin, side="right") - 1]
    sentence_end = borders[np.searchsorted(tokens.sentences, end, side="right")]
    starts = np.maximum(sentence_begin, begin - max_distance)
    return starts, np.minimum(sentence_end, end + 1 + max_distance)


def group_windows(candidates: Sequence[Candidate], most_words: int) -> list[Ints1d]:
    """The candidates whose windows are encoded together, as indices.

    Args:
        most_words: tokens that are encoded at a time.
    """
    windows = np.flatnonzero([candidate.window is not None for candidate in candidates])
    words = np.array([candidates[i].words for i in windows.tolist()], dtype="int64")
    return [windows[chosen] for chosen in batch_by_length(words, most_words)]
