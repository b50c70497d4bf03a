"""The base class of the formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from ..sources import Item


class Sink(ABC):
    """Collects the documents of a shard, and gives the content of its files.

    The content depends only on the pipeline, the documents and their order.

    Args:
        layers: layers that the pipeline writes.
        pipeline: name and version of the pipeline.
        keep: columns of the input that are written.

    Attributes:
        is_folder: whether the files of a shard are in a folder of their own.
        has_fields: whether the columns that are kept are written.
    """

    is_folder = False
    has_fields = False

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        self.layers = layers
        self.pipeline = pipeline
        self.keep = keep

    @abstractmethod
    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        """Add a document: its number in the input, its row, and what was found in it."""

    @abstractmethod
    def files(self, part: str) -> dict[str, bytes]:
        """The content of each file by its path in the output, or in the folder of the shard.

        Args:
            part: the name of the shard, such as `part-00012`.
        """
