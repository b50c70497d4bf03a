"""What replaces the mentions of documents: the parts of a run of `spacy biomed deidentify`."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from spacy.tokens import Doc

from ...errors import BiomedError
from ..findings import Layers
from ..sources import Item
from .sink import Sink


def hash_text(text: str) -> str:
    """The hash that tells whether offsets belong to a text."""
    return blake2b(text.encode("utf8", "surrogatepass"), digest_size=16).hexdigest()


class ReplacementSink(Sink):
    """A line for each document, with what replaces its mentions and nothing of its text.

    It has the document's number, a hash of its text, and offsets in it, label and replacement of
    each mention, in text order.
    """

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._lines: list[str] = []

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        deidentified = doc._.deidentified
        if deidentified is None:
            raise BiomedError(
                f"{item.id}: no component has looked for mentions: give a pipeline that does, or "
                "the component's spans_key"
            )
        rows = [(one.start, one.end, one.label, one.text) for one in deidentified.replacements]
        line = json.dumps([document, hash_text(item.text), rows], ensure_ascii=False)
        self._lines.append(f"{line}\n")

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.jsonl": "".join(self._lines).encode()}
