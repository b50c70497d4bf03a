"""PubTator."""

from __future__ import annotations

import re
from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from ..sources import Item
from .sink import Sink


class PubTatorSink(Sink):
    """A PubTator file with titles, abstracts and mentions.

    The title is the first line of the text. White space of other kinds becomes a space, so offsets
    stay the same. An entity's `kb_id`, or else its `id`, is the concept.
    """

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._blocks: list[str] = []

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        name = re.sub(r"[|\s]", "_", item.id)
        title, _, abstract = doc.text.partition("\n")
        lines = [f"{name}|t|{_one_line(title)}", f"{name}|a|{_one_line(abstract)}"]
        for span in found["entities"]:
            place, attributes = (str(span["start"]), str(span["end"])), span["attributes"]
            concept = attributes.get("kb_id") or attributes.get("id") or ""
            cells = [name, *place, *map(_one_line, (span["text"], span["label"], concept))]
            lines.append("\t".join(cells))
        self._blocks.append("\n".join([*lines, "", ""]))

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.pubtator": "".join(self._blocks).encode()}


def _one_line(text: str) -> str:
    return re.sub(r"[\t\r\n]", " ", text)
