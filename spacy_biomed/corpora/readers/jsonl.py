"""JSON lines in the form that Prodigy writes: `text`, `spans`, `cats` or `options` and `accept`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import BiomedError, quote
from ..documents import Document, Mention
from ..repairs import leaving_out, locate
from .json_fields import get_covered, get_field, get_id, read_json_lines

_ADVICE = 'write it as {"text": "...", "spans": [{"start": 0, "end": 7, "label": "..."}]}'


def read_jsonl(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read `.jsonl` files: one, or those in and below a folder. Each line is an object with

    text: the text.
    spans: mentions, each with `start`, `end`, `label` and, optionally, the covered `text`. If the
        key is missing, mentions are not annotated.
    cats: class label to true, false or a number between 0 and 1; or `options` (objects with an
        `id`) and `accept` (a list of ids), which give 1.0 to each accepted class and 0.0 to each
        other option.
    tokens: objects with `start` and `end`, if the text is already split into tokens.
    id: of the document, also under `meta`; by default file name and line number.
    answer: a line with another answer than "accept" is left out.

    Other keys are ignored.

    Raises:
        BiomedError: if a line is not such an object, or a span lies beyond the text or reads
            differently.
    """
    for record, where, id in read_json_lines(path, (".jsonl",), encoding):
        with leaving_out():
            document = _parse_record(record, where, id)
            if document is not None:
                yield document


def _parse_record(record: Any, where: str, id: str) -> Document | None:
    text = _get(record, "text", str, where)
    if record.get("answer", "accept") != "accept":
        return None
    meta = record.get("meta")
    if isinstance(meta, dict):
        id = get_id(meta, "id", id)
    return Document(
        id=get_id(record, "id", id),
        text=text,
        mentions=_parse_spans(record, text, where),
        cats=_parse_cats(record, where),
        tokens=_parse_tokens(record, text, where),
        source=where,
    )


def _get(record: Any, key: str, kind: type, where: str) -> Any:
    return get_field(record, key, kind, where, _ADVICE)


def _parse_spans(record: dict[str, Any], text: str, where: str) -> list[Mention] | None:
    if record.get("spans") is None:
        return None
    mentions = []
    for span in _get(record, "spans", list, where):
        with leaving_out():
            start, end = _get(span, "start", int, where), _get(span, "end", int, where)
            mention = Mention(_get(span, "label", str, where), ((start, end),), get_id(span, "id"))
            mentions.append(locate(text, mention, get_covered(span, where), where))
    return mentions


def _parse_cats(record: dict[str, Any], where: str) -> dict[str, float] | None:
    if record.get("cats") is not None:
        cats = _get(record, "cats", dict, where)
        for label, value in cats.items():
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                raise BiomedError(
                    f"{where}: the class {quote(label)} has the value {quote(value)}; write true "
                    f"or false, or a number between 0 and 1"
                )
        return {label: float(value) for label, value in cats.items()}
    if record.get("accept") is None:
        return None
    accepted = _get(record, "accept", list, where)
    options = _get(record, "options", list, where) if "options" in record else []
    cats = {_get(option, "id", str, where): 0.0 for option in options}
    for label in accepted:
        if not isinstance(label, str | int):
            raise BiomedError(f"{where}: {quote(label)} is accepted; write the id of an option")
        if options and str(label) not in cats:
            raise BiomedError(
                f"{where}: {quote(label)} is accepted but none of the options; add it to them"
            )
    return cats | {str(label): 1.0 for label in accepted}


def _parse_tokens(record: dict[str, Any], text: str, where: str) -> list[tuple[int, int]] | None:
    if not record.get("tokens"):
        return None
    tokens = []
    last_end = 0
    for token in _get(record, "tokens", list, where):
        start, end = _get(token, "start", int, where), _get(token, "end", int, where)
        if not last_end <= start < end <= len(text) or text[last_end:start].strip():
            raise BiomedError(
                f"{where}: the token from {quote(start)} to {quote(end)} overlaps the one before, "
                f"skips text or is beyond its end; correct the tokens, or leave them out"
            )
        tokens.append((start, end))
        last_end = end
    if text[last_end:].strip():
        raise BiomedError(
            f"{where}: the tokens end at {last_end}, before the text's end at {len(text)}; "
            f"correct the tokens, or leave them out"
        )
    return tokens
