"""The cross-entropy of classes, exclusive or not, and its gradient."""

from thinc.api import get_array_module

from ..arrays import Floats2d


def log_normalizer(scores: Floats2d, exclusive: bool) -> Floats2d:
    """What to subtract from scores, (docs, labels), to get log probabilities, without overflow.

    It is (docs, 1) for a softmax over exclusive labels, or (docs, labels) for a sigmoid of each.
    """
    xp = get_array_module(scores)
    if exclusive:
        largest = scores.max(axis=1, keepdims=True)
        return largest + xp.log(xp.exp(scores - largest).sum(axis=1, keepdims=True))
    return xp.maximum(scores, 0.0) + xp.log1p(xp.exp(-xp.abs(scores)))


def cross_entropy(
    scores: Floats2d, targets: Floats2d, exclusive: bool
) -> tuple[Floats2d, Floats2d]:
    """The cross-entropy of each label, and the gradient of their sum: (docs, labels) each."""
    normalizer = log_normalizer(scores, exclusive)
    losses = targets * (normalizer - scores) if exclusive else normalizer - targets * scores
    return losses, get_array_module(scores).exp(scores - normalizer) - targets


def mean_cross_entropy(
    scores: Floats2d, targets: Floats2d, exclusive: bool
) -> tuple[float, Floats2d]:
    """The mean cross-entropy over documents, or their labels, and its gradient, (docs, labels).

    Targets are NaN where nothing is known. They are changed.
    """
    xp = get_array_module(scores)
    known = ~xp.isnan(targets)
    targets[~known] = 0.0
    losses, d_scores = cross_entropy(scores, targets, exclusive)
    count = max(int((known.all(axis=1) if exclusive else known).sum()), 1)
    return float((known * losses).sum()) / count, known * d_scores / count


def find_probabilities(scores: Floats2d, exclusive: bool) -> Floats2d:
    """(docs, labels) the probabilities that scores stand for."""
    return get_array_module(scores).exp(scores - log_normalizer(scores, exclusive))
