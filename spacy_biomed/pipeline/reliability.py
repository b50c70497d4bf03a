"""How well probabilities agree with the share of correct predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from thinc.types import Floats1d, Ints1d

BINS = 10


class Reliability(NamedTuple):
    """Predictions by their confidence, in ten bins of the same width, (bins,) each.

    They are counted, with the sum of their confidences and the number of correct ones.
    """

    count: Ints1d
    confidence: Floats1d
    correct: Ints1d

    @classmethod
    def measure(
        cls, confidence: Sequence[float], is_correct: Sequence[bool] | np.ndarray
    ) -> Reliability:
        """Count predictions, (predictions,) each. A confidence of 1 is in the last bin."""
        values = np.asarray(confidence, dtype="float64")
        bins = np.minimum((values * BINS).astype("int64"), BINS - 1)
        right = np.asarray(is_correct, dtype=bool)
        return cls(
            np.bincount(bins, minlength=BINS),
            np.bincount(bins, values, BINS),
            np.bincount(bins[right], minlength=BINS),
        )

    @property
    def error(self) -> float | None:
        """The expected calibration error, from 0 to 1; None without predictions.

        The mean distance of a bin's mean confidence to its share of correct predictions, weighted
        by its number of predictions (Guo et al. 2017, "On Calibration of Modern Neural Networks",
        section 2, "Expected Calibration Error").
        """
        total = int(self.count.sum())
        return float(np.abs(self.confidence - self.correct).sum()) / total if total else None

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[float]]) -> Reliability:
        """The counterpart of `to_rows`."""
        count, confidence, correct = np.array(rows).T
        return cls(count.astype("int64"), confidence, correct.astype("int64"))

    def to_rows(self) -> list[list[float]]:
        """For each bin the number of predictions, the sum of confidences, and the correct ones."""
        return [list(row) for row in zip(*(part.tolist() for part in self), strict=True)]
