"""Places of answers and the best spans, against brute force and in memory."""

import time
import tracemalloc

import numpy as np
import pytest
import spacy

from spacy_biomed.annotations.pairs import pair
from spacy_biomed.models.answer_spans import best_spans, find_places, log_softmax


def brute_force(log_start, log_end, max_words, count):
    spans = [
        (log_start[i] + log_end[j], -i, -j)
        for i in range(len(log_start))
        for j in range(i, min(i + max_words, len(log_start)))
    ]
    return [(-i, -j, score) for score, i, j in sorted(spans, reverse=True)[:count]]


@pytest.mark.parametrize("words", [1, 2, 7, 40])
@pytest.mark.parametrize("max_words", [1, 3, 100])
@pytest.mark.parametrize("count", [1, 5, 60])
def test_the_best_spans_are_those_of_brute_force(words, max_words, count):
    rng = np.random.default_rng(words)
    log_start, log_end = rng.normal(size=(2, words))
    found = best_spans(log_start, log_end, max_words, count)
    expected = brute_force(log_start, log_end, max_words, count)
    assert [tuple(span) for span in np.array(found[:2]).T.tolist()] == [s[:2] for s in expected]
    np.testing.assert_allclose(found[2], [score for *_, score in expected])


def test_no_words_have_no_spans():
    assert [len(array) for array in best_spans(np.zeros(0), np.zeros(0), 5, 5)] == [0, 0, 0]


def test_a_hundred_thousand_words_need_neither_a_quadratic_matrix_nor_seconds():
    log_start, log_end = np.random.default_rng(0).normal(size=(2, 100_000))
    tracemalloc.start()
    begin = time.process_time()
    starts, ends, _ = best_spans(log_start, log_end, 30, 20)
    seconds = time.process_time() - begin
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(starts) == 20 and ((ends - starts) < 30).all()
    assert peak < 20e6 and seconds < 2.0


def test_white_space_is_no_place_of_an_answer_and_does_not_make_it_longer():
    nlp = spacy.blank("en")
    docs = [pair(nlp, " Which ?", " a \n  b"), nlp("no pair")]
    assert [token.text for token in docs[0]] == [" ", "Which", "?", "\x1e ", "a", "\n  ", "b"]
    counts = np.ones(len(docs[0]) + len(docs[1]), dtype="int32")
    places, nothing = find_places(docs, counts, no_answer=False)
    assert places.tokens.tolist() == places.words.tolist() == [4, 6]
    assert nothing is None
    places, _ = find_places(docs, counts, no_answer=True)
    assert places.tokens.tolist() == [1, 4, 6] and places.words.tolist() == [4, 6]
    counts[4] = 0  # a word without word pieces, beyond where a pair was truncated
    places, _ = find_places(docs, counts, no_answer=False)
    assert places.tokens.tolist() == [6]


def test_places_have_probabilities_and_none_are_fine():
    np.testing.assert_allclose(np.exp(log_softmax(np.array([1.0, 1.0]))), [0.5, 0.5])
    np.testing.assert_allclose(log_softmax(np.array([1000.0, 0.0])), [0.0, -1000.0])
    assert len(log_softmax(np.zeros(0))) == 0
