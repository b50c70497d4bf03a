"""Copy annotation layers from a document to another document with the same tokens."""

from collections.abc import Collection, Iterable
from typing import Any

from spacy.attrs import ORTH, SPACY
from spacy.tokens import Doc, Span

from .annotation_scope import ANNOTATION_SCOPES
from .soft_labels import SOFT_LABELS_KEY


def copy_bare(doc: Doc, annotation_keys: Collection[str] = ()) -> Doc:
    """Copy a document's tokens, without annotation.

    What `doc.user_data` has under `annotation_keys`, also as names of extensions, is not copied.
    """
    tokens: Any = doc.to_array([ORTH, SPACY])  # words as ids, which spaCy's type hints do not allow
    bare = Doc(doc.vocab, words=tokens[:, 0], spaces=tokens[:, 1].astype(bool))
    bare.has_unknown_spaces = doc.has_unknown_spaces
    left_out = {ANNOTATION_SCOPES, SOFT_LABELS_KEY, *annotation_keys}  # of all layers, and of some
    for key, value in doc.user_data.items():
        if (key[1] if isinstance(key, tuple) else key) not in left_out:
            bare.user_data[key] = value
    return bare


def copy_soft_labels(component: str, source: Doc, target: Doc) -> bool:
    """Copy the probabilities of a component's teacher; return whether there are any."""
    taught = source.user_data.get(SOFT_LABELS_KEY, {}).get(component)
    if taught is not None:
        target.user_data[SOFT_LABELS_KEY] = {component: taught}
    return taught is not None


def copy_entities(source: Doc, target: Doc) -> None:
    """Copy `doc.ents`; tokens without annotation stay without annotation."""
    missing = [target[i : i + 1] for i, token in enumerate(source) if token.ent_iob == 0]
    target.set_ents(copy_spans(source.ents, target), missing=missing, default="outside")


def copy_group(source: Doc, key: str, target: Doc) -> None:
    """Copy a span group, if it exists."""
    if key in source.spans:
        target.spans[key] = copy_spans(source.spans[key], target)


def copy_spans(spans: Iterable[Span], target: Doc) -> list[Span]:
    """Spans of another document with the same tokens, labels and identifiers."""
    return [Span(target, one.start, one.end, label=one.label, kb_id=one.kb_id) for one in spans]
