"""The labels that a layer of mentions annotates, and its uncertain regions.

Each corpus annotates only some labels. If a document has no mention of a label that its corpus does
not annotate, nothing is known: heads must not learn from it, and scores must not count it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from spacy.tokens import Doc

# The key in `doc.user_data`, and in its value the name of the layer without a `spans_key`.
ANNOTATION_SCOPES, _ENTS = "annotation_scopes", "doc.ents"


@dataclass(frozen=True, slots=True)
class AnnotationScope:
    """The annotated part of a layer of mentions in a document.

    Attributes:
        labels: the annotated labels, of which the layer has all mentions; None if it annotates
            every possible label.
        uncertain: (start character, end character, label) of each region where a mention of the
            label would be neither right nor wrong, such as a gene family in a corpus of genes.
    """

    labels: frozenset[str] | None = None
    uncertain: tuple[tuple[int, int, str], ...] = ()

    def leaves_open(self, start: int, end: int, label: str) -> bool:
        """Whether a mention that is not in the layer, in characters, could still be correct."""
        if self.labels is not None and label not in self.labels:
            return True
        return any(
            start < region_end and region_start < end and label == region_label
            for region_start, region_end, region_label in self.uncertain
        )


EVERY_LABEL = AnnotationScope()


def get_scope(doc: Doc, spans_key: str | None = None) -> AnnotationScope:
    """The scope of a layer of mentions: `doc.ents`, or the span group `spans_key`.

    If no scope was set, the layer annotates every label.
    """
    kept = doc.user_data.get(ANNOTATION_SCOPES, {}).get(spans_key or _ENTS)
    if kept is None:
        return EVERY_LABEL
    labels = None if kept["labels"] is None else frozenset(kept["labels"])
    uncertain = tuple((start, end, label) for start, end, label in kept["uncertain"])
    return AnnotationScope(labels, uncertain)


def set_scope(doc: Doc, scope: AnnotationScope, spans_key: str | None = None) -> None:
    """Set the scope of a layer of mentions: `doc.ents`, or the span group `spans_key`."""
    if scope == get_scope(doc, spans_key):
        return
    labels = None if scope.labels is None else sorted(scope.labels)
    uncertain = [list(region) for region in sorted(scope.uncertain)]
    # A new dict, because copies of a document share the values of their user data.
    others = doc.user_data.get(ANNOTATION_SCOPES, {})
    written = {"labels": labels, "uncertain": uncertain}
    doc.user_data[ANNOTATION_SCOPES] = {**others, spans_key or _ENTS: written}


def annotates_any(doc: Doc, labels: Iterable[str], spans_key: str | None = None) -> bool:
    """Whether a layer of mentions annotates at least one of the labels."""
    annotated = get_scope(doc, spans_key).labels
    return annotated is None or not annotated.isdisjoint(labels)
