"""The formats that shards are written in, a module for each."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ...errors import BiomedError, add_hint, install_command, suggest
from ...files.compression import require_pyarrow
from ..findings import Layers
from ..sources import Columns
from .brat import BratSink
from .csv_tables import CsvSink
from .inception import InceptionSink
from .json_lines import JsonLinesSink
from .label_studio import LabelStudioSink
from .parquet import ParquetSink
from .prodigy import ProdigySink
from .pubtator import PubTatorSink
from .replacements import ReplacementSink
from .sink import Sink
from .spacy_docs import SpacySink

__all__ = ["REPLACEMENTS", "SINKS", "ParquetSink", "Sink", "create_sink", "find_format"]

SINKS: dict[str, type[Sink]] = {
    "brat": BratSink,
    "csv": CsvSink,
    "inception": InceptionSink,
    "jsonl": JsonLinesSink,
    "label_studio": LabelStudioSink,
    "parquet": ParquetSink,
    "prodigy": ProdigySink,
    "pubtator": PubTatorSink,
    "spacy": SpacySink,
}

_OWN_NAMES = {
    *("document", "id", "text", "characters", "words", "cats", "entities", "relations", "answers"),
    *("document_id", "lowest confidence"),
}

# The format of the parts of a run of `spacy biomed deidentify`, which are put together at its end.
REPLACEMENTS = "replacements"


def create_sink(format: str, layers: Layers, pipeline: str, keep: tuple[str, ...] = ()) -> Sink:
    """A sink of one of the formats of `SINKS`, or of `REPLACEMENTS`."""
    made = ReplacementSink if format == REPLACEMENTS else SINKS[format]
    return made(layers, pipeline, keep)


def check_keep(format: str, columns: Columns) -> None:
    """Raise BiomedError if a format has no place for a column that is to be kept."""
    for name in columns.keep:
        if not SINKS[format].has_fields:
            raise BiomedError(
                f"--keep {name}: the format {format} has no place for it; leave it out"
            )
        if name in _OWN_NAMES or name in (columns.text, columns.id):
            raise BiomedError(f"--keep {name}: the output has a column of this name; leave it out")


def find_format(output: Path) -> str:
    """The format of an output by the ending of its name: Parquet if it has none.

    Raises:
        BiomedError: if the ending is unknown, or the format needs a package that is missing.
    """
    format = output.suffix.lower().removeprefix(".") or "parquet"
    if format not in SINKS:
        endings = ", ".join(f".{name}" for name in SINKS)
        problem = (
            f"{output}: no known ending; end the name of the output folder in {endings}, or in "
            "none for Parquet"
        )
        raise BiomedError(add_hint(problem, suggest(output.suffix, endings.split(", "))))
    if format == "parquet":
        require_pyarrow(str(output))
    if format == "inception" and find_spec("cassis") is None:
        raise BiomedError(f"{output}: needs dkpro-cassis: {install_command('inception')}")
    return format
