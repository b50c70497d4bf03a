"""What a process that annotates shards does, whoever starts it: `processes`, or Ray."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from spacy.language import Language

from ..errors import BiomedError
from ..files.records import Layout
from ..files.sources import Columns, Part, Shard
from ..formats.inputs import find_parts
from ..formats.registry import get_format
from ..pipeline.pipeline_loading import load_pipeline
from .deidentification import Deidentification
from .manifest import MANIFEST, FinishedShard, describe_pipeline
from .replacements import REPLACEMENTS
from .shards import ShardAnnotator, explain_failure
from .time_limit import DEFAULT_SECONDS

# Times that a shard is begun, if the process that annotates it dies.
ATTEMPTS = 3

# Yields the finished shards of a list, in any order; called with what is to be done, the shards by
# number, and a function to be called after each shard with its rows and words.
Engine = Callable[
    ["ShardWork", list[tuple[int, Shard]], Callable[[int, int], None]],
    Generator[FinishedShard, None, None],
]


@dataclass(frozen=True)
class ShardWork:
    """What a process needs to annotate shards, and what it has to find where it runs.

    Attributes:
        pipeline: installed package or pipeline directory.
        source, output: file or folder to annotate, and output folder.
        columns: of the documents.
        layout: of text files.
        code: Python file that the pipeline needs.
        format: of the output.
        batch_size: documents of a batch.
        threads: of each process.
        states: the state of each part of the input by its name.
        described: see `describe_pipeline`.
        manifest: SHA-256 of the manifest in the output.
        min_confidence: entities of a lower confidence are left out.
        deidentification: how the documents are de-identified; None if they are not.
        meanings, date: see `AnnotatedShard`.
        gpu_id: see `BulkSettings`.
        max_seconds: see `shards.annotate_items`.
    """

    pipeline: str
    source: str
    output: str
    columns: Columns
    format: str
    batch_size: int
    threads: int
    states: dict[str, str]
    described: dict[str, str]
    manifest: str
    layout: Layout = Layout()
    code: str | None = None
    min_confidence: float = 0.0
    deidentification: Deidentification | None = None
    meanings: dict[str, dict[str, str]] = field(default_factory=dict)
    date: str = ""
    gpu_id: int = -1
    max_seconds: float = DEFAULT_SECONDS

    def open_output(self, nlp: Language, parts: list[Part]) -> ShardAnnotator:
        """What annotates and writes the shards, with a loaded pipeline."""
        return ShardAnnotator(
            nlp,
            parts,
            Path(self.output),
            REPLACEMENTS if self.deidentification else get_format(self.format),
            self.batch_size,
            self.min_confidence,
            {"keep": self.columns.keep, "meanings": self.meanings, "date": self.date},
            self.max_seconds,
        )


class ShardWorker:
    """Annotates shards in a process of its own."""

    _annotator: ShardAnnotator

    def open(self, work: ShardWork) -> None:
        """Load the pipeline.

        Raises:
            BiomedError: if this process does not find the same input, pipeline and output.
        """
        self._annotator = _open(work)

    def annotate(self, number: int, shard: Shard) -> FinishedShard:
        """Annotate a shard.

        Raises:
            BiomedError: if the input cannot be read or the output cannot be written.
            RuntimeError: any other error, without its message, which may quote a text.
        """
        try:
            return self._annotator.annotate(number, shard)
        except BiomedError:
            raise
        except Exception as error:
            raise RuntimeError(explain_failure(error)) from None


def _open(work: ShardWork) -> ShardAnnotator:
    source, output = Path(work.source), Path(work.output)
    if hash_manifest(output) != work.manifest:
        raise BiomedError(
            f"{output}: another process does not find the run there that was begun; put the output "
            "on a file system that all of them share"
        )
    deidentification = work.deidentification
    parts = find_parts(source, work.columns, work.layout, is_copied=deidentification is not None)
    if find_states(parts) != work.states:
        raise parts[0].has_changed()
    nlp = load_pipeline(work.pipeline, work.code, work.gpu_id)
    described = describe_pipeline(nlp)
    changed = [name for name in described if described[name] != work.described.get(name)]
    if changed:
        raise BiomedError(
            f"{work.pipeline}: another process has other values of the pipeline "
            f"({', '.join(changed)}); install the same pipeline and packages on all machines"
        )
    if deidentification is not None:
        deidentification.prepare(nlp)
        parts = [deidentification.read(part) for part in parts]
    return work.open_output(nlp, parts)


def find_states(parts: list[Part]) -> dict[str, str]:
    """The state of each part of an input, when it was found, by its name."""
    return {part.name: part.state for part in parts}


def hash_manifest(output: Path) -> str:
    """SHA-256 of the manifest in an output; "" if there is none."""
    try:
        return sha256((output / MANIFEST).read_bytes()).hexdigest()
    except OSError:
        return ""


def explain_deaths(work: ShardWork, number: int, shard: Shard) -> BiomedError:
    """The error of a shard whose processes died `ATTEMPTS` times."""
    part = list(work.states)[shard.part]
    return BiomedError(
        f"shard {number} (rows {shard.row + 1:,} to {shard.row + shard.rows:,} of {part}): its "
        f"process died {ATTEMPTS} times; is there enough memory? Use fewer processes or smaller "
        "batches"
    )
