"""Paired tests of two ways to train, over the documents of a test part.

The score of each sample is computed from the documents' contributions. These are exchanged
(approximate randomisation: Noreen 1989, "Computer-Intensive Methods for Testing Hypotheses") or
drawn with replacement (paired bootstrap: Koehn 2004, "Statistical Significance Tests for Machine
Translation Evaluation"). With several seeds, a document's contributions with all seeds go together.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import bootstrap, permutation_test

from ..arrays import Floats3d
from ..pipeline.similarity import correlate

# What each document contributes, by label, as in `EncoderHead.tally`.
Tallies = list[dict[str, list[float]]]

MICRO, MACRO = ("f", "micro_f", "acc"), ("score", "macro_f")


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The comparison of a score of two systems.

    Attributes:
        difference: of the first from the second, 0 to 1.
        low, high: confidence interval of the difference, by the percentiles of a paired bootstrap.
        p_value: two-sided, of the permutation test.
    """

    difference: float
    low: float
    high: float
    p_value: float
    documents: int


def compare_tallies(
    first: Sequence[Tallies],
    second: Sequence[Tallies],
    metric: str,
    *,
    resamples: int = 2000,
    level: float = 0.95,
) -> PairedTest | None:
    """Compare two systems on the same documents.

    Args:
        first, second: the contributions of the same documents with each seed.
        metric: ending of the score's name, such as "f".

    Returns:
        None if the score is not made of contributions, or there are fewer than two documents.
    """

    arrays, labels = _stack([*first, *second])
    score = find_score(metric, labels)
    count = len(arrays[0]) if arrays else 0
    if score is None or count < 2 or any(len(one) != count for one in arrays):
        return None
    systems = arrays[: len(first)], arrays[len(first) :]
    seeds = math.lcm(len(first), len(second))  # of both, so that documents can be exchanged
    pooled = np.concatenate([np.stack(one * (seeds // len(one)), axis=1) for one in systems])

    def difference(own: np.ndarray, other: np.ndarray) -> float:
        return score(pooled[own]) - score(pooled[other])

    # Documents by number: the first system's, and those of the second after them.
    documents = np.arange(count), np.arange(count, 2 * count)
    options: dict[str, object] = {"vectorized": False, "n_resamples": resamples}
    rng = np.random.default_rng(0)
    result = permutation_test(documents, difference, permutation_type="samples", rng=rng, **options)
    rng = np.random.default_rng(0)
    options |= {"paired": True, "confidence_level": level, "method": "percentile"}
    interval = bootstrap(documents, difference, rng=rng, **options).confidence_interval
    low, high = float(interval.low), float(interval.high)
    return PairedTest(float(result.statistic), low, high, float(result.pvalue), count)


def score_tallies(tallies: Tallies, metric: str) -> float | None:
    """A score of documents' contributions; None if it is not made of them."""
    arrays, labels = _stack([tallies])
    score = find_score(metric, labels)
    return None if score is None or not len(arrays[0]) else score(np.stack(arrays, axis=1))


def find_score(metric: str, labels: list[str]) -> Callable[[np.ndarray], float] | None:
    """The function for a score of contributions, (documents, seeds, labels, numbers)."""
    if metric in MICRO:
        return lambda drawn: float(_f1(drawn.sum(axis=(0, 1, 2))))
    if metric in MACRO:
        return _macro_f1
    if metric == "pearson":
        return lambda drawn: correlate(*drawn.reshape(-1, 2).T) or 0.0
    if metric in labels:  # the scores of a question
        return lambda drawn: float(drawn[:, :, labels.index(metric), 0].mean())
    return None


def _f1(counts: np.ndarray) -> np.ndarray:
    """F1 of numbers of what is found, wrong and missed, (..., 3)."""
    found, wrong, missed = np.moveaxis(counts, -1, 0)
    return 2 * found / np.maximum(2 * found + wrong + missed, 1)


def _macro_f1(drawn: np.ndarray) -> float:
    counts = drawn.sum(axis=(0, 1))
    occurring = counts[counts.sum(axis=-1) > 0]
    return float(_f1(occurring).mean()) if len(occurring) else 0.0


def _stack(systems: Sequence[Tallies]) -> tuple[list[Floats3d], list[str]]:
    """The contributions as arrays, (documents, labels, numbers), and the labels of all."""
    labels = sorted({label for tallies in systems for one in tallies for label in one})
    numbers = max((len(n) for tallies in systems for t in tallies for n in t.values()), default=3)
    index = {label: place for place, label in enumerate(labels)}
    arrays: list[Floats3d] = []
    for tallies in systems:
        array = np.zeros((len(tallies), len(labels), numbers))
        for document, one in enumerate(tallies):
            for label, values in one.items():
                array[document, index[label]] = values
        arrays.append(array)
    return arrays, labels
