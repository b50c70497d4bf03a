"""Tasks with predictions for Label Studio."""

from __future__ import annotations

import json
from typing import Any

from spacy.tokens import Doc

from ..findings import Layers
from ..sources import Item
from .mentions import FoundMention, list_mentions
from .sink import Sink

# Names in the labeling configuration (docs/tasks/annotation_tools.md).
LABELS, CHOICES, TEXT = "label", "class", "text"

# A class with at least this score is chosen.
_CHOSEN = 0.5


class LabelStudioSink(Sink):
    """A JSON file with a list of tasks, each with one prediction.

    Offsets are code points, as in Label Studio (old versions counted UTF-16 code units). The score
    of a prediction is the lowest confidence of its mentions, so that tasks can be ordered by it.
    The identifier of the document is a field of the task's data.
    """

    has_fields = True

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._tasks: list[str] = []

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        mentions, relations = list_mentions(doc.text, found)
        result = [_describe(mention, document, doc.text) for mention in mentions]
        for relation in relations:
            result.append(
                {
                    "type": "relation",
                    "from_id": _region(document, relation.head),
                    "to_id": _region(document, relation.tail),
                    "direction": "right",
                    "labels": [relation.label],
                }
            )
        if self.layers.cats:
            result.append(_choose(document, found["cats"]))
        confidences = [one.confidence for one in mentions if one.confidence is not None]
        prediction: dict[str, Any] = {"model_version": self.pipeline, "result": result}
        if confidences:
            prediction["score"] = min(confidences)
        data = {**item.fields, TEXT: doc.text, "id": item.id}
        task = {"data": data, "predictions": [prediction]}
        self._tasks.append(json.dumps(task, ensure_ascii=False, default=str))

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.json": ("[\n" + ",\n".join(self._tasks) + "\n]\n").encode()}


def _region(document: int, mention: FoundMention) -> str:
    """The id of a mention: no other of the project may have it."""
    return f"{document}-{mention.number}"


def _describe(mention: FoundMention, document: int, text: str) -> dict[str, Any]:
    region: dict[str, Any] = {
        "id": _region(document, mention),
        "from_name": LABELS,
        "to_name": TEXT,
        "type": "labels",
        "value": {
            "start": mention.start,
            "end": mention.end,
            "text": text[mention.start : mention.end],
            "labels": [mention.label],
        },
    }
    if mention.confidence is not None:
        region["score"] = mention.confidence
    if mention.attributes:
        region["meta"] = mention.attributes
    return region


def _choose(document: int, cats: dict[str, float]) -> dict[str, Any]:
    return {
        "id": f"{document}-{CHOICES}",
        "from_name": CHOICES,
        "to_name": TEXT,
        "type": "choices",
        "value": {"choices": [label for label, score in cats.items() if score >= _CHOSEN]},
    }
