"""Found entities, classes, relations and answers as tables: Parquet, CSV, or in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..annotations.assertions import ASSERTIONS
from ..annotations.sections import SECTION
from ..files.compression import require_pyarrow
from ..files.parquet import pack_table
from ..files.records import format_fields
from .findings import ENTITY_FIELDS, AnnotatedDocument, AnnotatedShard, Layers, show_value
from .mention_tables import read_mention_tables
from .registry import Format

if TYPE_CHECKING:
    import pyarrow as pa

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
        **{"head_start": "int64", "head_end": "int64", "head_label": "string"},
        **{"tail_start": "int64", "tail_end": "int64", "tail_label": "string"},
        "label": "string",
        "confidence": "float32",
    },
    "answers": {**_KEYS, **_SPAN, "confidence": "float32"},
}


class FoundTables:
    """What was found in documents, as tables.

    The layers that the pipeline writes decide on the tables and columns, which are the same whether
    anything was found or not. `keep` has columns of the input that the table `documents` has too,
    as strings; other values are JSON.
    """

    def __init__(
        self, documents: Iterable[AnnotatedDocument], layers: Layers, keep: tuple[str, ...] = ()
    ):
        optional = {"relations": layers.relations, "answers": layers.answers}
        names = [name for name in _COLUMNS if optional.get(name, True)]
        self._columns = {name: dict(_COLUMNS[name]) for name in names}
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
        for number, item, _, found in documents:
            keys = {"document": number, "id": item.id}
            kept = {name: show_value(value) for name, value in item.fields.items()}
            for table, columns in self._values.items():
                for row in [{**found, **kept}] if table == "documents" else found[table]:
                    for name, column in columns.items():
                        column.append(keys[name] if name in keys else row[name])

    def rows(self) -> Iterator[tuple[str, list[str], Iterator[tuple[object, ...]]]]:
        """The name, the columns and the rows of each table."""
        for table, values in self._values.items():
            yield table, list(values), zip(*values.values(), strict=True)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """The tables by name: documents, entities, and relations and answers where they exist."""
        import pyarrow as pa

        for table, kinds in self._columns.items():
            columns = self._values[table]
            arrays = [
                pa.array([[*one.items()] for one in columns[name]], pa.map_("string", _MAPS[name]))
                if kind == "map"
                else pa.array(columns[name], kind)
                for name, kind in kinds.items()
            ]
            yield table, pa.Table.from_arrays(arrays, names=list(kinds))


def write_parquet(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a folder for each table, with a file for each shard."""
    tables = FoundTables(shard.documents, shard.layers, shard.keep).tables()
    return {f"{name}/{shard.name}.parquet": pack_table(table) for name, table in tables}


def write_csv(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a folder for each of the tables of Parquet, with a file for each shard.

    Attributes and classes are JSON objects. What is null in Parquet is empty.
    """

    def show(value: object) -> object:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value

    return {
        f"{name}/{shard.name}.csv": "".join(
            format_fields(map(show, row), ",") for row in [columns, *rows]
        ).encode()
        for name, columns, rows in FoundTables(shard.documents, shard.layers, shard.keep).rows()
    }


PARQUET = Format(write=write_parquet, has_fields=True, require=require_pyarrow)
TSV = Format(read_mention_tables, options=("tag_label",), is_joint=True)
CSV = replace(TSV, write=write_csv, has_fields=True)
