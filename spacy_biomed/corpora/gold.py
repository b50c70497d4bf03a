"""From a reader's `Document` to a spaCy `Doc`: annotations are aligned with tokens."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from spacy.attrs import SENT_START
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import get_words_and_spaces

from ..annotations import document_keys
from ..annotations.annotation_scope import AnnotationScope, set_scope
from ..annotations.assertions import set_assertions
from ..annotations.marked_arguments import find_marked_arguments
from ..annotations.pairs import mark_pair
from ..annotations.relation_layer import SpanRelation
from ..formats.assertion_attributes import read_assertions
from ..formats.documents import Document, Mention, Offsets, Relation, list_concepts

# The attribute of mentions with the identifier of their concept, as PubTator's reader calls it.
CONCEPT = "concept"

_NO_CONCEPT = frozenset(
    {"-", "-1", "<null>", "none", "null", "nil", "cui-less", "cuiless", "nocode", "no_code"}
)

# A mention's label and fragments: mentions with the same key are one mention.
MentionKey = tuple[str, tuple[Offsets, ...]]


@dataclass(slots=True)
class Placement:
    """The mentions of a document with a span of tokens, and those without, for three reasons.

    They start or end inside a token, share one with a longer mention of a flat layer, or are
    discontinuous.
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
    def unaligned(self) -> list[document_keys.UnalignedMention]:
        """The mentions without a span, in text order, with the outermost offsets of fragments."""
        mentions = [*self.inside_token, *self.overlapping, *self.discontinuous]
        return sorted((mention.start, mention.end, mention.label) for mention in mentions)


def place_mentions(
    doc: Doc, mentions: Sequence[Mention], *, flat: bool, identifier: str = CONCEPT
) -> Placement:
    """Find the span of tokens of each mention; one that the source gives twice counts once.

    In a flat layer no two spans share a token: of such mentions the longest stays, and of equally
    long ones the first. The attribute `identifier` of mentions becomes the span's `kb_id_`; a
    mention that is given again with another identifier has both.
    """
    same: dict[MentionKey, list[Mention]] = defaultdict(list)
    for mention in mentions:
        same[_key(mention)].append(mention)
    placement = Placement(mentions=[given[-1] for given in same.values()])
    taken: set[int] = set()
    # The sort is stable: equally long mentions at the same place keep the source's order.
    for mention in sorted(placement.mentions, key=lambda one: (one.start - one.end, one.start)):
        given = [one.attributes.get(identifier, "").strip() for one in same[_key(mention)]]
        known = dict.fromkeys(one for one in given if one and one.lower() not in _NO_CONCEPT)
        kb_id = "; ".join(known) or (document_keys.NIL if any(given) else "")
        span = doc.char_span(mention.start, mention.end, label=mention.label, kb_id=kb_id)
        if mention.is_discontinuous:
            placement.discontinuous.append(mention)
        elif span is None:
            placement.inside_token.append(mention)
        elif flat and not taken.isdisjoint(range(span.start, span.end)):
            placement.overlapping.append(mention)
        else:
            taken.update(range(span.start, span.end))
            placement.placed[_key(mention)] = span
    return placement


def _key(mention: Mention) -> MentionKey:
    return mention.label, mention.fragments


def place_relations(
    document: Document, placed: Mapping[MentionKey, Span]
) -> tuple[list[SpanRelation] | None, list[Relation]]:
    """Find the two spans of each relation.

    An argument is the id of a mention. If the source relates concepts (PubTator, BioC), it is a
    value, or one of several values, of an attribute of mentions. The relation then goes from each
    mention of the first concept to each mention of the second.

    The result is the relations between spans, each once, and the relations of which an argument has
    no span. The first is None if relations are not annotated, or if an argument names nothing in
    the document, since it is then unknown which spans are unrelated.
    """
    if document.relations is None:
        return None, []
    spans = _spans_by_name(document.mentions or (), placed)
    if not all({relation.head, relation.tail} <= spans.keys() for relation in document.relations):
        return None, document.relations
    found: dict[SpanRelation, None] = {}
    lost = []
    for relation in document.relations:
        ends = product(spans[relation.head], spans[relation.tail])
        pairs = [SpanRelation(*pair, relation.label) for pair in ends if pair[0] != pair[1]]
        found.update(dict.fromkeys(pairs))
        if not pairs:
            lost.append(relation)
    return list(found), lost


