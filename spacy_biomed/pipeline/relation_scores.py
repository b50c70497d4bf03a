"""Scores of relations: micro-averaged precision, recall and F1, over all labels and for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example

from ..corpora.marked_arguments import find_marked_arguments
from .label_scores import LabelScores
from .relation_candidates import get_arguments


def score_relations(
    examples: Iterable[Example], *, labels: Iterable[str], directed: bool = True, **cfg: Any
) -> dict[str, Any]:
    """Micro-averaged precision, recall and F1 of relations in annotated documents.

    The absence of a relation is not a class (Lewis et al. 2020, "Pretrained Language Models for
    Biomedical and Clinical Tasks"; Peng et al. 2020, "An Empirical Study of Multi-Task Learning on
    BERT for Biomedical Text Mining"). A relation is correct if its label is, and if its arguments
    have the right characters and types; with `directed` also the right order. In a text that marks
    its two arguments only the label counts. Gold relations between entities that were not found
    count as missed.

    Args:
        examples: predicted and reference documents.
        labels: of the component; predicted relations with other labels belong to other components.
        directed: whether the order of the arguments matters.

    Returns:
        `relations_micro_p`, `_r`, `_f` and `relations_per_type`; all are None if no document is
        annotated.
    """
    labels = set(labels)
    scores = LabelScores(labels)
    for example in examples:
        if example.reference._.relations is None:
            continue
        gold = _get_facts(example.reference, directed)
        predicted = {fact for fact in _get_facts(example.predicted, directed) if fact[-1] in labels}
        scores.add(gold, predicted)
    return scores.scores("relations_micro", "relations_per_type")


def _get_facts(doc: Doc, directed: bool) -> set[tuple]:
    """What each relation states: its arguments, and last its label."""
    marked = find_marked_arguments(doc.text)
    return {
        (*(marked or get_arguments(relation, directed)), relation.label)
        for relation in doc._.relations or ()
    }
