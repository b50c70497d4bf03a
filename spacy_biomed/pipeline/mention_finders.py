"""The labels that the components of a pipeline can find, as far as they declare them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spacy.language import Language


class Finders(NamedTuple):
    """The components that write mentions to a layer.

    Attributes:
        names: names of the components that write to it, or may do so.
        labels: the labels that they declare, without repetition.
        are_silent: whether a component does not declare its labels, or there is no component, so
            that the mentions have another source.
    """

    names: list[str]
    labels: list[str]
    are_silent: bool


def list_finders(
    nlp: Language, before: object, spans_key: str | None, *, without: str = ""
) -> Finders:
    """The components of a pipeline before `before` that write to a layer of mentions.

    Components of the factory `without` do not count. Without a spans key, the layer is `doc.ents`.
    """
    names, labels, are_silent = [], {}, False
    for name, component in nlp.pipeline:
        if component is before:
            break
        if nlp.get_pipe_meta(name).factory == without:
            continue
        if _may_write(component, nlp.get_pipe_meta(name).assigns, spans_key):
            declared = getattr(component, "labels", None)
            names.append(name)
            labels.update(dict.fromkeys(declared or ()))
            are_silent = are_silent or declared is None
    return Finders(names, list(labels), are_silent or not names)


def _may_write(component: object, assigns: Iterable[str], spans_key: str | None) -> bool:
    """Whether a component may write to the layer, which is assumed if it declares nothing."""
    # spaCy's span components have an attribute `key`; `biomed_ner` has a setting.
    settings = getattr(component, "cfg", None) or {}
    key = settings.get("spans_key", getattr(component, "key", None))
    if not assigns:
        return True
    if spans_key is not None:
        return "doc.spans" in assigns and key in (None, spans_key)
    return (key is None and "doc.ents" in assigns) or bool(
        getattr(component, "annotate_ents", False)
    )