def _spans_by_name(
    mentions: Sequence[Mention], placed: Mapping[MentionKey, Span]
) -> dict[str, list[Span]]:
    """Map the ids of mentions, and concepts that are not ids, to their spans ([] if none)."""
    by_id: dict[str, list[Span]] = defaultdict(list)
    by_concept: dict[str, list[Span]] = defaultdict(list)
    for mention in mentions:
        spans = [placed[_key(mention)]] if _key(mention) in placed else []
        if mention.id:
            by_id[mention.id].extend(spans)
        for concept in list_concepts(mention):
            by_concept[concept].extend(spans)
    # A file may give a mention again and again.
    return {name: list(dict.fromkeys(spans)) for name, spans in (by_concept | by_id).items()}


def create_doc(nlp: Language, document: Document) -> Doc:
    """Create the Doc of a document, without its annotations.

    Published tokens are used if the document has them, otherwise the pipeline's tokenizer. Sentence
    starts are set if the document has sentences. `doc.user_data["document_id"]` is the document's
    id, and `doc.user_data["part_of"]` the id of the text that it is a part of, if it is one.
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
    doc.user_data[document_keys.DOCUMENT_ID] = document.id
    if document.part_of is not None:
        doc.user_data[document_keys.PART_OF] = document.part_of
    return doc


@dataclass(slots=True)
class Annotated:
    """How the annotations of a document were aligned with tokens."""

    mentions: Placement
    answers: Placement
    lost_relations: list[Relation]


def annotate(
    doc: Doc, document: Document, spans_key: str | None = None, identifier: str = CONCEPT
) -> Annotated:
    """Set the annotations of a document on its Doc.

    If the document has None for a layer, the layer is not annotated and not set; an empty list
    gives an empty layer. Mentions are in `doc.ents`, or in the span group `spans_key`, where they
    may overlap. A text that marks the two arguments of a relation gets its relation but no layer
    of mentions, because the arguments alone do not annotate all entities.
    """
    if document.cats is not None:
        doc.cats = dict(document.cats)
    if document.pair is not None:
        mark_pair(doc)
    answers = place_mentions(doc, document.answers or (), flat=False)
    if document.answers is not None:
        doc.spans[document_keys.ANSWER_KEY] = answers.spans
        document_keys.set_unaligned(doc, answers.unaligned, name=document_keys.UNALIGNED_ANSWERS)
    if document.relations is not None and _marks_arguments(document):
        arguments = place_mentions(doc, document.mentions or (), flat=False)
        doc._.relations, lost = place_relations(document, arguments.placed)
        return Annotated(Placement(), answers, lost)
    flat = spans_key is None
    mentions = place_mentions(doc, document.mentions or (), flat=flat, identifier=identifier)
    if document.mentions is not None:
        if spans_key is None:
            doc.set_ents(mentions.spans, default="outside")
        else:
            doc.spans[spans_key] = mentions.spans
        for mention in mentions.mentions:
            span, said = mentions.placed.get(_key(mention)), read_assertions(mention)
            if span is not None and said:
                set_assertions(span, said)
        document_keys.set_unaligned(doc, mentions.unaligned)
        regions = {(*place, one.label) for one in document.uncertain for place in one.fragments}
        set_scope(doc, AnnotationScope(document.annotated_labels, tuple(regions)), spans_key)
    doc._.relations, lost = place_relations(document, mentions.placed)
    return Annotated(mentions, answers, lost)


def create_gold_doc(nlp: Language, document: Document, spans_key: str | None = None) -> Doc:
    """Create the annotated Doc of a document: `create_doc` and `annotate` in one."""
    doc = create_doc(nlp, document)
    annotate(doc, document, spans_key)
    return doc


def _marks_arguments(document: Document) -> bool:
    """Whether the mentions of a document are the two arguments that its text marks."""
    marked = find_marked_arguments(document.text)
    places = {(mention.start, mention.end) for mention in document.mentions or ()}
    return marked is not None and places == {(one.start, one.end) for one in marked}
