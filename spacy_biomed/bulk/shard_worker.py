"""What a process that annotates shards does, whoever starts it: `processes`, or Ray."""

from collections.abc import Callable, Generator
from hashlib import sha256
from pathlib import Path

from spacy.language import Language

from ..errors import BiomedError
from ..files.sources import Part, Shard
from ..formats.inputs import find_parts
from ..pipeline.pipeline_loading import load_pipeline
from .deidentification import Deidentification
from .manifest import MANIFEST, FinishedShard, describe_pipeline
from .shards import BulkSettings, ShardAnnotator, ShardWork, explain_failure

# Times that a shard is begun, if the process that annotates it dies.
ATTEMPTS = 3

# Yields the finished shards of a list, in any order. It takes what is to be done, the shards by
# number, ascending, and a function that is called after each shard with its rows and words.
Engine = Callable[
    [ShardWork, list[tuple[int, Shard]], Callable[[int, int], None]],
    Generator[FinishedShard, None, None],
]


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
        self._annotator = ShardAnnotator(work, nlp, parts)

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
