"""A layer of mentions, `doc.ents` or a span group: reading, copying, placing, and who writes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from spacy.attrs import ENT_IOB
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import filter_spans
from thinc.types import Ints1d

from ..annotations import document_keys
from ..annotations.annotation_scope import AnnotationScope, get_scope, set_scope
from ..annotations.layer_copies import copy_entities, copy_group, copy_spans
from ..annotations.pairs import PAIR_KEY
from ..annotations.relation_layer import RELATIONS

CONFIDENCE = "confidence"
# Span groups that are not of entities.
NO_ENTITIES = (PAIR_KEY, document_keys.ANSWER_KEY)


def install_extensions() -> None:
    """Declare `span._.confidence`: the probability of the span with its label, None if unknown."""
    document_keys.declare_extension(CONFIDENCE, get_confidence, set_confidence, on=Span)


def get_confidence(span: Span) -> float | None:
    """`span._.confidence`, without the time that `span._` takes."""
    found = document_keys.get_user_data(span.doc).get(_confidence_key(span))
    # Old stored documents have a number.
    return found.get(span.label_) if isinstance(found, dict) else found


def set_confidence(span: Span, value: float | dict[str, float] | None) -> None:
    """Set `span._.confidence`, without the time of `span._`; from `Doc.to_json`, of each label."""
    stored, key = document_keys.get_user_data(span.doc), _confidence_key(span)
    found = stored.get(key)
    others = found if isinstance(found, dict) else {}
    stored[key] = others | (value if isinstance(value, dict) else {span.label_: value})


def _confidence_key(span: Span) -> tuple[str, str, int, int]:
    return document_keys.span_key(CONFIDENCE, span.start_char, span.end_char)


def keep_confident(doc: Doc, least: float) -> None:
    """Remove entities of a lower confidence from `doc.ents` and span groups, and their relations.

    Entities without a confidence stay, and so do pairs and answers.
    """
    install_extensions()
    dropped: set[tuple[int, int, str]] = set()

    def is_kept(span: Span) -> bool:
        confidence = get_confidence(span)
        if confidence is not None and confidence < least:
            dropped.add(document_keys.locate_span(span))
            return False
        return True

    kept = [span for span in doc.ents if is_kept(span)]
    if len(kept) < len(doc.ents):
        doc.set_ents(kept)
    for key, group in doc.spans.items():
        spans = [span for span in group if key in NO_ENTITIES or is_kept(span)]
        if len(spans) < len(group):
            attrs = dict(group.attrs)
            if "scores" in attrs:
                attrs["scores"] = [get_confidence(span) for span in spans]
            doc.spans[key] = SpanGroup(doc, name=group.name, attrs=attrs, spans=spans)
    if dropped and RELATIONS in doc.user_data:
        doc.user_data[RELATIONS] = [
            one for one in doc.user_data[RELATIONS] if dropped.isdisjoint(map(tuple, one[:2]))
        ]


def write_mentions(doc: Doc, spans_key: str | None, spans: Sequence[Span]) -> None:
    """Write mentions to `doc.ents` or a span group, and the group's scores if any has one."""
    if spans_key is None:
        doc.set_ents(list(spans))
        return
    doc.spans[spans_key] = list(spans)
    scores = [get_confidence(span) for span in spans]
    if any(score is not None for score in scores):
        doc.spans[spans_key].attrs["scores"] = scores


def covered_tokens(spans: list[Span]) -> set[int]:
    return {token for span in spans for token in range(span.start, span.end)}


def insert_mentions(
    spans: list[Span], added: list[Span], *, yielding: str | None = None
) -> list[Span]:
    """Add mentions in place of those inside them, and of those of a yielding label they touch.

    One that touches another mention which is longer is left out.
    """
    holders: dict[int, list[Span]] = defaultdict(list)  # mentions of a group may overlap
    for span in spans:
        if span.label_ != yielding:
            for token in range(span.start, span.end):
                holders[token].append(span)
    kept = []
    for one in added:
        touched = [span for token in range(one.start, one.end) for span in holders.get(token, ())]
        if all(one.start <= span.start and span.end <= one.end for span in touched):
            kept.append(one)
    kept = filter_spans(kept)
    covered = covered_tokens(kept)
    others = [span for span in spans if covered.isdisjoint(range(span.start, span.end))]
    return [*others, *kept]


def gold_spans(reference: Doc, spans_key: str | None) -> list[Span] | None:
    """The gold mentions of a layer; None if it is not annotated."""
    if spans_key is None:
        return list(reference.ents) if reference.has_annotation("ENT_IOB") else None
    return list(reference.spans[spans_key]) if spans_key in reference.spans else None


