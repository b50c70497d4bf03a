"""`doc._.relations`: labelled relations between spans, gold or predicted."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, cast

from spacy.tokens import Doc, Span

from .document_keys import declare_extension, locate_span

RELATIONS = "relations"


class SpanRelation(NamedTuple):
    """A labelled relation from a span to another.

    Attributes:
        head, tail: the spans.
        label: kind of relation.
        score: probability, 1.0 for gold.
    """

    head: Span
    tail: Span
    label: str
    score: float = 1.0


def count_several(relations: Sequence[SpanRelation] | None) -> int:
    """Count the pairs of spans whose relations, in either direction, have two labels or more."""
    labels: dict[frozenset[tuple[int, int]], set[str]] = defaultdict(set)
    for head, tail, label, _ in relations or ():
        labels[frozenset({(head.start, head.end), (tail.start, tail.end)})].add(label)
    return sum(len(found) > 1 for found in labels.values())


def set_found(
    doc: Doc, finder: str, labels: Collection[str], relations: Sequence[SpanRelation]
) -> None:
    """Set the relations that a component finds, in place of what it found before; others stay."""
    stored = doc.user_data.get(RELATIONS) or ()
    others = [one for one in stored if not _is_of(one, finder, labels)]
    doc.user_data[RELATIONS] = others + [(*one, finder) for one in _store(relations)]


def get_found(doc: Doc, finder: str | None, labels: Collection[str]) -> Iterator[SpanRelation]:
    """Yield a component's relations; one that names no finder is its own if it has its labels."""
    for one in doc.user_data.get(RELATIONS) or ():
        if _is_of(one, finder, labels):
            yield read_relation(doc, *one[:4])


def _is_of(stored: Sequence[Any], finder: str | None, labels: Collection[str]) -> bool:
    has_finder = len(stored) > 4 and finder is not None
    return stored[4] == finder if has_finder else stored[2] in labels


def _get_relations(doc: Doc) -> list[SpanRelation] | None:
    stored = doc.user_data.get(RELATIONS)
    return None if stored is None else [read_relation(doc, *one[:4]) for one in stored]


def _set_relations(doc: Doc, relations: Sequence[SpanRelation] | None) -> None:
    if relations is None:
        doc.user_data.pop(RELATIONS, None)
    else:
        doc.user_data[RELATIONS] = _store(relations)


def _store(relations: Sequence[SpanRelation]) -> list[tuple]:
    return [
        (locate_span(head), locate_span(tail), label, score)
        for head, tail, label, score in relations
    ]


def read_relation(
    doc: Doc, head: tuple[int, int, str], tail: tuple[int, int, str], label: str, score: float
) -> SpanRelation:
    """A relation of a document, whose spans are given as `locate_span` does."""
    first, second = (
        doc.char_span(start, end, label=type, alignment_mode="expand")
        for start, end, type in (head, tail)
    )
    return SpanRelation(cast(Span, first), cast(Span, second), label, score)


# `doc._.relations`: a list of `SpanRelation`; None if relations are not annotated. It is stored in
# `doc.user_data` as character offsets, labels and the component that found it, if any has, which
# `DocBin(store_user_data=True)` keeps.
declare_extension(RELATIONS, _get_relations, _set_relations)
