"""spaCy's own format."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Doc, DocBin

from ...annotations.document_keys import DOCUMENT_ID
from ..findings import Layers
from ..sources import Item
from .sink import Sink


class SpacySink(Sink):
    """A `.spacy` file, with `doc.user_data["document_id"]` and other user data of plain types."""

    has_fields = True

    def __init__(self, layers: Layers, pipeline: str = "", keep: tuple[str, ...] = ()):
        super().__init__(layers, pipeline, keep)
        self._docs = DocBin(store_user_data=True)

    def add(self, document: int, item: Item, doc: Doc, found: dict[str, Any]) -> None:
        kept = {key: value for key, value in doc.user_data.items() if _is_plain(value)}
        fields = {name: value for name, value in item.fields.items() if _is_plain(value)}
        doc.user_data = {**kept, **fields, DOCUMENT_ID: item.id}
        self._docs.add(doc)

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.spacy": self._docs.to_bytes()}


def _is_plain(value: Any) -> bool:
    """Whether a value consists of types that MessagePack has."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
