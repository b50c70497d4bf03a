"""The probability of each concept that a mention may mean, and of none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from thinc.types import Floats1d, Floats2d, Ints1d

from ...encoders.batching.ragged import borders, split_at
from ...errors import BiomedError, install_command
from ...models.confidence_curves import Curve, apply_curve, fit_curve
from ...terminologies.terminology import Terminology
from .candidates import FEATURES, CandidateFinder, Candidates, KnownNames, LinkedDocument

# Parts of the training documents, each ranked with the names and the weights of the others.
FOLDS = 5
# Hidden units, weight of the squares in the loss, and steps at most. Chosen by cross-validation on
# the training part of Species-800.
_HIDDEN, _PENALTY, _STEPS = 12, 6.0, 300
# A kind of candidates has a weight of its own if so many are of it.
_LEAST_OF_KIND = 20

# The id and the probability of each candidate of a mention, the most probable first; what is
# missing to 1 is the probability of none.
Ranked = list[tuple[str, float]]
# The candidates of a mention, and the ids of which any is right.
Known = tuple[Candidates, frozenset[str]]


class Weights(NamedTuple):
    """The weights of a network with one hidden layer of tanh and a connection past it."""

    linear: Floats1d  # (inputs,)
    inner: Floats2d  # (inputs, hidden)
    outer: Floats1d  # (hidden,)

    def score(self, inputs: Floats2d) -> Floats1d:
        """(candidates,) scores of (candidates, inputs)."""
        return inputs @ self.linear + np.tanh(inputs @ self.inner) @ self.outer


@dataclass(slots=True)
class LinkRanker:
    """A softmax over the scores of a mention's candidates and that of none of them, which is 0.

    The network's inputs are 1, `FEATURES`, and 1 for the candidate's kind, if it is in `kinds`. The
    curve, which only training fits, calibrates the probability of the best candidate.
    """

    weights: Weights
    kinds: Sequence[str] = ()
    curve: Curve | None = None

    def rank(self, found: Sequence[Candidates]) -> list[Ranked]:
        score = self.weights.score(_describe(found, self.kinds))
        parts = split_at(score, borders([len(own) for own in found]))
        return [_rank_one(list(own), part) for own, part in zip(found, parts, strict=True)]

    def calibrate(self, probability: float) -> float:
        """The calibrated probability of a mention's best candidate."""
        if self.curve is None:
            return probability
        return float(apply_curve(self.curve, np.array([probability]))[0])

    def to_dict(self) -> dict[str, object]:
        """The ranker as JSON can hold it."""
        return {
            "features": list(FEATURES),
            "kinds": self.kinds,
            "weights": [part.round(5).tolist() for part in self.weights],
            "curve": self.curve,
        }

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> LinkRanker:
        """The counterpart of `to_dict`; refuse what a version with other features has trained."""
        if written["features"] != list(FEATURES):
            raise BiomedError(
                "the linker was trained by a version with other features; train it again with "
                "`python -m spacy biomed terminology link`"
            )
        weights = Weights(*map(np.array, written["weights"]))
        return cls(weights, written["kinds"], written["curve"])


# Fitted, without known names, to the training part of Species-800, and to the development parts of
# BC5CDR, NCBI disease and PharmaCoNER with the names of the training parts as the terminology.
_WEIGHTS: dict[str, float] = dict(
    same=0.9,
    normal=4.2,
    loose=3.0,
    abbreviated=3.3,
    similar=-4.5,
    similarity=8.8,
    part=-4.7,
    coverage=1.7,
    preferred=0.8,
    rivals=-0.9,
    short=0.9,
    broader=1.5,
    long_form=0.7,
    initials=1.8,
    adjacent=0.8,
    first=0.5,
    mentioned=-1.8,
    share=0.7,
    votes=0.8,
    relative=0.4,
    narrower=1.5,
)
_LINEAR = np.array([-2.8, *(_WEIGHTS.get(name, 0.0) for name in FEATURES)])
DEFAULT_RANKER = LinkRanker(Weights(_LINEAR, np.zeros((len(_LINEAR), 0)), np.zeros(0)))


def train_linking(
    terminology: Terminology, documents: Sequence[LinkedDocument]
) -> tuple[KnownNames, LinkRanker]:
    """Learn names, and fit a ranker and its calibration.

    The mentions of each fifth of the documents are described with the names of the others.
    """
    if find_spec("scipy") is None:
        raise BiomedError(f"training a linker needs SciPy: {install_command('train')}")
    folds: list[list[Known]] = [[] for _ in range(FOLDS)]
    for fold, own in enumerate(folds):
        others = [one for place, one in enumerate(documents) if place % FOLDS != fold]
        finder = CandidateFinder(terminology, KnownNames.learn(others))
        for document in documents[fold::FOLDS]:
            by_text = finder.find([text for text, _ in document.mentions], document.text)
            for text, ids in document.mentions:
                if ids is not None and by_text[text]:
                    own.append((by_text[text], ids))
    if not any(folds):
        raise BiomedError(
            f"{terminology.path}: no mention of the training documents has an identifier and "
            "resembles a name; check that they have ent.kb_id_, and the labels"
        )
    ranker = _fit([one for own in folds for one in own])
    ranker.curve = _fit_curve(folds)
    return KnownNames.learn(documents), ranker


