"""Calibrated probabilities: numbers worked out by hand, order, and few predictions."""

import math

import numpy as np
import pytest

from spacy_biomed.models.confidence_curves import (
    OWN_SHARE,
    apply_curve,
    apply_label_curves,
    fit_curve,
    fit_isotonic,
    fit_label_curves,
    fit_temperature,
)

GRID = np.linspace(0.0, 1.0, 1001)


def draw(count, rng, share=lambda p: p**2):
    """Predictions whose share of correct ones is a function of the model's probability."""
    probability = rng.uniform(0.01, 1.0, count)
    return probability, rng.uniform(size=count) < share(probability), np.ones(count)


def test_isotonic_regression_pools_neighbours_and_adds_average_predictions():
    """Three blocks of 20, of which 4, 1 and 18 are correct: with one of each kind, 24 of 62.

    Two predictions of average quality are 48 / 62 correct. The first two blocks fall, from 4 to 1,
    so they are pooled, at the mean of their probabilities.
    """
    probability = np.repeat([0.3, 0.5, 0.9], 20)
    is_correct = np.concatenate([np.arange(20) < correct for correct in (4, 1, 18)])
    given, calibrated = fit_isotonic(probability, is_correct, np.ones(60))
    assert given == pytest.approx([0.4, 0.9])
    assert calibrated == pytest.approx([(5 + 96 / 62) / 44, (18 + 48 / 62) / 22])


def test_a_weight_of_two_is_a_prediction_twice():
    probability = np.repeat([0.3, 0.9], 20)
    is_correct = np.concatenate([np.arange(20) < 4, np.arange(20) < 18])
    weight = np.where(np.arange(40) < 20, 1.0, 2.0)
    _, calibrated = fit_isotonic(probability, is_correct, weight)
    average = (4 + 36 + 1) / 62
    assert calibrated == pytest.approx([(4 + 2 * average) / 22, (36 + 2 * average) / 42])


def test_a_curve_is_linear_between_its_points_and_keeps_a_little_of_the_model():
    curve = {"given": [0.4, 0.8], "calibrated": [0.2, 0.6]}
    shares = np.array([0.2, 0.2, 0.4, 0.6])
    given = np.array([0.1, 0.4, 0.6, 1.0])
    assert apply_curve(curve, given) == pytest.approx((1 - OWN_SHARE) * shares + OWN_SHARE * given)


def test_a_temperature_divides_the_log_odds():
    # Odds of 9 become 3.
    assert apply_curve({"temperature": 2.0}, np.array([0.9])) == pytest.approx([0.75])


def test_the_temperature_is_that_of_the_shares():
    """Three quarters of the predictions of 0.9, whose odds are 9, are right: odds of 3."""
    is_correct = np.arange(100_000) % 4 > 0
    fitted = fit_temperature(np.full(100_000, 0.9), is_correct, np.ones(100_000))
    assert fitted == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("count", [1, 5, 99, 100, 5000])
@pytest.mark.parametrize("correct", ["some", "all", "none"])
def test_confidence_rises_with_the_probability_and_is_never_0_or_1(count, correct):
    probability, is_correct, weight = draw(count, np.random.default_rng(count))
    if correct != "some":
        is_correct = np.full(count, correct == "all")
    calibrated = apply_curve(fit_curve(probability, is_correct, weight), GRID[1:-1])
    assert (np.diff(calibrated) > 0).all()
    assert calibrated.min() > 0.0 and calibrated.max() < 1.0


def test_the_shares_of_correct_predictions_are_found():
    rng = np.random.default_rng(0)
    curve = fit_curve(*draw(20_000, rng))
    inner = GRID[100:901]
    off = np.abs(apply_curve(curve, inner) - inner**2)
    assert off.max() < 0.1 and off.mean() < 0.02


def test_few_predictions_give_a_temperature():
    rng = np.random.default_rng(0)
    assert list(fit_curve(*draw(99, rng))) == ["temperature"]
    assert list(fit_curve(*draw(100, rng))) == ["given", "calibrated"]


def test_a_label_with_enough_predictions_has_its_own_curve():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1], [199, 200])
    probability = rng.uniform(0.01, 1.0, 399)
    is_correct = rng.uniform(size=399) < np.where(label == 0, probability, probability**3)
    labels = ["FEW", "ENOUGH", "NONE"]
    fitted = fit_label_curves(probability, is_correct, np.ones(399), label, labels)
    own, pooled = fitted["labels"], fitted["pooled"]
    assert list(own) == ["ENOUGH"]
    calibrated = apply_label_curves(fitted, np.full(3, 0.7), np.array([0, 1, 2]), labels)
    assert calibrated[0] == calibrated[2] == apply_curve(pooled, np.array([0.7]))[0]
    assert calibrated[1] == apply_curve(own["ENOUGH"], np.array([0.7]))[0] < calibrated[0]
    assert math.isclose(apply_curve({"temperature": 1.0}, np.array([0.25]))[0], 0.25)
