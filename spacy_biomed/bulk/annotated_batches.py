"""Annotate documents in Python; batches are Arrow tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spacy.language import Language
from spacy.util import minibatch

from ..errors import BiomedError
from ..files.compression import require_pyarrow
from ..files.sources import Columns, Item, plan_shards, read_identifier
from ..formats.findings import find_layers
from ..formats.inputs import find_parts
from ..formats.tables import FoundTables
from .shards import annotate_rows, learn_words

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class AnnotatedBatch:
    """What was found in consecutive documents. `to_pandas()` of a table gives a data frame.

    Attributes:
        documents: `document` (its number in the source, from 0), `id`, `characters`, `words`, and
            `cats` (class to score) if the pipeline classifies.
        entities: `document`, `id`, `start`, `end` (in characters), `text`, `label`, `group` (key of
            `doc.spans`; null for `doc.ents`), `confidence` (probability or null) and `attributes`
            (name to string).
        relations: `document`, `id`, `head_start`, `head_end`, `head_label`, the same of `tail`,
            `label` and `confidence`; None if the pipeline finds no relations.
        answers: `document`, `id`, `start`, `end`, `text`, `confidence`; None if the pipeline
            answers no questions.
        errors: `id` and `reason` of each document that could not be annotated.
    """

    documents: pa.Table
    entities: pa.Table
    relations: pa.Table | None
    answers: pa.Table | None
    errors: list[dict[str, str]]


def annotate(
    nlp: Language,
    source: Path | str | Iterable[str] | Iterable[tuple[str, str]],
    *,
    text_column: str = "text",
    id_column: str | None = None,
    rows: int = 1000,
    batch_size: int | None = None,
    min_confidence: float = 0.0,
) -> Iterator[AnnotatedBatch]:
    """Annotate many documents, with constant memory.

    Args:
        source: file or folder, as for `spacy biomed annotate`; or texts, or pairs of identifier and
            text. The identifier of a text, or of a pair without one, is its number, from 0.
        rows: documents of a batch that is yielded, which begins a new one at the end of a file.
        batch_size: documents that the pipeline reads together; by default its own.
        min_confidence: entities of a lower confidence are left out, from 0 to 1.

    Raises:
        BiomedError: if the source cannot be read, changes or is a table or mapping, or pyarrow is
            not installed. A document that fails is in `errors`.

    Examples:
        >>> import spacy, spacy_biomed
        >>> nlp = spacy.blank("en")
        >>> nlp.add_pipe("entity_ruler").add_patterns([{"label": "DRUG", "pattern": "aspirin"}])
        >>> batches = spacy_biomed.annotate(nlp, ["No aspirin today.", "More aspirin."])
        >>> [batch.entities.to_pydict()["start"] for batch in batches]
        [[3, 5]]
    """
    require_pyarrow("spacy_biomed.annotate")
    layers = find_layers(nlp)
    first = 0
    for items in _read(source, Columns(text_column, id_column), rows):
        if first == 0:
            learn_words(nlp, items)
        errors: list[dict[str, str]] = []
        with nlp.memory_zone():
            documents = annotate_rows(
                nlp,
                items,
                first,
                batch_size or nlp.batch_size,
                layers,
                Counter(),
                errors,
                min_confidence=min_confidence,
            )
            tables = dict(FoundTables(documents, layers).tables())
        optional = tables.get("relations"), tables.get("answers")
        yield AnnotatedBatch(tables["documents"], tables["entities"], *optional, errors)
        first += len(items)


def _read(
    source: Path | str | Iterable[str] | Iterable[tuple[str, str]], columns: Columns, size: int
) -> Iterator[list[Item]]:
    """Read a source in lists of up to `size` rows."""
    if isinstance(source, Path | str):
        parts = find_parts(Path(source), columns)
        for shard in plan_shards(parts, size):
            yield parts[shard.part].load_rows(shard)
        return
    if isinstance(source, Mapping) or hasattr(source, "columns"):
        raise BiomedError("the source is a table: give its text column, or pairs of id and text")
    yield from minibatch((_to_item(number, given) for number, given in enumerate(source)), size)


def _to_item(number: int, given: object) -> Item:
    """A document that is given: its text, or a pair of identifier and text."""
    id, text = given if isinstance(given, tuple | list) and len(given) == 2 else (number, given)
    name, problem = read_identifier(id)
    name = str(id) if problem else name or str(number)
    if isinstance(text, str):
        return Item(name, text)
    # As of a column with gaps.
    return Item(name, error=f"no text, but {type(text).__name__}")
