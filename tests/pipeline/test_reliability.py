"""The expected calibration error, worked out by hand."""

import pytest

from spacy_biomed.pipeline.reliability import Reliability


def test_the_error_is_the_weighted_distance_of_confidence_and_correctness():
    """Four predictions of 0.9 of which three are right, and one of 0.25 that is right.

    In their bins the distances are |0.9 - 0.75| and |0.25 - 1|: (4 * 0.15 + 1 * 0.75) / 5.
    """
    measured = Reliability.measure([0.9, 0.9, 0.9, 0.9, 0.25], [True, True, True, False, True])
    assert measured.error == pytest.approx(0.27)
    assert measured.count.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 4]
    rows = measured.to_rows()
    assert len(rows) == 10
    assert rows[2] == [1, 0.25, 1]
    assert rows[9] == [4, pytest.approx(3.6), 3]


def test_predictions_of_a_bin_make_up_for_each_other():
    assert Reliability.measure([0.52, 0.58, 0.55], [True, False, False]).error == pytest.approx(
        abs(1.65 - 1) / 3
    )


def test_a_confidence_of_one_is_in_the_last_bin():
    measured = Reliability.measure([1.0, 0.0], [True, False])
    assert measured.count.tolist() == [1, *[0] * 8, 1]
    assert measured.error == 0.0


def test_without_predictions_there_is_no_error():
    assert Reliability.measure([], []).error is None
