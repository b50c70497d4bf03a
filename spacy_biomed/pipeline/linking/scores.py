"""Scores of the concepts of mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from spacy.scorer import PRFScore
from spacy.tokens import Span
from spacy.training import Example

from ...annotations.document_keys import NIL
from ...annotations.seen_mentions import mentions_of
from ..mention_layer import gold_spans

# Between several identifiers of one mention.
_BETWEEN = re.compile(r"[|,;+]")


def read_ids(span: Span) -> frozenset[str] | None:
    """The identifiers of a gold mention, of which any is right; None if it has none."""
    ids = frozenset(map(str.strip, _BETWEEN.split(span.kb_id_))) - {""}
    return ids - {NIL} if ids else None


def score_links(
    examples: Iterable[Example], *, spans_key: str | None = None, **_: object
) -> dict[str, float]:
    """Score the codes of entities at exactly the gold offsets.

    Gold mentions without an identifier (`read_ids`), and what is predicted there, do not count.

    Returns:
        `links_p`, `links_r` and `links_f`, from 0 to 1.
    """
    scores = PRFScore()
    for example in examples:
        gold = gold_spans(example.reference, spans_key)
        if gold is None:
            continue
        ids = {(span.start_char, span.end_char): read_ids(span) for span in gold}
        spans = mentions_of(example.predicted, spans_key)
        codes = {(span.start_char, span.end_char): span.kb_id_ for span in spans if span.kb_id_}
        for place, code in codes.items():
            wanted = ids.get(place, frozenset())
            if wanted is not None:
                scores.tp += code in wanted
                scores.fp += code not in wanted
        wanting = {place: wanted for place, wanted in ids.items() if wanted}
        scores.fn += sum(codes.get(place) not in wanted for place, wanted in wanting.items())
    return {"links_p": scores.precision, "links_r": scores.recall, "links_f": scores.fscore}
