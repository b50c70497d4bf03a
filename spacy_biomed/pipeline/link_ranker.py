"""The probability of each concept that a mention may mean, and of none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from thinc.types import Floats1d, Floats2d, Ints1d

from ..errors import BiomedError, install_command
from ..models.confidence_curves import ConfidenceCurve, fit_curve
from ..terminologies.terminology import Terminology
from .link_candidates import FEATURES, CandidateFinder, Candidates, KnownNames

# Parts of the training documents, each ranked with the names of the others.
FOLDS = 5

# Weight of the squares of weights in the loss.
_PENALTY = 1.0
# A type has a weight of its own with so many candidates.
_LEAST_OF_TYPE = 20


class LinkedDocument(NamedTuple):
    """A document to learn linking from.

    Attributes:
        text: of the document.
        mentions: text of each mention, in order, with the ids of its concepts, of which any is
            right: none if it has no concept in the terminology, and None if it is not annotated.
    """

    text: str
    mentions: list[tuple[str, frozenset[str] | None]]


class Ranked(NamedTuple):
    """Candidates of a mention, the most probable first.

    Attributes:
        ids: of their concepts.
        probabilities: of each; what is missing to 1 is that of none.
    """

    ids: list[str]
    probabilities: list[float]


class LinkRanker:
    """A conditional logit model: a softmax over a mention's candidates, and none of them.

    McFadden 1974, "Conditional Logit Analysis of Qualitative Choice Behavior".

    Attributes:
        weights: by the name of the feature.
        bias: weight of being a candidate; the log odds of none are 0.
        types: by the type of the concept.
        curve: from the probability of the best candidate to the calibrated one; None before
            training.
    """

    def __init__(
        self,
        weights: dict[str, float],
        bias: float,
        types: dict[str, float] | None = None,
        curve: ConfidenceCurve | None = None,
    ):
        self.weights = weights
        self.bias = bias
        self.types = types or {}
        self.curve = curve
        self._vector = np.array([weights.get(name, 0.0) for name in FEATURES])

    def rank(self, found: Sequence[Candidates]) -> list[Ranked]:
        """Rank the candidates of each mention."""
        every = [one for own in found for one in own.values()]
        if not every:
            return [Ranked([], []) for _ in found]
        score = np.array([one.values for one in every]) @ self._vector + self.bias
        if self.types:
            score += [self.types.get(one.type, 0.0) for one in every]
        first, ranked = 0, []
        for own in found:
            part = score[first : first + len(own)]
            first += len(own)
            ranked.append(self._rank_one(list(own), part))
        return ranked

    def _rank_one(self, ids: list[str], score: Floats1d) -> Ranked:
        if not ids:
            return Ranked([], [])
        highest = max(float(score.max()), 0.0)
        odds = np.exp(score - highest)
        probability = odds / (odds.sum() + np.exp(-highest))
        order = np.argsort(-probability, kind="stable").tolist()
        return Ranked([ids[place] for place in order], probability[order].tolist())

    def calibrate(self, probability: float) -> float:
        """The calibrated probability of a mention's best candidate."""
        return probability if self.curve is None else float(self.curve(np.array([probability]))[0])

    def to_dict(self) -> dict[str, Any]:
        """The ranker as JSON can hold it."""
        curve = self.curve.to_dict() if self.curve else None
        return {"weights": self.weights, "bias": self.bias, "types": self.types, "curve": curve}

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> LinkRanker:
        """The counterpart of `to_dict`."""
        curve = ConfidenceCurve.from_dict(written["curve"]) if written["curve"] else None
        return cls(written["weights"], written["bias"], written["types"], curve)


# Fitted on the training parts of Species-800 and BC5CDR, without what is known from training.
DEFAULT_RANKER = LinkRanker({"normal": 6.0}, -3.0)


def learn_names(documents: Sequence[LinkedDocument]) -> KnownNames:
    """The names that documents have for concepts."""
    return KnownNames.learn(
        (text, ids) for document in documents for text, ids in document.mentions if ids
    )


