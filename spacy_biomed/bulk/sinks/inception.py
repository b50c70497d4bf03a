"""UIMA CAS as XMI, for INCEpTION."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc

from ..findings import Layers
from ..sources import Item
from .document_names import DocumentNames
from .mentions import list_mentions
from .sink import Sink

if TYPE_CHECKING:
    from cassis import TypeSystem

# The layers that INCEpTION's project template "Basic annotation (span/relation)" creates.
SPAN, RELATION = "custom.Span", "custom.Relation"

_SEGMENTATION = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"
_METADATA = "de.tudarmstadt.ukp.dkpro.core.api.metadata.type.DocumentMetaData"
# XML 1.0 has no such characters.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class InceptionSink(Sink):
    """A folder with an `.xmi` file for each document, named after its identifier, and their types.

    Mentions and relations are in the layers of INCEpTION's template "Basic annotation
    (span/relation)", with their `label`. The further features `confidence` and `identifier` are
    read by projects whose layer has them, and left out by others. The pipeline's tokens are the
    tokens, so that mentions begin and end at one. Characters that XML does not have become spaces,
    so offsets stay the same.
    """

    is_folder = True

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._types = _create_types()
        self._files: dict[str, bytes] = {"TypeSystem.xml": self._types.to_xml().encode()}
        self._names = DocumentNames()

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        from cassis import Cas

        name = self._names.find(document, item.id)
        cas = Cas(self._types)
        cas.sofa_string = _NOT_IN_XML.sub(" ", doc.text)
        cas.sofa_mime = "text"

        def add(type: str, **features: Any) -> Any:
            annotation = self._types.get_type(type)(**features)
            cas.add(annotation)
            return annotation

        add(_METADATA, begin=0, end=len(doc.text), documentId=_NOT_IN_XML.sub(" ", item.id))
        if doc.has_annotation("SENT_START"):
            for sentence in doc.sents:
                add(f"{_SEGMENTATION}.Sentence", begin=sentence.start_char, end=sentence.end_char)
        for token in doc:
            if not token.is_space:
                add(f"{_SEGMENTATION}.Token", begin=token.idx, end=token.idx + len(token))
        mentions, relations = list_mentions(doc.text, found)
        spans = {
            mention.number: add(
                SPAN,
                begin=mention.start,
                end=mention.end,
                label=mention.label,
                confidence=mention.confidence,
                identifier=mention.attributes.get("kb_id") or mention.attributes.get("id"),
            )
            for mention in mentions
        }
        for relation in relations:
            tail = spans[relation.tail.number]
            add(
                RELATION,
                begin=tail.begin,  # a relation lies where its target does
                end=tail.end,
                Governor=spans[relation.head.number],
                Dependent=tail,
                label=relation.label,
                confidence=relation.confidence,
            )
        self._files[f"{name}.xmi"] = cas.to_xmi().encode()

    def files(self, part: str) -> dict[str, bytes]:
        return self._files


def _create_types() -> TypeSystem:
    from cassis import TypeSystem

    types = TypeSystem()
    metadata = types.create_type(_METADATA, "uima.tcas.DocumentAnnotation")
    types.create_feature(metadata, "documentId", "uima.cas.String")
    for name in ("Sentence", "Token"):
        types.create_type(f"{_SEGMENTATION}.{name}")
    span, relation = types.create_type(SPAN), types.create_type(RELATION)
    for layer in (span, relation):
        types.create_feature(layer, "label", "uima.cas.String")
        types.create_feature(layer, "confidence", "uima.cas.Float")
    types.create_feature(span, "identifier", "uima.cas.String")
    for name in ("Governor", "Dependent"):
        types.create_feature(relation, name, SPAN)
    return types
