"""The places where answers may start and end, and the most probable spans, in arrays."""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc

from ..annotations.pairs import get_pair
from ..arrays import Floats1d, Ints1d
from ..encoders.batching.ragged import borders, split_at


class Places(NamedTuple):
    """The places where answers to a question may start and end: the words of its context."""

    tokens: Ints1d  # (places,) of the document
    first_rows: Ints1d  # (places,) first and last row of scores of each, in its batch
    last_rows: Ints1d
    has_null: bool  # whether the first place stands for "no answer"

    @property
    def words(self) -> Ints1d:
        """(words,) the tokens of the places that stand for words."""
        return self.tokens[self.has_null :]


def find_places(docs: list[Doc], row_counts: Ints1d, no_answer: bool) -> list[Places | None]:
    """Find the places where answers may start and end; None for a document that is not a pair.

    These are the tokens of the context that are not white space and have a row of scores, by
    `row_counts`, (tokens,). With `no_answer` the first such token of the question is a place too,
    which stands for "no answer".
    """
    found: list[Places | None] = []
    offsets = borders([len(doc) for doc in docs])
    ends = np.cumsum(row_counts.astype("int64"))
    counted = zip(split_at(row_counts, offsets), split_at(ends, offsets), strict=True)
    for doc, (counts, own_ends) in zip(docs, counted, strict=True):
        if (pair := get_pair(doc)) is None:
            found.append(None)
            continue
        words = np.flatnonzero((counts > 0) & (doc.to_array(IS_SPACE) == 0))
        question, context = (words[(words >= text.start) & (words < text.end)] for text in pair)
        null = question[: int(no_answer)]
        tokens = np.concatenate([null, context])
        last = own_ends[tokens] - 1
        found.append(Places(tokens, last + 1 - counts[tokens], last, bool(len(null))))
    return found


def log_sum_exp(values: Floats1d) -> float:
    """The logarithm of the sum of the exponentials, without overflow."""
    largest = values.max()
    return largest + np.log(np.exp(values - largest).sum())


def log_softmax(scores: Floats1d) -> Floats1d:
    """(places,) log probabilities of places by their scores."""
    return scores - log_sum_exp(scores) if len(scores) else scores


def best_spans(
    log_start: Floats1d, log_end: Floats1d, max_words: int, count: int
) -> tuple[Ints1d, Ints1d, Floats1d]:
    """The most probable spans of words, the best first, in memory linear in the number of words.

    Args:
        log_start, log_end: (words,) log probability that an answer starts or ends at a word.
        max_words: number of words of the longest span.
        count: maximum number of spans.

    Returns:
        (spans,) first words, last words and log probabilities.
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