def train_linking(
    terminology: Terminology, documents: Sequence[LinkedDocument]
) -> tuple[KnownNames, LinkRanker]:
    """Learn names, and fit a ranker and its calibration.

    The mentions of a fifth of the documents are ranked with the names of the others, so that names
    that were not seen have their weight, and probabilities are of new documents.

    Raises:
        BiomedError: if no mention has candidates, or SciPy is not installed.
    """
    found: list[Candidates] = []
    gold: list[frozenset[str]] = []
    for fold in range(FOLDS):
        others = [one for place, one in enumerate(documents) if place % FOLDS != fold]
        finder = CandidateFinder(terminology, learn_names(others))
        for document in documents[fold::FOLDS]:
            by_text = finder.find([text for text, _ in document.mentions], document.text)
            known = [(by_text[text], ids) for text, ids in document.mentions if ids is not None]
            found += [candidates for candidates, _ in known]
            gold += [ids for _, ids in known if ids is not None]
    if not any(found):
        raise BiomedError(
            f"{terminology.path}: no mention of the training documents has an identifier and "
            "resembles a name; check that they have ent.kb_id_, and the labels"
        )
    return learn_names(documents), fit_ranker(found, gold)


def fit_ranker(found: Sequence[Candidates], gold: Sequence[frozenset[str]]) -> LinkRanker:
    """Fit a ranker, and its calibration, to mentions whose concepts are known.

    Args:
        found: the candidates of each mention.
        gold: ids of the concepts of each mention, of which any is right; empty for none.

    Raises:
        BiomedError: if SciPy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise BiomedError(f"training a linker needs SciPy: {install_command('train')}") from error
    types = Counter(one.type for own in found for one in own.values())
    common = [type for type, count in sorted(types.items()) if count >= _LEAST_OF_TYPE]
    features = _describe(found, common)
    is_gold = np.array(
        [id in ids for own, ids in zip(found, gold, strict=True) for id in own], dtype=bool
    )
    mention = np.repeat(np.arange(len(found)), list(map(len, found)))
    has_none = np.bincount(mention[is_gold], minlength=len(found)) == 0

    def loss(weights: Floats1d) -> tuple[float, Floats1d]:
        score = features @ weights
        total = _log_sums(score, mention, np.ones(len(found)))
        right_score = np.where(is_gold, score, -np.inf)
        right = _log_sums(right_score, mention, has_none.astype("float64"))
        change = np.exp(score - total[mention]) - np.exp(right_score - right[mention])
        value = (total - right).sum() + _PENALTY / 2 * (weights**2).sum()
        return float(value), features.T @ change + _PENALTY * weights

    fitted = minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B").x.round(4)
    bias, own, of_types = np.split(fitted, [1, 1 + len(FEATURES)])
    ranker = LinkRanker(
        dict(zip(FEATURES, own.tolist(), strict=True)),
        float(bias[0]),
        dict(zip(common, of_types.tolist(), strict=True)),
    )
    best = [(one, ids) for one, ids in zip(ranker.rank(found), gold, strict=True) if one.ids]
    ranker.curve = fit_curve(
        np.array([one.probabilities[0] for one, _ in best]),
        np.array([one.ids[0] in ids for one, ids in best]),
        np.ones(len(best)),
    )
    return ranker


def _describe(found: Sequence[Candidates], types: Sequence[str]) -> Floats2d:
    """(candidates, 1 + features + types)"""
    every = [one for own in found for one in own.values()]
    places = {type: place for place, type in enumerate(types)}
    of_type = np.zeros((len(every), len(types) + 1))
    of_type[np.arange(len(every)), [places.get(one.type, -1) for one in every]] = 1.0
    values = np.array([one.values for one in every])
    return np.hstack([np.ones((len(every), 1)), values, of_type[:, :-1]])


def _log_sums(score: Floats1d, mention: Ints1d, none: Floats1d) -> Floats1d:
    """(mentions,) the logarithms of the sums of exponentials of scores, with `none` added."""
    highest = np.zeros(len(none))
    np.maximum.at(highest, mention, score)
    total = np.bincount(mention, np.exp(score - highest[mention]), len(none))
    return highest + np.log(total + none * np.exp(-highest))
