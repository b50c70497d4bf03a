"""Scoring of document classification as the papers do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from spacy.pipeline.textcat_multilabel import textcat_multilabel_score
from spacy.training import Example


def multilabel_scorer_v1() -> Callable:
    """`spacy_biomed.multilabel_scorer.v1`: see `score_multilabel`."""
    return score_multilabel


def score_multilabel(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """spaCy's scores for classes that do not exclude each other, with macro F1 as the main one.

    Macro F1 over the classes is what the BLUE benchmark and the papers report for Hallmarks of
    Cancer; spaCy's own choice is the area under the ROC curve.

    RETURNS: spaCy's `cats_*` scores, where `cats_score` is `cats_macro_f`.
    """
    scores = textcat_multilabel_score(examples, **kwargs)
    if scores.get("cats_macro_f") is not None:
        scores["cats_score"] = scores["cats_macro_f"]
        scores["cats_score_desc"] = "macro F"
    return scores
