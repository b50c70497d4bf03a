"""JSON lines."""

from __future__ import annotations

import json
from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from ..sources import Item
from .sink import Sink


class JsonLinesSink(Sink):
    """A JSON object for each document, as `findings.describe` describes it."""

    has_fields = True

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._lines: list[str] = []

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        row = {"document": document, "id": item.id, **item.fields, **found}
        self._lines.append(json.dumps(row, ensure_ascii=False, default=str) + "\n")

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.jsonl": "".join(self._lines).encode()}
