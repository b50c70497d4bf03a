"""Found entities, classes, relations and answers as Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..annotations.assertions import ASSERTIONS
from ..annotations.sections import SECTION

if TYPE_CHECKING:
    import pyarrow as pa

    from .findings import Layers
    from .sources import Item

# Extensions of entities that are a column where a component sets them, with their types.
ENTITY_FIELDS = {"code": "string", "code_name": "string", "code_confidence": "float32"}

# Type of each column of the tables, as `pyarrow` names them.
_KEYS = {"document": "int64", "id": "string"}
_SPAN = {"start": "int64", "end": "int64", "text": "string"}
_MAPS = {"attributes": "string", "cats": "float32"}
_COLUMNS: dict[str, dict[str, str]] = {
    "documents": {**_KEYS, "characters": "int64", "words": "int64"},
    "entities": {
        **_KEYS,
        **_SPAN,
        "label": "string",
        "group": "string",
        "confidence": "float32",
        "attributes": "map",
    },
    "relations": {
        **_KEYS,
        "head_start": "int64",
        "head_end": "int64",
        "head_label": "string",
        "tail_start": "int64",
        "tail_end": "int64",
        "tail_label": "string",
        "label": "string",
        "confidence": "float32",
    },
    "answers": {**_KEYS, **_SPAN, "confidence": "float32"},
}


def list_tables(layers: Layers) -> list[str]:
    """The names of the tables for a pipeline with these layers."""
    optional = {"relations": layers.relations, "answers": layers.answers}
    return [name for name in _COLUMNS if optional.get(name, True)]


class TableBuilder:
    """Collects documents, and makes the tables of them.

    Args:
        layers: layers that the pipeline writes, which decide on the tables and columns: they are
            the same whether anything was found or not.
        keep: columns of the input that `documents` has too, as strings; other values are JSON.
    """

    def __init__(self, layers: Layers, keep: tuple[str, ...] = ()):
        self._columns = {name: dict(_COLUMNS[name]) for name in list_tables(layers)}
        self._columns["entities"] |= {name: ENTITY_FIELDS[name] for name in layers.fields}
        if layers.cats:
            self._columns["documents"]["cats"] = "map"
        if layers.sections:
            self._columns["entities"][SECTION] = "string"
        if layers.assertions:
            self._columns["entities"] |= dict.fromkeys(ASSERTIONS, "bool")
        self._columns["documents"] |= dict.fromkeys(keep, "string")
        self._values: dict[str, dict[str, list[Any]]] = {
            table: {name: [] for name in columns} for table, columns in self._columns.items()
        }

    def add(self, document: int, item: Item, found: Mapping[str, Any]) -> None:
        """Add a document.

        Args:
            document: its number in the input.
            item: its row.
            found: what was found in it (`findings.describe`).
        """
        keys = {"document": document, "id": item.id}
        kept = {name: _to_string(value) for name, value in item.fields.items()}
        for table, values in self._values.items():
            rows = [{**found, **kept}] if table == "documents" else found[table]
            for row in rows:
                for name, column in values.items():
                    column.append(keys[name] if name in keys else row[name])

    def rows(self) -> Iterator[tuple[str, list[str], Iterator[tuple[Any, ...]]]]:
        """The name, the columns and the rows of each table."""
        for table, values in self._values.items():
            yield table, list(values), zip(*values.values(), strict=True)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """The tables by name: documents, entities, and relations and answers where they exist."""
        import pyarrow as pa

        for table, columns in self._columns.items():
            arrays = [
                pa.array(_pairs(self._values[table][name]), pa.map_(pa.string(), _MAPS[name]))
                if kind == "map"
                else pa.array(self._values[table][name], kind)
                for name, kind in columns.items()
            ]
            yield table, pa.Table.from_arrays(arrays, names=list(columns))


def _to_string(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _pairs(values: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return [list(value.items()) for value in values]
