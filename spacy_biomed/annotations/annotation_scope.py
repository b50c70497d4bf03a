"""What a layer of mentions tells, and what it leaves open: corpora annotate some labels each.

A document's silence about a label that its corpus does not annotate is no statement: it must teach
no head, and no score may count it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spacy.tokens import Doc

# In `doc.user_data`, so that it survives `DocBin(store_user_data=True)` and `Doc.to_disk`.
ANNOTATION_SCOPES = "annotation_scopes"

_ENTS = "doc.ents"


@dataclass(frozen=True, slots=True)
class AnnotationScope:
    """What a layer of mentions tells of a document.

    Attributes:
        labels: those that it annotates: where there is no mention of one, there is none. None where
            it annotates every label that anybody may ask for.
        uncertain: (start character, end character, label) of each region where a mention of the
            label would be neither right nor wrong, such as a gene family for a corpus of genes.
    """

    labels: frozenset[str] | None = None
    uncertain: tuple[tuple[int, int, str], ...] = ()

    def leaves_open(self, start: int, end: int, label: str) -> bool:
        """Whether nothing is said of a mention that is not in the layer.

        Args:
            start, end: characters.
        """
        if self.labels is not None and label not in self.labels:
            return True
        return any(
            start < region_end and region_start < end and label == region_label
            for region_start, region_end, region_label in self.uncertain
        )


EVERY_LABEL = AnnotationScope()


def get_scope(doc: Doc, spans_key: str | None = None) -> AnnotationScope:
    """The scope of a layer of mentions: `doc.ents`, or the span group `spans_key`.

    Where none was set, the layer annotates every label.
    """
    kept = doc.user_data.get(ANNOTATION_SCOPES, {}).get(_layer(spans_key))
    if kept is None:
        return EVERY_LABEL
    labels = None if kept["labels"] is None else frozenset(kept["labels"])
    return AnnotationScope(
        labels, tuple((start, end, one) for start, end, one in kept["uncertain"])
    )


def set_scope(doc: Doc, scope: AnnotationScope, spans_key: str | None = None) -> None:
    """Set the scope of a layer of mentions: `doc.ents`, or the span group `spans_key`."""
    if scope == get_scope(doc, spans_key):
        return
    labels = None if scope.labels is None else sorted(scope.labels)
    uncertain = [list(region) for region in sorted(scope.uncertain)]
    # A new dict: copies of a document share what is in their user data.
    others = doc.user_data.get(ANNOTATION_SCOPES, {})
    own = {"labels": labels, "uncertain": uncertain}
    doc.user_data[ANNOTATION_SCOPES] = {**others, _layer(spans_key): own}


def annotates_any(doc: Doc, labels: Iterable[str], spans_key: str | None = None) -> bool:
    """Whether a layer of mentions annotates one of the labels."""
    annotated = get_scope(doc, spans_key).labels
    return annotated is None or not annotated.isdisjoint(labels)


def _layer(spans_key: str | None) -> str:
    return _ENTS if spans_key is None else spans_key
