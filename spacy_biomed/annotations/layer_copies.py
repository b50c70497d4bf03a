"""Layers of annotation, copied from one document to another of the same tokens."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from spacy.attrs import ORTH, SPACY
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc, Span

from .annotation_scope import ANNOTATION_SCOPES
from .pairs import PAIR_KEY
from .taught import TAUGHT_KEY

# In `doc.user_data`, what goes with the layer of whichever component.
_OF_ALL_LAYERS = frozenset({ANNOTATION_SCOPES, TAUGHT_KEY})


def copy_bare(doc: Doc, annotation_keys: Collection[str] = ()) -> Doc:
    """The document's tokens, without any annotation.

    Args:
        annotation_keys: keys of `doc.user_data` that are annotation; the rest stays with a
            document.
    """
    tokens: Any = doc.to_array([ORTH, SPACY])  # words by their ids, which spaCy's types leave out
    bare = Doc(doc.vocab, words=tokens[:, 0], spaces=tokens[:, 1].astype(bool))
    bare.has_unknown_spaces = doc.has_unknown_spaces
    kept = doc.user_data.keys() - _OF_ALL_LAYERS - set(annotation_keys)
    bare.user_data.update({key: doc.user_data[key] for key in kept})
    return bare


def copy_classes(reader: TrainablePipe, source: Doc, target: Doc, prefix: str) -> bool:
    """Copy classes or a number of `doc.cats`, those alone that a component knows once it knows any.

    Args:
        prefix: what the classes get before their names.

    Returns:
        whether there are any, or a teacher's.
    """
    copy_group(source, PAIR_KEY, target)
    is_taught = copy_taught(reader.name, source, target)
    cats = {prefix + label: value for label, value in source.cats.items()}
    labels = reader.labels
    target.cats = {label: cats[label] for label in cats if not labels or label in labels}
    return bool(target.cats) or is_taught


def copy_taught(component: str, source: Doc, target: Doc) -> bool:
    """Copy what a teacher of a component left.

    Returns:
        whether there is anything.
    """
    taught = source.user_data.get(TAUGHT_KEY, {}).get(component)
    if taught is not None:
        target.user_data[TAUGHT_KEY] = {component: taught}
    return taught is not None


def copy_entities(source: Doc, target: Doc) -> None:
    """Copy `doc.ents`; tokens without annotation stay so."""
    missing = [target[i : i + 1] for i, token in enumerate(source) if token.ent_iob == 0]
    target.set_ents(copy_spans(source.ents, target), missing=missing, default="outside")


def copy_group(source: Doc, key: str, target: Doc) -> None:
    """Copy a span group, if it is there."""
    if key in source.spans:
        target.spans[key] = copy_spans(source.spans[key], target)


def copy_spans(spans: Any, target: Doc) -> list[Span]:
    """Spans of the same tokens and labels in another document."""
    return [Span(target, span.start, span.end, label=span.label) for span in spans]
