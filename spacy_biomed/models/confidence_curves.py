"""Calibrated probabilities: curves from a model's probability to the share of correct predictions.

Curves are fitted with SciPy and applied with NumPy alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Floats1d, Ints1d

# Predictions of a block of isotonic regression, and how many of average quality are added to each.
BLOCK, PRIOR = 20, 2.0
# Isotonic regression needs so many predictions, and a label so many to have its own curve.
LEAST, LEAST_OF_LABEL = 100, 200
# How much of the model's own probability is kept, so that its order is.
OWN_SHARE = 0.001
# Smallest distance of a probability from 0 and 1 for its log odds.
_LEAST_ODDS = 1e-6
# Digits of written numbers: srsly drops the eleventh.
_DIGITS = 9

# An increasing map from a model's probability to a calibrated one, as JSON can hold it. It has a
# `temperature`, which divides the log odds of the probability. Or it is linear between points: the
# probabilities of the model, `given`, and the shares of correct predictions there, `calibrated`.
Curve = dict[str, Any]
# `pooled`, fitted on all predictions, and by label the curves of `labels` with 200 or more.
LabelCurves = dict[str, Any]


def apply_curve(curve: Curve, probability: Floats1d) -> Floats1d:
    """Calibrate probabilities, (predictions,)."""
    if "temperature" in curve:
        return 1.0 / (1.0 + np.exp(-log_odds(probability) / curve["temperature"]))
    shares = np.interp(probability, curve["given"], curve["calibrated"])
    return (1.0 - OWN_SHARE) * shares + OWN_SHARE * probability


def apply_label_curves(
    curves: LabelCurves, probability: Floats1d, label: Ints1d, labels: Sequence[str]
) -> Floats1d:
    """Calibrate probabilities, by the place of each label in `labels`: (predictions,) each."""
    calibrated = apply_curve(curves["pooled"], probability)
    for place, name in enumerate(labels):
        if name in curves["labels"]:
            of_label = label == place
            calibrated[of_label] = apply_curve(curves["labels"][name], probability[of_label])
    return calibrated


def log_odds(probability: Floats1d) -> Floats1d:
    """(predictions,) the logarithm of p / (1 - p)."""
    clipped = np.clip(probability, _LEAST_ODDS, 1.0 - _LEAST_ODDS)
    return np.log(clipped) - np.log1p(-clipped)


def fit_curve(
    probability: Floats1d, is_correct: np.ndarray, weight: Floats1d, *, least: float = LEAST
) -> Curve:
    """Fit a curve: isotonic regression for `least` predictions or more, else a temperature.

    The arrays are (predictions,), at least one; each counts by its weight, above 0.
    """
    if len(probability) < least:
        return {"temperature": round(fit_temperature(probability, is_correct, weight), _DIGITS)}
    given, calibrated = fit_isotonic(probability, is_correct, weight)
    return {
        "given": given.round(_DIGITS).tolist(),
        "calibrated": calibrated.round(_DIGITS).tolist(),
    }


def fit_isotonic(
    probability: Floats1d, is_correct: np.ndarray, weight: Floats1d
) -> tuple[Floats1d, Floats1d]:
    """Fit a non-decreasing curve by isotonic regression.

    Zadrozny and Elkan 2002, "Transforming Classifier Scores into Accurate Multiclass Probability
    Estimates", section 3.3, of blocks of 20 predictions with neighbouring probabilities. Two
    predictions of average quality are added to each block, and one of each kind to the average, so
    that few predictions are not taken for certain. A point of the curve is the mean probability of
    the blocks that isotonic regression has pooled, and their share, so that the curve has no steps
    (Oron and Flournoy 2017, "Centered Isotonic Regression"). Both arrays are (points,).
    """
    from scipy.optimize import isotonic_regression

    order = np.argsort(probability, kind="stable")
    probability, is_correct, weight = probability[order], is_correct[order], weight[order]
    count = max(len(order) // BLOCK, 1)
    block = np.arange(len(order)) * count // len(order)
    # Equal probabilities are in the block of the first of them.
    block = np.unique(block[np.searchsorted(probability, probability)], return_inverse=True)[1]
    total = np.bincount(block, weight)
    correct = np.bincount(block, weight * is_correct)
    average = (correct.sum() + 1) / (total.sum() + 2)
    fitted = isotonic_regression((correct + PRIOR * average) / (total + PRIOR), weights=total)
    first = fitted.blocks[:-1]
    given = np.add.reduceat(np.bincount(block, weight * probability), first)
    return given / np.add.reduceat(total, first), fitted.x[first]


def fit_temperature(probability: Floats1d, is_correct: np.ndarray, weight: Floats1d) -> float:
    """Fit the temperature with the least cross-entropy, from 0.5 to 10.

    Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2, for two classes. As in
    Platt 1999, "Probabilistic Outputs for Support Vector Machines", section 2.2, the targets are
    not 0 and 1 but have a prediction of each kind added, so that few predictions give no extreme
    temperature.
    """
    from scipy.optimize import minimize_scalar

    right, wrong = np.count_nonzero(is_correct), np.count_nonzero(~is_correct)
    target = np.where(is_correct, (right + 1) / (right + 2), 1 / (wrong + 2))
    odds = log_odds(probability)

    def cross_entropy(log_temperature: float) -> float:
        scaled = odds / np.exp(log_temperature)
        return float((weight * (np.logaddexp(0.0, scaled) - target * scaled)).sum())

    bounds = (np.log(0.5), np.log(10.0))
    return float(np.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded").x))


def fit_label_curves(
    probability: Floats1d,
    is_correct: np.ndarray,
    weight: Floats1d,
    label: Ints1d,
    labels: Sequence[str],
    least: float = LEAST,
) -> LabelCurves:
    """Fit a curve for each label with 200 predictions or more, and one on all predictions.

    `label` has the place of each prediction's label in `labels`; others are as in `fit_curve`.
    """
    arrays = probability, is_correct, weight
    by_label = {
        name: fit_curve(*(array[label == place] for array in arrays), least=least)
        for place, name in enumerate(labels)
        if np.count_nonzero(label == place) >= LEAST_OF_LABEL
    }
    return {"pooled": fit_curve(*arrays, least=least), "labels": by_label}
