"""JSON lines."""

from __future__ import annotations

import json
from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from .sink import Sink


class JsonLinesSink(Sink):
    """A JSON object for each document, as `findings.describe` describes it."""

    def __init__(self, layers: Layers, pipeline: str = ""):
        super().__init__(layers, pipeline)
        self._lines: list[str] = []

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        row = {"document": document, "id": id, **found}
        self._lines.append(json.dumps(row, ensure_ascii=False) + "\n")

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.jsonl": "".join(self._lines).encode()}
