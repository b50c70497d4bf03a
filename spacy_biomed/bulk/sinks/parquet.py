"""Parquet tables."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from ..tables import TableBuilder
from .sink import Sink


class ParquetSink(Sink):
    """A folder for each table, with a file for each shard.

    Attributes:
        builder: has the tables.
    """

    def __init__(self, layers: Layers, pipeline: str = ""):
        super().__init__(layers, pipeline)
        self.builder = TableBuilder(layers)

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        self.builder.add(document, id, found)

    def files(self, part: str) -> dict[str, bytes]:
        import pyarrow
        from pyarrow.parquet import write_table

        files = {}
        for name, table in self.builder.tables():
            buffer = pyarrow.BufferOutputStream()
            write_table(table, buffer, compression="zstd")
            files[f"{name}/{part}.parquet"] = buffer.getvalue().to_pybytes()
        return files
