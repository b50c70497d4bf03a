"""Scores of relations: micro-averaged precision, recall and F1, over all labels and for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.training import Example

from ..corpora.marked_arguments import find_marked_arguments
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
    is_annotated, total = False, PRFScore()
    per_type = {label: PRFScore() for label in sorted(labels)}
    for example in examples:
        if example.reference._.relations is None:
            continue
        is_annotated = True
        gold = _get_facts(example.reference, directed)
        predicted = {fact for fact in _get_facts(example.predicted, directed) if fact[-1] in labels}
        total.score_set(predicted, gold)
        for label in labels.union(label for *_, label in gold):
            of_label = (
                {fact for fact in facts if fact[-1] == label} for facts in (predicted, gold)
            )
            per_type.setdefault(label, PRFScore()).score_set(*of_label)
    scores = {
        "relations_micro_p": total.precision,
        "relations_micro_r": total.recall,
        "relations_micro_f": total.fscore,
        "relations_per_type": {label: score.to_dict() for label, score in per_type.items()},
    }
    return scores if is_annotated else dict.fromkeys(scores)


def _get_facts(doc: Doc, directed: bool) -> set[tuple]:
    """What each relation states: its arguments, and last its label."""
    marked = find_marked_arguments(doc.text)
    return {
        (*(marked or get_arguments(relation, directed)), relation.label)
        for relation in doc._.relations or ()
    }
