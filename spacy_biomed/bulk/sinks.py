"""The formats that shards are written in."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from ..errors import BiomedError
from .findings import Layers
from .sources import require_pyarrow
from .tables import TableBuilder


class Sink(ABC):
    """Collects the documents of a shard, and gives the content of its files.

    The content depends only on the documents and their order.

    Args:
        layers: layers that the pipeline writes.
    """

    def __init__(self, layers: Layers):
        self.layers = layers

    @abstractmethod
    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        """Add a document: its number in the input, its identifier, and what was found in it."""

    @abstractmethod
    def files(self, part: str) -> dict[str, bytes]:
        """The content of each file by its path in the output.

        Args:
            part: the name of the shard, such as `part-00012`.
        """


class JsonLinesSink(Sink):
    """A JSON object for each document, as `findings.describe` describes it."""

    def __init__(self, layers: Layers):
        super().__init__(layers)
        self._lines: list[str] = []

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        row = {"document": document, "id": id, **found}
        self._lines.append(json.dumps(row, ensure_ascii=False) + "\n")

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.jsonl": "".join(self._lines).encode()}


class ParquetSink(Sink):
    """A folder for each table, with a file for each shard.

    Attributes:
        builder: has the tables.
    """

    def __init__(self, layers: Layers):
        super().__init__(layers)
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


SINKS: dict[str, type[Sink]] = {"jsonl": JsonLinesSink, "parquet": ParquetSink}


def find_format(output: Path) -> str:
    """The format of an output by the ending of its name: Parquet if it has none.

    Raises:
        BiomedError: if the ending is unknown, or the format needs a package that is missing.
    """
    format = output.suffix.lower().removeprefix(".") or "parquet"
    if format not in SINKS:
        endings = ", ".join(f".{name}" for name in SINKS)
        raise BiomedError(
            f"{output}: no known ending; end the name of the output folder in {endings}, or in "
            "none for Parquet"
        )
    if format == "parquet":
        require_pyarrow(str(output))
    return format
