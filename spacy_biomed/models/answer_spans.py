"""The places where answers may start and end, and the most probable spans, in arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc

from ..annotations.pairs import get_pair
from ..arrays import Floats1d, Ints1d


class DocPlaces(NamedTuple):
    """The places of one document.

    Attributes:
        part: their slice of the batch's places.
        is_pair: whether the document is a pair; another document has no places.
        has_null: whether the first place stands for "no answer".
        words: (words,) the tokens of the other places.
    """

    part: slice
    is_pair: bool
    has_null: bool
    words: Ints1d


class Places(NamedTuple):
    """The places where the answers of a batch may start and end.

    They are the words of the contexts. A place that stands for "no answer" comes before the words
    of its document.

    Attributes:
        tokens: (places,) the token of each place, counted from the beginning of its document.
        first_rows, last_rows: (places,) first and last row of scores of each token.
        counts: (docs,) number of places of each document.
        has_null: (docs,) whether the first place of a document stands for "no answer".
        is_pair: (docs,) whether a document is a pair; another document has no places.
    """

    tokens: Ints1d
    first_rows: Ints1d
    last_rows: Ints1d
    counts: Ints1d
    has_null: Ints1d
    is_pair: Ints1d

    def by_doc(self) -> list[DocPlaces]:
        ends = np.cumsum(self.counts)
        borders = zip((ends - self.counts).tolist(), ends.tolist(), strict=True)
        flags = zip(self.is_pair.tolist(), self.has_null.tolist(), strict=True)
        return [
            DocPlaces(slice(start, end), is_pair, has_null, self.tokens[start + has_null : end])
            for (start, end), (is_pair, has_null) in zip(borders, flags, strict=True)
        ]


def find_places(docs: list[Doc], row_counts: Ints1d, no_answer: bool) -> Places:
    """Find the places where answers may start and end.

    These are the tokens of the context that are not white space and have a row of scores, by
    `row_counts`, (tokens,). With `no_answer` the first such token of the question is a place too,
    which stands for "no answer".
    """
    lengths = np.array([len(doc) for doc in docs], dtype="int64")
    offsets = np.cumsum(lengths) - lengths
    is_word = row_counts > 0
    is_word &= np.concatenate([doc.to_array(IS_SPACE) for doc in docs]) == 0
    chosen = np.zeros(len(row_counts), dtype=bool)
    has_null, is_pair = np.zeros((2, len(docs)), dtype=bool)
    for i, (doc, offset) in enumerate(zip(docs, offsets.tolist(), strict=True)):
        pair = get_pair(doc)
        if pair is None:
            continue
        is_pair[i] = True
        question, context = pair
        chosen[offset + context.start : offset + context.end] = True
        words = np.flatnonzero(is_word[offset + question.start : offset + question.end])
        if no_answer and len(words):
            has_null[i] = chosen[offset + question.start + words[0]] = True
    tokens = np.flatnonzero(chosen & is_word)
    documents = np.repeat(np.arange(len(docs)), lengths)[tokens]
    ends = np.cumsum(row_counts.astype("int64"))[tokens]
    return Places(
        tokens - offsets[documents],
        ends - row_counts[tokens],
        ends - 1,
        np.bincount(documents, minlength=len(docs)),
        has_null,
        is_pair,
    )


def log_sum_exp(values: Floats1d, counts: Ints1d) -> Floats1d:
    """Log of the sum of the exponentials of each run of values: (runs,), each of at least 1."""
    starts = np.cumsum(counts) - counts
    largest = np.maximum.reduceat(values, starts)
    exp = np.exp(values - np.repeat(largest, counts))
    return largest + np.log(np.add.reduceat(exp, starts))


def log_softmax(scores: Floats1d, counts: Ints1d) -> Floats1d:
    """Log probabilities of the scores within each run; runs may be empty."""
    counts = counts[counts > 0]
    return scores - np.repeat(log_sum_exp(scores, counts), counts)


def best_spans(
    log_start: Floats1d, log_end: Floats1d, max_words: int, count: int
) -> tuple[Ints1d, Ints1d, Floats1d]:
    """The most probable spans of words, the best first, in memory linear in the number of words.

    Args:
        log_start, log_end: (words,) log probability that an answer starts or ends at a word.
        max_words: number of words of the longest span.
        count: maximum number of spans.

    Returns:
        first words (spans,), last words (spans,), log probabilities (spans,).
    """
    width = min(max_words, len(log_start))
    if not width:
        nothing = np.zeros(0, dtype="int64")
        return nothing, nothing, np.zeros(0)
    padded = np.concatenate([log_end, np.full(width - 1, -np.inf)])
    ends = sliding_window_view(padded, width)  # (words, width), without a copy
    # The best `count` spans start at no more than `count` words: those with the best single spans.
    starts = _largest(log_start + ends.max(axis=1), count)
    log_probs = (log_start[starts, None] + ends[starts]).ravel()
    chosen = _largest(log_probs, count)
    chosen = chosen[log_probs[chosen] > -np.inf]
    first = starts[chosen // width]
    return first, first + chosen % width, log_probs[chosen]


def _largest(values: Floats1d, count: int) -> Ints1d:
    """Indices of the largest values in descending order; equal values keep their order."""
    return np.argsort(-values, kind="stable")[:count]
