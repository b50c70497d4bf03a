"""Scores of relations between concepts, one for each pair of a document, as BioCreative counts."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...annotations.document_keys import locate_span
from ...annotations.relation_layer import get_found
from ...arrays import Floats2d, Ints2d
from ...normalization import get_text
from ..encoder_head import Compared
from ..label_scores import LabelScores
from ..mention_layer import gold_spans
from .concept_pairs import Concept, choose_meant, find_concepts


def concept_relation_scorer_v1() -> Callable:
    """`spacy_biomed.concept_relation_scorer.v1`: see `score_concepts`."""
    return score_concepts


class ConceptRelation(NamedTuple):
    """A relation of two concepts of a document; the smaller one is the head."""

    head: Concept
    tail: Concept
    label: str


def score_concepts(
    examples: Iterable[Example],
    *,
    labels: Iterable[str],
    spans_key: str | None = None,
    finder: str | None = None,
    **cfg: object,
) -> dict[str, object]:
    """Precision, recall and F1 of the related pairs of concepts of each document.

    So BioCreative VIII scores BioRED (Islamaj et al. 2024, "The overview of the BioRED track at
    BioCreative VIII"): each pair of a document counts once, whatever its mentions and its
    direction, as a pair and with its type.

    A predicted relation is between the concepts of the gold mentions of the same type that share a
    character with its two mentions. So it needs no identifiers. If these mentions have several
    concepts, all gold pairs among them are found. A predicted relation with a mention that no gold
    mention overlaps is wrong, and counts once for each name.

    Args:
        labels: of the component; predicted relations with other labels belong to other components.
        spans_key: the span group with the entities; None for `doc.ents`.
        finder: name of the component, whose relations alone count; None for any with its labels.

    Returns:
        `document_relations_micro_p`, `_r`, `_f` and `document_relations_per_type` of pairs and
        types, and `document_relations_pair_p`, `_r`, `_f`; all are None if no document is
        annotated.
    """
    labels = set(labels)
    scores, pair_scores = LabelScores(labels), LabelScores()
    for example in examples:
        compared = compare_concepts(example, labels, spans_key, finder)
        if compared is not None:
            scores.add(*compared)
            gold, predicted = ({(*fact[:-1], "") for fact in facts} for facts in compared[:2])
            pair_scores.add(gold, predicted)
    pairs = pair_scores.scores("document_relations_pair", "")
    pairs.pop("")
    return {**scores.scores("document_relations_micro", "document_relations_per_type"), **pairs}


def compare_concepts(
    example: Example, labels: Collection[str], spans_key: str | None, finder: str | None = None
) -> Compared | None:
    """The gold and predicted relations that `score_concepts` counts; None without the layer."""
    gold = find_gold(example.reference, spans_key)
    if gold is None:
        return None
    spans = gold_spans(example.reference, spans_key) or []
    meant = choose_meant(find_concepts(example.reference.text, spans))
    places = np.array([(one.start_char, one.end_char) for one in spans]).reshape(-1, 2)
    pairs = {relation[:2] for relation in gold}
    predicted: set[tuple] = set()
    for one in get_found(example.predicted, finder, labels):
        ends = (_match(end, spans, places, meant) for end in (one.head, one.tail))
        found = {_relate(head, tail, one.label) for head, tail in product(*ends)}
        predicted |= {fact for fact in found if fact[:2] in pairs} or {min(found)}
    return set(gold), predicted, ()


def find_gold(reference: Doc, spans_key: str | None) -> set[ConceptRelation] | None:
    """The relations of the concepts of an annotated document; None if they are not annotated."""
    relations = reference._.relations
    if relations is None:
        return None
    spans = gold_spans(reference, spans_key) or []
    meant = choose_meant(find_concepts(reference.text, spans))
    meant_by = dict(zip(map(locate_span, spans), meant, strict=True))
    gold: set[ConceptRelation] = set()
    for head, tail, label, _ in relations:
        ends = (meant_by.get(locate_span(end), ()) for end in (head, tail))
        gold |= {_relate(one, other, label) for one, other in product(*ends) if one != other}
    return gold


def create_shares(
    pairs: Sequence[tuple[frozenset[Concept], frozenset[Concept]]],
    gold: Iterable[ConceptRelation],
    labels: Sequence[str],
) -> Floats2d:
    """The equal shares of what is true of pairs of groups of concepts: (pairs, labels and none)."""
    targets = np.zeros((len(pairs), len(labels) + 1), dtype="float32")
    labels_of: dict[frozenset[Concept], set[str]] = defaultdict(set)
    for head, tail, label in gold:
        labels_of[frozenset({head, tail})].add(label)
    for row, groups in enumerate(pairs):
        for both in product(*groups):
            for label in labels_of.get(frozenset(both), ()):
                targets[row, labels.index(label)] = 1.0
    targets[:, -1] = ~targets.any(axis=1)
    return targets / targets.sum(axis=1, keepdims=True)


def _match(
    mention: Span, gold: Sequence[Span], places: Ints2d, meant: Sequence[frozenset[Concept]]
) -> set[Concept]:
    """The gold concepts that a predicted mention may mean; its own name if there are none.

    `places` are the first and last characters (exclusive) of the gold mentions.
    """
    touches = (places[:, 0] < mention.end_char) & (places[:, 1] > mention.start_char)
    found = {
        concept
        for touched in np.flatnonzero(touches).tolist()
        if gold[touched].label_ == mention.label_
        for concept in meant[touched]
    }
    return found or {("", f"{mention.label_} {find_concepts(get_text(mention.doc), [mention])}")}


def _relate(head: Concept, tail: Concept, label: str) -> ConceptRelation:
    return ConceptRelation(min(head, tail), max(head, tail), label)