def find_missing(reference: Doc) -> list[tuple[int, int]]:
    """The runs of tokens without annotation in `doc.ents`: first character, and end, exclusive."""
    is_missing = np.append(reference.to_array(ENT_IOB) == 0, False).astype("int8")
    if not is_missing.any():
        return []
    borders = np.flatnonzero(np.diff(is_missing, prepend=0))
    ends = borders[1::2] - 1
    return [
        (reference[first].idx, reference[last].idx + len(reference[last]))
        for first, last in zip(borders[::2].tolist(), ends.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class GoldLayer:
    """The gold mentions of a layer, and what they say of a prediction; all in characters."""

    mentions: set[tuple[int, int, str]]
    scope: AnnotationScope
    missing: list[tuple[int, int]]  # the regions without annotation

    @classmethod
    def read(cls, reference: Doc, spans_key: str | None) -> GoldLayer | None:
        """The layer of a document; None if it is not annotated."""
        gold = gold_spans(reference, spans_key)
        if gold is None:
            return None
        mentions = set(map(document_keys.locate_span, gold))
        missing = find_missing(reference) if spans_key is None else []
        return cls(mentions, get_scope(reference, spans_key), missing)

    def judge(self, start: int, end: int, label: str) -> bool | None:
        """Whether a predicted mention is correct; None where its label is not annotated."""
        if (start, end, label) in self.mentions:
            return True
        if any(start < last and first < end for first, last in self.missing):
            return None
        return None if self.scope.leaves_open(start, end, label) else False


def copy_mentions(source: Doc, target: Doc, spans_key: str | None, *, is_partial: bool) -> bool:
    """Copy mentions and their scope, to an absent span group from `doc.ents`, if there are any.

    With `is_partial`, a partly annotated `doc.ents` is copied to a group too.
    """
    if spans_key is not None and spans_key in source.spans:
        copy_group(source, spans_key, target)
        set_scope(target, get_scope(source, spans_key), spans_key)
        return True
    is_complete = spans_key is not None and not is_partial
    if not source.has_annotation("ENT_IOB", require_complete=is_complete):
        return False
    if spans_key is None:
        copy_entities(source, target)
    else:
        target.spans[spans_key] = copy_spans(source.ents, target)
    set_scope(target, get_scope(source), spans_key)
    return True


def align_spans(
    spans: Sequence[Span], starts: Ints1d, ends: Ints1d
) -> tuple[Ints1d, Ints1d, np.ndarray]:
    """(spans,) each: first and last token, and whether a span begins and ends with them.

    The spans are of a document with the same text; `starts` and `ends` are the tokens' characters.
    """
    span_starts = np.array([span.start_char for span in spans], dtype="int64")
    span_ends = np.array([span.end_char for span in spans], dtype="int64")
    first, last = np.searchsorted(starts, span_starts), np.searchsorted(ends, span_ends)
    # The number after the last token fits no span.
    begins, stops = np.append(starts, -1)[first], np.append(ends, -1)[last]
    return first, last, (begins == span_starts) & (stops == span_ends)


class Finders(NamedTuple):
    """The components that may write mentions to a layer, and the labels that they declare.

    They are silent if one declares none, or if the mentions have another source. What `replaced`
    have found is replaced by a `biomed_ner` behind them.
    """

    names: list[str]
    labels: list[str]
    are_silent: bool
    replaced: list[str]


def list_finders(
    nlp: Language, before: object, spans_key: str | None, *, without: str = ""
) -> Finders:
    """The components before `before`, not of the factory `without`, that write to a layer."""
    names: list[str] = []
    certain: list[str] = []  # those that say that they write mentions
    replaced: list[str] = []
    labels, are_silent = {}, False
    for name, component in nlp.pipeline:
        if component is before:
            break
        meta = nlp.get_pipe_meta(name)
        if meta.factory != without and _may_write(component, meta.assigns, spans_key):
            declared = getattr(component, "labels", None)
            if meta.factory == "biomed_ner":
                replaced = list(certain)
            if meta.assigns and (declared is None or declared):
                certain.append(name)
            names.append(name)
            labels.update(dict.fromkeys(declared or ()))
            are_silent = are_silent or declared is None
    return Finders(names, list(labels), are_silent or not names, replaced)


def _may_write(pipe: object, assigns: Iterable[str], spans_key: str | None) -> bool:
    """Whether a component may write to the layer, which is assumed if it declares nothing."""
    # spaCy's span components have an attribute `key`; `biomed_ner` has a setting.
    settings = getattr(pipe, "cfg", None) or {}
    key = settings.get("spans_key", getattr(pipe, "key", None))
    if not assigns:
        return True
    if spans_key is not None:
        return "doc.spans" in assigns and key in (None, spans_key)
    return (key is None and "doc.ents" in assigns) or bool(getattr(pipe, "annotate_ents", False))
