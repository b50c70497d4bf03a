"""Which spans of an evaluation text a model could know by heart from the training part."""

from __future__ import annotations

from collections.abc import Iterable

from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

# Span group of a reference document: every span whose lower-cased text is, in the training part, a
# mention of the span's label. Scorers take it to score the mentions that were never seen.
SEEN_KEY = "seen_in_training"


def mentions_of(doc: Doc, spans_key: str | None) -> Iterable[Span]:
    """The gold mentions of a layer: `doc.ents`, or the span group `spans_key`."""
    return doc.ents if spans_key is None else doc.spans.get(spans_key, ())


class SeenMentions:
    """The mentions of a training part, to be found again in other documents.

    vocab: the vocabulary that all documents share.
    train: the training documents, annotated, tokenized as the others will be.
    spans_key: layer of the mentions; None for `doc.ents`.
    """

    def __init__(self, vocab: Vocab, train: Iterable[Doc], spans_key: str | None = None):
        self.spans_key = spans_key
        self.matcher = PhraseMatcher(vocab, attr="LOWER")
        mentions: dict[str, dict[str, Span]] = {}
        for doc in train:
            for span in mentions_of(doc, spans_key):
                mentions.setdefault(span.label_, {}).setdefault(span.text.lower(), span)
        for label, spans in mentions.items():
            self.matcher.add(label, list(spans.values()))

    def mark(self, doc: Doc) -> None:
        """Set `doc.spans["seen_in_training"]`, if the document has the layer."""
        annotated = (
            doc.has_annotation("ENT_IOB") if self.spans_key is None else self.spans_key in doc.spans
        )
        if annotated:
            doc.spans[SEEN_KEY] = self.matcher(doc, as_spans=True)
