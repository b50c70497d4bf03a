"""Spans of an evaluation text that a model could have memorised from the training part."""

from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

# Span group of a reference document: all spans whose lower-cased text is a mention of the span's
# label in the training part.
SEEN_KEY = "seen_in_training"


def mentions_of(doc: Doc, spans_key: str | None) -> list[Span]:
    """The mentions of `doc.ents` or a span group; none of a group that is absent."""
    return list(doc.ents if spans_key is None else doc.spans.get(spans_key, ()))


class SeenMentions:
    """The mentions of a training part, to find them in other documents.

    Attributes:
        vocab: the vocabulary of all documents.
        spans_key: layer of the mentions; None for `doc.ents`.
    """

    def __init__(self, vocab: Vocab, spans_key: str | None = None):
        self.spans_key = spans_key
        self.matcher = PhraseMatcher(vocab, attr="LOWER")
        self._known: set[tuple[str, str]] = set()

    def learn(self, doc: Doc) -> None:
        """Add the mentions of a training document."""
        for span in mentions_of(doc, self.spans_key):
            mention = (span.text.lower(), span.label_)
            if mention not in self._known:
                self._known.add(mention)
                self.matcher.add(span.label_, [span.as_doc()])

    def mark(self, doc: Doc) -> None:
        """Set `doc.spans["seen_in_training"]`, if the document has the layer."""
        key = self.spans_key
        is_annotated = doc.has_annotation("ENT_IOB") if key is None else key in doc.spans
        if is_annotated:
            doc.spans[SEEN_KEY] = self.matcher(doc, as_spans=True)
