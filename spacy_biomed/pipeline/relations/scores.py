"""Scores of relations between mentions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from spacy.tokens import Doc
from spacy.training import Example

from ...annotations.marked_arguments import Argument
from ..encoder_head import Compared
from ..label_scores import LabelScores
from .candidates import find_marked, get_arguments


def relation_scorer_v1() -> Callable:
    """`spacy_biomed.relation_scorer.v1`: see `score_relations`."""
    return score_relations


def score_relations(
    examples: Iterable[Example], *, labels: Iterable[str], directed: bool = True, **cfg: object
) -> dict[str, object]:
    """Micro- and macro-averaged precision, recall and F1 of relations in annotated documents.

    Papers report the micro average (Peng et al. 2020, "An Empirical Study of Multi-Task Learning on
    BERT for Biomedical Text Mining") or, for ChemProt, the macro average over the types (Lewis et
    al. 2020, "Pretrained Language Models for Biomedical and Clinical Tasks", table 1; Rohanian et
    al. 2023, "On the Effectiveness of Compact Biomedical Transformers", table 3). The absence of a
    relation is not a class. The macro average is over the labels with a gold or a predicted
    relation; macro F1 is the mean of their F1, not the F1 of the two means.

    A relation is correct if its label is, and if its arguments have the right characters and types;
    with `directed` also the right order. In a text that marks its two arguments only the label
    counts. Gold relations between entities that were not found count as missed.

    Args:
        labels: of the component; predicted relations with other labels belong to other components.
        directed: whether the order of the arguments matters.

    Returns:
        `relations_micro_p`, `_r`, `_f`, `relations_macro_p`, `_r`, `_f` and `relations_per_type`;
        all are None if no document is annotated.
    """
    labels = set(labels)
    compared = (compare_relations(example, labels, directed) for example in examples)
    scores = LabelScores.count(compared, labels)
    return {
        **scores.scores("relations_micro", "relations_per_type"),
        **scores.macro_scores("relations_macro"),
    }


def compare_relations(example: Example, labels: Collection[str], directed: bool) -> Compared | None:
    """The gold and predicted relations that `score_relations` counts; None without the layer."""
    if example.reference._.relations is None:
        return None
    marked = find_marked(example.reference)
    predicted = _get_facts(example.predicted, marked, directed)
    of_component = {fact for fact in predicted if fact[-1] in labels}
    return _get_facts(example.reference, marked, directed), of_component, ()


def _get_facts(doc: Doc, marked: tuple[Argument, Argument] | None, directed: bool) -> set[tuple]:
    """What each relation states: its arguments, or those that the text marks, and its label."""
    return {
        (*(marked or get_arguments(relation, directed)), relation.label)
        for relation in doc._.relations or ()
    }
