"""Parquet tables."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from ..sources import Item
from ..tables import TableBuilder
from .sink import Sink


class ParquetSink(Sink):
    """A folder for each table, with a file for each shard.

    Attributes:
        builder: has the tables.
    """

    has_fields = True

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self.builder = TableBuilder(layers, keep)

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        self.builder.add(document, item, found)

    def files(self, part: str) -> dict[str, bytes]:
        import pyarrow
        from pyarrow.parquet import write_table

        files = {}
        for name, table in self.builder.tables():
            buffer = pyarrow.BufferOutputStream()
            write_table(table, buffer, compression="zstd")
            files[f"{name}/{part}.parquet"] = buffer.getvalue().to_pybytes()
        return files
