"""brat's standoff format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from ..sources import Item
from .document_names import DocumentNames
from .mentions import FoundMention, list_mentions
from .sink import Sink


class BratSink(Sink):
    """A folder with a `.txt` and an `.ann` file for each document, named after its identifier.

    Entities and answers have a note with their confidence and attributes as JSON. Relations follow.
    """

    is_folder = True

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._files: dict[str, bytes] = {}
        self._names = DocumentNames()

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        name = self._names.find(document, item.id)
        self._files[f"{name}.txt"] = doc.text.encode()
        self._files[f"{name}.ann"] = "".join(_standoff(doc.text, found)).encode()

    def files(self, part: str) -> dict[str, bytes]:
        return self._files


def _standoff(text: str, found: dict[str, Any]) -> Iterator[str]:
    """The lines of an `.ann` file."""
    mentions, relations = list_mentions(text, found)
    for mention in mentions:
        yield _line(mention, text)
        note = {"confidence": mention.confidence, **mention.attributes}
        note = {name: value for name, value in note.items() if value is not None}
        if note:
            shown = json.dumps(note, ensure_ascii=False)
            yield f"#{mention.number}\tAnnotatorNotes T{mention.number}\t{shown}\n"
    for relation in relations:
        arguments = f"Arg1:T{relation.head.number} Arg2:T{relation.tail.number}"
        yield f"R{relation.number}\t{_one_word(relation.label)} {arguments}\n"


def _line(mention: FoundMention, text: str) -> str:
    """The line of a mention, with a fragment for each line of the text, as brat requires."""
    start = mention.start
    lines = [match.span() for match in re.finditer(r"[^\r\n]+", text[start : mention.end])]
    places = ";".join(f"{start + first} {start + last}" for first, last in lines)
    covered = " ".join(text[start + first : start + last] for first, last in lines)
    return f"T{mention.number}\t{_one_word(mention.label)} {places}\t{covered}\n"


def _one_word(label: str) -> str:
    return re.sub(r"\s", "_", label) or "_"
