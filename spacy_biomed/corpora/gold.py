"""From a reader's `Document` to a spaCy `Doc`: characters to tokens, and what does not fit kept."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from spacy.attrs import SENT_START
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import get_words_and_spaces

from ..annotations.annotation_scope import AnnotationScope, set_scope
from ..annotations.pairs import mark_pair
from ..annotations.relation_layer import SpanRelation
from .documents import Document, Mention, Offsets, Relation
from .marked_arguments import find_marked_arguments

UNALIGNED_MENTIONS = "unaligned_mentions"
UNALIGNED_ANSWERS = "unaligned_answers"
DOCUMENT_ID = "document_id"
ANSWER_KEY = "answer"

# Files that give a mention several concepts write them as one value, with one of these between.
_BETWEEN_CONCEPTS = re.compile(r"[|;,]")

UnalignedMention = tuple[int, int, str]
# A mention's label and fragments: mentions of which both are equal are one.
MentionKey = tuple[str, tuple[Offsets, ...]]


def register_extensions() -> None:
    """Declare `doc._.unaligned_mentions`: `(start character, end character, label)` of each gold
    mention that is in no layer of the `Doc` because no span of tokens could hold it; and
    `doc._.unaligned_answers`, the same of answers that are not in `doc.spans["answer"]`.

    The values lie in `doc.user_data`, so they survive `DocBin(store_user_data=True)`. Evaluation
    counts them as missed.
    """
    for name in (UNALIGNED_MENTIONS, UNALIGNED_ANSWERS):
        getter, setter = partial(_get_unaligned, name=name), partial(_set_unaligned, name=name)
        Doc.set_extension(name, getter=getter, setter=setter, force=True)


def _get_unaligned(doc: Doc, *, name: str) -> list[UnalignedMention]:
    return [(start, end, label) for start, end, label in doc.user_data.get(name, ())]


def _set_unaligned(doc: Doc, mentions: Sequence[UnalignedMention], *, name: str) -> None:
    doc.user_data[name] = [tuple(mention) for mention in mentions]


register_extensions()


@dataclass(slots=True)
class Placement:
    """Where the mentions of a document went: spans of tokens, and three ways of not fitting.

    Attributes:
        mentions: all of them, each once.
        placed: the span of each mention that has one.
        inside_token: starts or ends inside a token.
        overlapping: shares a token with a longer mention of a flat layer.
        discontinuous: has more than one fragment.
    """

    mentions: list[Mention] = field(default_factory=list)
    placed: dict[MentionKey, Span] = field(default_factory=dict)
    inside_token: list[Mention] = field(default_factory=list)
    overlapping: list[Mention] = field(default_factory=list)
    discontinuous: list[Mention] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        """The spans of tokens, in text order."""
        return sorted(self.placed.values(), key=lambda span: (span.start, span.end))

    @property
    def unaligned(self) -> list[UnalignedMention]:
        """What no span of tokens holds, in text order; of fragments, the outermost offsets."""
        mentions = [*self.inside_token, *self.overlapping, *self.discontinuous]
        return sorted((mention.start, mention.end, mention.label) for mention in mentions)


def place_mentions(doc: Doc, mentions: Sequence[Mention], *, flat: bool) -> Placement:
    """Find the span of tokens of each mention.

    Args:
        flat: no two spans share a token; of mentions that do, the longest stays, and of equally
            long ones the first. A mention that the source gives twice (same label, same characters)
            is one mention.
    """
    starts, ends = {}, {}
    for token in doc if mentions else ():
        starts[token.idx] = token.i
        ends[token.idx + len(token)] = token.i + 1
    unique = {_key(mention): mention for mention in mentions}
    placement = Placement(mentions=list(unique.values()))
    taken: set[int] = set()
    # Stable, so that of equally long mentions at one place the source's first comes first.
    for mention in sorted(unique.values(), key=lambda one: (one.start - one.end, one.start)):
        start, end = starts.get(mention.start), ends.get(mention.end)
        if mention.is_discontinuous:
            placement.discontinuous.append(mention)
        elif start is None or end is None:
            placement.inside_token.append(mention)
        elif flat and not taken.isdisjoint(range(start, end)):
            placement.overlapping.append(mention)
        else:
            taken.update(range(start, end))
            placement.placed[_key(mention)] = Span(doc, start, end, label=mention.label)
    return placement


def _key(mention: Mention) -> MentionKey:
    return mention.label, mention.fragments


def place_relations(
    document: Document, placed: Mapping[MentionKey, Span]
) -> tuple[list[SpanRelation] | None, list[Relation]]:
    """Find the two spans of each relation.

    An argument is a mention's id. Where the source relates concepts (PubTator, BioC), it is what
    mentions have as the value of an attribute, or as one of several values; the relation then
    holds from each mention of the one concept to each of the other.

    Args:
        placed: the spans of the document's mentions (`Placement.placed`).

    Returns:
        the relations between spans, each once, None where the document has no relations or one
        whose argument names nothing in it: what is not related cannot be told then; and the
        relations that have no spans, because an argument has none in the layer.
    """
    if not document.relations:
        return None if document.relations is None else [], []
    spans = _spans_by_name(document.mentions or (), placed)
    if not all({relation.head, relation.tail} <= spans.keys() for relation in document.relations):
        return None, document.relations
    found: dict[SpanRelation, None] = {}
    lost = []
    for relation in document.relations:
        pairs = [
            SpanRelation(head, tail, relation.label)
            for head in spans[relation.head]
            for tail in spans[relation.tail]
            if head != tail
        ]
        found.update(dict.fromkeys(pairs))
        if not pairs:
            lost.append(relation)
    return list(found), lost


def mention_names(mentions: Sequence[Mention]) -> set[str]:
    """What relations may call their arguments: the ids of mentions, and their concepts."""
    return set(_spans_by_name(mentions, {}))


def _spans_by_name(
    mentions: Sequence[Mention], placed: Mapping[MentionKey, Span]
) -> dict[str, list[Span]]:
    """Map the id of each mention, and each concept that is no id, to spans, [] where none fits."""
    by_id: dict[str, list[Span]] = defaultdict(list)
    by_concept: dict[str, list[Span]] = defaultdict(list)
    for mention in mentions:
        spans = [placed[_key(mention)]] if _key(mention) in placed else []
        if mention.id:
            by_id[mention.id].extend(spans)
        for value in mention.attributes.values():
            for concept in _BETWEEN_CONCEPTS.split(value):
                by_concept[concept.strip()].extend(spans)
    # A file may give a mention again and again.
    return {name: list(dict.fromkeys(spans)) for name, spans in (by_concept | by_id).items()}


def create_doc(nlp: Language, document: Document) -> Doc:
    """Create the Doc of a document, without its annotations.

    Published tokens are used where the document has them, else the pipeline's tokenizer. Sentence
    starts are set where the document has sentences. The document's id is kept in
    `doc.user_data["document_id"]`.
    """
    if document.tokens is None:
        doc = nlp.make_doc(document.text)
    else:
        strings = [document.text[start:end] for start, end in document.tokens]
        words, spaces = get_words_and_spaces(strings, document.text)
        doc = Doc(nlp.vocab, words=words, spaces=spaces)
    if document.sentences is not None and len(doc):
        sentence_starts = {start for start, _ in document.sentences}
        marks = [1 if not token.i or token.idx in sentence_starts else -1 for token in doc]
        # All at once: for each token that is set alone, spaCy looks through the whole document.
        doc.from_array([SENT_START], np.array(marks, dtype="int64").astype("uint64"))
    doc.user_data[DOCUMENT_ID] = document.id
    return doc


@dataclass(slots=True)
class Annotated:
    """Where the annotations of a document went.

    Attributes:
        mentions, answers: as `place_mentions` placed them.
        lost_relations: those with an argument that has no span in the layer (`place_relations`).
    """

    mentions: Placement
    answers: Placement
    lost_relations: list[Relation]


def annotate(doc: Doc, document: Document, spans_key: str | None = None) -> Annotated:
    """Put a document's annotations on its Doc, and return where they went.

    Classes and scores go to `doc.cats`, the two texts of a pair to `doc.spans["pair"]`, answers to
    `doc.spans["answer"]`, relations to `doc._.relations`. What the document has as None is left
    out: that layer is not annotated. An empty list gives the layer with nothing in it. A text in
    which the two arguments of a relation are marked gets its relation and no layer of mentions:
    the arguments alone are no annotation of entities.

    Args:
        spans_key: the span group that takes the mentions, overlapping ones included; None for
            `doc.ents`.
    """
    if document.cats is not None:
        doc.cats = dict(document.cats)
    if document.pair is not None:
        mark_pair(doc)
    answers = place_mentions(doc, document.answers or (), flat=False)
    if document.answers is not None:
        doc.spans[ANSWER_KEY] = answers.spans
        _set_unaligned(doc, answers.unaligned, name=UNALIGNED_ANSWERS)
    if document.relations is not None and find_marked_arguments(document.text):
        arguments = place_mentions(doc, document.mentions or (), flat=False)
        doc._.relations, lost = place_relations(document, arguments.placed)
        return Annotated(Placement(), answers, lost)
    mentions = place_mentions(doc, document.mentions or (), flat=spans_key is None)
    if document.mentions is not None:
        if spans_key is None:
            doc.set_ents(mentions.spans, default="outside")
        else:
            doc.spans[spans_key] = mentions.spans
        _set_unaligned(doc, mentions.unaligned, name=UNALIGNED_MENTIONS)
        set_scope(doc, _scope(document), spans_key)
    relations, lost_relations = place_relations(document, mentions.placed)
    doc._.relations = relations
    return Annotated(mentions, answers, lost_relations)


def _scope(document: Document) -> AnnotationScope:
    regions = {
        (start, end, mention.label)
        for mention in document.uncertain
        for start, end in mention.fragments
    }
    return AnnotationScope(document.annotated_labels, tuple(regions))


def create_gold_doc(nlp: Language, document: Document, spans_key: str | None = None) -> Doc:
    """Create the annotated Doc of a document: `create_doc` and `annotate` in one."""
    doc = create_doc(nlp, document)
    annotate(doc, document, spans_key)
    return doc
