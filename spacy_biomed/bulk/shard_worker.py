"""What a process that annotates shards does, whoever starts it: `processes`, or Ray."""

from collections.abc import Callable, Generator
from pathlib import Path

from spacy.language import Language

from ..errors import BiomedError
from ..files.sources import Part
from ..formats.inputs import find_parts
from ..pipeline.pipeline_loading import load_pipeline
from .deidentification import Deidentification
from .manifest import FinishedShard, describe_pipeline, read_manifest
from .shards import BulkSettings, ShardAnnotator, ShardWork, explain_failure

# Times that a shard is begun, if the process that annotates it dies.
ATTEMPTS = 3

# Yields finished shards, in any order. It takes the numbers of those to be done, ascending, and a
# function that is called with the rows and words that are done.
Engine = Callable[
    [ShardWork, list[int], Callable[[int, int], None]], Generator[FinishedShard, None, None]
]


class ShardWorker:
    """Annotates shards in a process of its own."""

    _annotator: ShardAnnotator

    def open(self, work: ShardWork) -> None:
        """Load the pipeline; raise BiomedError if input, pipeline or output are not those here."""
        if read_manifest(work.output) != work.manifest:
            raise BiomedError(
                f"{work.output}: another process does not find the run there that was begun; put "
                "the output on a file system that all of them share"
            )
        parts = find_input(work.source, work.settings, work.deidentification)
        if find_states(parts) != work.states:
            raise parts[0].has_changed()
        nlp = load(work.pipeline, work.settings, work.deidentification)
        described = describe_pipeline(nlp)
        expected = work.manifest.pipeline
        changed = [name for name in described if described[name] != expected.get(name)]
        if changed:
            raise BiomedError(
                f"{work.pipeline}: another process has other values of the pipeline "
                f"({', '.join(changed)}); install the same pipeline and packages on all machines"
            )
        self._annotator = ShardAnnotator(work, nlp, parts)

    def annotate(self, number: int) -> FinishedShard:
        """Annotate a shard; raise RuntimeError without the message of an error, which may quote."""
        try:
            return self._annotator.annotate(number)
        except BiomedError:
            raise
        except Exception as error:
            raise RuntimeError(explain_failure(error)) from None


def find_input(
    source: Path, settings: BulkSettings, deidentification: Deidentification | None
) -> list[Part]:
    """The parts of an input, whose texts are decoded first if that is asked for."""
    is_copied = deidentification is not None
    parts = find_parts(source, settings.columns, settings.layout, is_copied=is_copied)
    return parts if deidentification is None else [deidentification.read(part) for part in parts]


def load(
    pipeline: str, settings: BulkSettings, deidentification: Deidentification | None
) -> Language:
    """Load a pipeline, with the components of de-identification."""
    nlp = load_pipeline(pipeline, settings.code, settings.gpu_id)
    if deidentification is not None:
        deidentification.prepare(nlp)
    return nlp


def find_states(parts: list[Part]) -> dict[str, str]:
    """The state of each part of an input, when it was found, by its name."""
    return {part.name: part.state for part in parts}


def explain_deaths(work: ShardWork, number: int) -> BiomedError:
    """The error of a shard whose processes died `ATTEMPTS` times."""
    shard = work.manifest.shards[number]
    part = list(work.states)[shard.part]
    return BiomedError(
        f"shard {number} (rows {shard.row + 1:,} to {shard.row + shard.rows:,} of {part}): its "
        f"process died {ATTEMPTS} times; is there enough memory? Use fewer processes or smaller "
        "batches"
    )
