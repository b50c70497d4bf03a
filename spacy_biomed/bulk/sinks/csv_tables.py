"""CSV tables."""

from __future__ import annotations

import json
from typing import Any

from spacy.tokens import Doc

from ...files.records import format_fields
from ..findings import Layers
from ..sources import Item
from ..tables import TableBuilder
from .sink import Sink


class CsvSink(Sink):
    """A folder for each of the tables of Parquet, with a file for each shard.

    Attributes and classes are JSON objects. What is null in Parquet is empty.
    """

    has_fields = True

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._builder = TableBuilder(layers, keep)

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        self._builder.add(document, item, found)

    def files(self, part: str) -> dict[str, bytes]:
        return {
            f"{name}/{part}.csv": "".join(
                format_fields(map(_to_cell, row), ",") for row in [list(columns), *rows]
            ).encode()
            for name, columns, rows in self._builder.rows()
        }


def _to_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