def _fit(known: Sequence[Known]) -> LinkRanker:
    """Fit a ranker.

    The loss is the negative logarithm of the probability of all right candidates, or of none if no
    candidate is right (McFadden 1974, "Conditional Logit Analysis of Qualitative Choice Behavior").
    """
    found = [candidates for candidates, _ in known]
    counts = Counter(one.kind for own in found for one in own.values())
    kinds = [kind for kind, count in sorted(counts.items()) if count >= _LEAST_OF_KIND]
    inputs = _describe(found, kinds)
    is_right = np.array([id in ids for own, ids in known for id in own], dtype=bool)
    mention = np.repeat(np.arange(len(found)), list(map(len, found)))
    return LinkRanker(_fit_network(inputs, mention, is_right), kinds)


def _fit_network(inputs: Floats2d, mention: Ints1d, is_right: np.ndarray) -> Weights:
    """Fit a network with L-BFGS to (candidates, inputs), and each one's mention and rightness."""
    from scipy.optimize import minimize

    width = inputs.shape[1]
    sizes = [width, width * (1 + _HIDDEN)]
    count = int(mention[-1]) + 1
    has_none = np.bincount(mention[is_right], minlength=count) == 0

    def split(values: Floats1d) -> Weights:
        linear, inner, outer = np.split(values, sizes)
        return Weights(linear, inner.reshape(width, _HIDDEN), outer)

    def loss(values: Floats1d) -> tuple[float, Floats1d]:
        linear, inner, outer = split(values)
        hidden = np.tanh(inputs @ inner)
        score = inputs @ linear + hidden @ outer
        right_score = np.where(is_right, score, -np.inf)
        total = _log_sums(score, mention, np.ones(count))
        right = _log_sums(right_score, mention, has_none.astype("float64"))
        change = np.exp(score - total[mention]) - np.exp(right_score - right[mention])
        of_inner = inputs.T @ (change[:, None] * (1.0 - hidden**2) * outer)
        gradient = np.concatenate([inputs.T @ change, of_inner.ravel(), hidden.T @ change])
        value = (total - right).sum() + _PENALTY / 2 * (values**2).sum()
        return float(value), gradient + _PENALTY * values

    start = np.random.default_rng(0).normal(0.0, 0.3, width * (1 + _HIDDEN) + _HIDDEN)
    start[:width] = 0.0
    options = {"maxiter": _STEPS}
    return split(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x)


def _fit_curve(folds: Sequence[Sequence[Known]]) -> Curve:
    """Fit the calibration to the mentions of each fold, ranked by networks of the others."""
    folds = [own for own in folds if own]
    if len(folds) == 1:
        return {"temperature": 1.0}
    probabilities, is_right = [], []
    for own in folds:
        ranker = _fit([one for other in folds if other is not own for one in other])
        ranked = ranker.rank([candidates for candidates, _ in own])
        for (_, ids), [(best, probability), *_] in zip(own, ranked, strict=True):
            probabilities.append(probability)
            is_right.append(best in ids)
    return fit_curve(np.array(probabilities), np.array(is_right), np.ones(len(is_right)))


def _describe(found: Sequence[Candidates], kinds: Sequence[str]) -> Floats2d:
    """(candidates, 1 + features + kinds) the inputs of the network."""
    rows = []
    for one in (candidate for own in found for candidate in own.values()):
        kind = one.kind
        values = [one.values.get(name, 0.0) for name in FEATURES]
        rows.append([1.0, *values, *(float(kind == other) for other in kinds)])
    return np.array(rows, dtype="float64").reshape(-1, 1 + len(FEATURES) + len(kinds))


def _rank_one(ids: list[str], score: Floats1d) -> Ranked:
    if not ids:
        return []
    highest = max(float(score.max()), 0.0)
    odds = np.exp(score - highest)
    probability = odds / (odds.sum() + np.exp(-highest))
    order = np.argsort(-probability, kind="stable").tolist()
    return [(ids[place], float(probability[place])) for place in order]


def _log_sums(score: Floats1d, mention: Ints1d, none: Floats1d) -> Floats1d:
    """(mentions,) the logarithms of the sums of exponentials of scores, with `none` added."""
    highest = np.zeros(len(none))
    np.maximum.at(highest, mention, score)
    total = np.bincount(mention, np.exp(score - highest[mention]), len(none))
    return highest + np.log(total + none * np.exp(-highest))
