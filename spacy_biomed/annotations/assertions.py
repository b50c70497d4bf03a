"""What a text says of a mention: `span._.is_negated` and four more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spacy.tokens import Doc, Span

ASSERTIONS = ("is_negated", "is_uncertain", "is_historical", "is_hypothetical", "is_family")
_STORED = "assertions"


def install_assertions() -> None:
    """Declare `span._.is_negated`, `is_uncertain`, `is_historical`, `is_hypothetical`, `is_family`.

    Each is True or False; None where nobody looked. They belong to a place of the text, whatever
    the label. Names are those of medspaCy.
    """
    for name in ASSERTIONS:
        if not Span.has_extension(name):
            Span.set_extension(name, getter=_make_getter(name))


def _make_getter(name: str) -> Callable[[Span], bool | None]:
    def get(span: Span) -> bool | None:
        found = get_assertions(span)
        return None if found is None else found[name]

    return get


def get_assertions(span: Span) -> Mapping[str, bool] | None:
    """All five of a span, by name; None where nobody looked."""
    user_data: dict[Any, Any] = span.doc.user_data
    return user_data.get(_key(span))


def set_assertions(span: Span, found: Mapping[str, bool]) -> None:
    """Set all five of a span, which are kept by `Span.as_doc` and `Doc.to_disk`."""
    user_data: dict[Any, Any] = span.doc.user_data
    user_data[_key(span)] = dict(found)


def mark_assertions(doc: Doc) -> dict[str, Any]:
    """The entities of a document for displaCy, with what the text says of them in the labels.

    Use it as `displacy.render(mark_assertions(doc), style="ent", manual=True)`. A negated DISEASE
    has the label "DISEASE (negated)".
    """
    ents = []
    for span in doc.ents:
        found = get_assertions(span) or {}
        said = ", ".join(name.removeprefix("is_") for name in ASSERTIONS if found.get(name))
        label = f"{span.label_} ({said})" if said else span.label_
        ents.append({"start": span.start_char, "end": span.end_char, "label": label})
    return {"text": doc.text, "ents": ents, "title": None}


def _key(span: Span) -> tuple[str, str, int, int]:
    """A key as of spaCy's extensions, whose offsets move when a part of a document is copied."""
    return "._.", _STORED, span.start_char, span.end_char
