"""What a process that annotates shards does, whoever starts it: `processes`, or Ray."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal

from spacy.language import Language

from ..errors import BiomedError
from ..files.records import Layout
from ..files.sources import Columns, Part, Shard
from ..formats.inputs import find_parts
from ..formats.registry import get_format
from ..pipeline.pipeline_loading import load_pipeline
from .deidentification import REPLACEMENTS, Deidentification
from .manifest import MANIFEST, FinishedShard, describe_pipeline
from .shards import ShardAnnotator, explain_failure
from .time_limit import DEFAULT_SECONDS

# Times that a shard is begun, if the process that annotates it dies.
ATTEMPTS = 3

# Yields the finished shards of a list, in any order; called with what is to be done, the shards by
# number, ascending, and a function to be called after each shard with its rows and words.
Engine = Callable[
    ["ShardWork", list[tuple[int, Shard]], Callable[[int, int], None]],
    Generator[FinishedShard, None, None],
]


@dataclass(frozen=True)
class BulkSettings:
    """How a collection is annotated.

    Attributes:
        code: Python file with what the pipeline needs, such as its own components.
        shard_size: rows of a shard. All of a shard's documents are in memory.
        batch_size: documents of a batch; None for the pipeline's, and at least 512 on a GPU.
        n_process: processes that annotate shards; None for one, or with Ray for one for each
            processor. Their number of threads is recorded in the
            manifest, and the same in continued runs: OMP_NUM_THREADS, or one for several processes,
            or else the number of processors. The output does not depend on the number of processes.
        max_errors: the run stops after a shard with which more rows than this could not be
            annotated; None for no limit.
        min_confidence: entities of a lower confidence are left out, from 0 to 1; 0 keeps all.
        engine: who runs the processes: this process, or Ray.
        address: of a Ray cluster, `HOST:PORT` or "auto"; None starts Ray on this machine.
        verbose: whether Ray's messages are printed.
        meanings: JSON file with what labels mean, for FHIR and OMOP (`read_meanings`).
        gpu_id: the GPU on which encoders in PyTorch compute; processes share it. -1 for the CPU.
        max_seconds: time for a text, after which it fails.
    """

    columns: Columns = field(default_factory=Columns)
    layout: Layout = field(default_factory=Layout)
    code: str | None = None
    shard_size: int = 1000
    batch_size: int | None = None
    n_process: int | None = None
    max_errors: int | None = None
    min_confidence: float = 0.0
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    verbose: bool = False
    meanings: Path | None = None
    gpu_id: int = -1
    max_seconds: float = DEFAULT_SECONDS


@dataclass(frozen=True)
class ShardWork:
    """What a process needs to annotate shards, and what it has to find where it runs.

    Attributes:
        pipeline: installed package or pipeline directory.
        source, output: file or folder to annotate, and output folder.
        states: the state of each part of the input by its name.
        described: see `describe_pipeline`.
        manifest: SHA-256 of the manifest in the output.
        deidentification: how the documents are de-identified; None if they are not.
        meanings, date: see `AnnotatedShard`.
    """

    pipeline: str
    source: Path
    output: Path
    settings: BulkSettings
    format: str
    batch_size: int
    threads: int
    states: dict[str, str]
    described: dict[str, str]
    manifest: str
    deidentification: Deidentification | None = None
    meanings: dict[str, dict[str, str]] = field(default_factory=dict)
    date: str = ""

    def open_output(self, nlp: Language, parts: list[Part]) -> ShardAnnotator:
        """What annotates and writes the shards, with a loaded pipeline."""
        return ShardAnnotator(
            nlp,
            parts,
            self.output,
            REPLACEMENTS if self.deidentification else get_format(self.format),
            self.batch_size,
            self.settings.min_confidence,
            {"keep": self.settings.columns.keep, "meanings": self.meanings, "date": self.date},
            self.settings.max_seconds,
        )


class ShardWorker:
    """Annotates shards in a process of its own."""

    _annotator: ShardAnnotator

    def open(self, work: ShardWork) -> None:
        """Load the pipeline.

        Raises:
            BiomedError: if this process does not find the same input, pipeline and output.
        """
        if hash_manifest(work.output) != work.manifest:
            raise BiomedError(
                f"{work.output}: another process does not find the run there that was begun; put "
                "the output on a file system that all of them share"
            )
        parts = find_input(work.source, work.settings, work.deidentification)
        if find_states(parts) != work.states:
            raise parts[0].has_changed()
        nlp = load(work.pipeline, work.settings, work.deidentification)
        described = describe_pipeline(nlp)
        changed = [name for name in described if described[name] != work.described.get(name)]
        if changed:
            raise BiomedError(
                f"{work.pipeline}: another process has other values of the pipeline "
                f"({', '.join(changed)}); install the same pipeline and packages on all machines"
            )
        self._annotator = work.open_output(nlp, parts)

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


def find_input(
    source: Path, settings: BulkSettings, deidentification: Deidentification | None
) -> list[Part]:
    """The parts of an input, whose texts are decoded first if that is asked for.

    Raises:
        BiomedError: if it cannot be read (`find_parts`).
    """
    is_copied = deidentification is not None
    parts = find_parts(source, settings.columns, settings.layout, is_copied=is_copied)
    return parts if deidentification is None else [deidentification.read(part) for part in parts]


def load(
    pipeline: str, settings: BulkSettings, deidentification: Deidentification | None
) -> Language:
    """Load a pipeline, with the components of de-identification.

    Raises:
        BiomedError: if it cannot be loaded, or cannot de-identify.
    """
    nlp = load_pipeline(pipeline, settings.code, settings.gpu_id)
    if deidentification is not None:
        deidentification.prepare(nlp)
    return nlp


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
