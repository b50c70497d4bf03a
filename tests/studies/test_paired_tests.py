"""Paired tests: exact numbers of small cases, and scores computed of documents' contributions."""

from itertools import product
from statistics import fmean

import pytest

from spacy_biomed.studies.paired_tests import compare_tallies, score_tallies


def right_or_wrong(*right):
    """Documents of one class each, found or missed."""
    return [{"A": [1.0, 0.0, 0.0] if one else [0.0, 1.0, 1.0]} for one in right]


FIRST, SECOND = right_or_wrong(1, 1, 1, 1, 1, 0), right_or_wrong(0, 0, 0, 1, 1, 0)


def test_the_permutation_test_of_few_documents_is_exact():
    """Two of the 8 ways to exchange the three documents that differ are as extreme."""
    test = compare_tallies([FIRST], [SECOND], "acc")
    differences = [abs(sum(signs)) / 6 for signs in product((1, -1), repeat=3)]
    expected = fmean(difference >= 3 / 6 for difference in differences)
    assert test.difference == pytest.approx(3 / 6)
    assert test.p_value == pytest.approx(expected) == 0.25
    assert test.documents == 6
    assert 0 <= test.low < test.difference < test.high <= 1


def test_a_system_does_not_differ_from_itself():
    test = compare_tallies([FIRST, FIRST], [FIRST, FIRST], "micro_f")
    assert (test.difference, test.low, test.high, test.p_value) == (0, 0, 0, 1)


def test_the_systems_can_be_exchanged():
    ours, theirs = (compare_tallies([a], [b], "acc") for a, b in [(FIRST, SECOND), (SECOND, FIRST)])
    assert ours.difference == -theirs.difference and ours.p_value == theirs.p_value


def test_the_seeds_of_a_document_go_together():
    """Three seeds with the same result are no more evidence than one."""
    once = compare_tallies([FIRST], [SECOND], "acc")
    thrice = compare_tallies([FIRST] * 3, [SECOND] * 3, "acc")
    assert (thrice.difference, thrice.p_value) == (once.difference, once.p_value)


def test_rows_may_have_other_numbers_of_seeds():
    """Each seed of the one with fewer counts more."""
    once = compare_tallies([FIRST], [SECOND], "acc")
    more = compare_tallies([FIRST] * 2, [SECOND] * 3, "acc")
    assert (more.difference, more.p_value) == (once.difference, once.p_value)
    mixed = compare_tallies([FIRST], [FIRST, SECOND], "acc")
    assert mixed.difference == pytest.approx(once.difference / 2)


def test_scores_are_computed_of_contributions():
    documents = [{"A": [2.0, 1.0, 0.0]}, {"A": [0.0, 0.0, 1.0], "B": [1.0, 0.0, 0.0]}]
    assert score_tallies(documents, "f") == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert score_tallies(documents, "macro_f") == pytest.approx((4 / 6 + 1) / 2)
    pairs = [{"similarity": [x, y]} for x, y in [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]]
    assert score_tallies(pairs, "pearson") == pytest.approx(1.0)
    questions = [{"strict": [1.0], "mrr": [1.0]}, {"strict": [0.0], "mrr": [0.5]}]
    assert score_tallies(questions, "mrr") == 0.75


def test_a_score_that_is_not_of_documents_is_not_tested():
    assert compare_tallies([FIRST], [SECOND], "text_macro_f") is None
    assert compare_tallies([FIRST], [SECOND[:-1]], "acc") is None
    assert compare_tallies([FIRST[:1]], [SECOND[:1]], "acc") is None


@pytest.mark.parametrize("metric", ["f", "macro_f"])
def test_documents_without_anything_gold_or_found_do_not_differ(metric):
    empty = [{}, {}, {}]
    assert score_tallies(empty, metric) == 0.0
    test = compare_tallies([empty], [empty], metric)
    assert (test.difference, test.p_value, test.documents) == (0.0, 1.0, 3)
