"""Annotate the documents of shards and write their files, in this process or in one of its own."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from typing import Literal

from spacy.language import Language
from spacy.tokens import Doc

from ..annotations.document_keys import DOCUMENT_ID
from ..errors import BiomedError, DamagedPipelineError
from ..files.outputs import write_part
from ..files.records import Layout
from ..files.sources import Columns, Item, Part, has_changed, printable
from ..formats.fhir import read_meanings
from ..formats.findings import AnnotatedDocument, AnnotatedShard, Layers, describe, find_layers
from ..formats.inputs import find_parts
from ..formats.registry import get_format
from ..pipeline.mention_layer import keep_confident
from ..pipeline.pipeline_loading import load_pipeline
from .deidentification import REPLACEMENTS, Deidentification
from .manifest import FinishedShard, Manifest, describe_pipeline, hash_folder, read_manifest
from .time_limit import DEFAULT_SECONDS, TookTooLong, limit_each

# What the pipeline's vocabulary learns from texts is forgotten after each shard, but not the words
# of the first texts: of other words, spaCy's tokenizer caches none.
LEARNED_CHARACTERS = 500_000
# Times that a shard is begun, if the process that annotates it dies.
ATTEMPTS = 3


@dataclass(frozen=True)
class BulkSettings:
    """How a collection is annotated.

    Attributes:
        code: Python file with what the pipeline needs, such as its own components.
        shard_size: rows of a shard. All of a shard's documents are in memory.
        batch_size: documents of a batch; None for the pipeline's, and at least 512 on a GPU.
        n_process: processes that annotate shards; None for one, or with Ray for one for each
            processor. Continued runs keep their number of threads: OMP_NUM_THREADS, or one for
            several processes, or else the number of processors.
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

    `states` has the state of each part of the input by its name.
    """

    pipeline: str
    source: Path
    output: Path
    settings: BulkSettings
    deidentification: Deidentification | None
    manifest: Manifest
    states: dict[str, str]

    @property
    def threads(self) -> int:
        """The number of threads of each process."""
        return int(self.manifest.settings["threads"])


# Yields finished shards, in any order. It takes the numbers of those to be done, ascending, and a
# function that is called with the rows and words that are done.
Engine = Callable[
    [ShardWork, list[int], Callable[[int, int], None]], Generator[FinishedShard, None, None]
]


class ShardAnnotator:
    """Annotates and writes single shards, each in a memory zone."""

    def __init__(self, work: ShardWork, nlp: Language, parts: list[Part]):
        self.work, self.nlp, self.parts = work, nlp, parts
        self._fixed = work.manifest.settings
        self._meanings = self._fixed.get("meanings") or read_meanings(None)
        self.format = REPLACEMENTS if work.deidentification else get_format(self._fixed["format"])
        self.layers = find_layers(nlp)
        self._has_learned = False

    def annotate(
        self, number: int, on_row: Callable[[int], None] = lambda words: None
    ) -> FinishedShard:
        """Annotate a shard and write its files; `on_row` is called with the words of each row."""
        shard, settings = self.work.manifest.shards[number], self.work.settings
        items = [
            item._replace(error=item.error or self.format.find_problem(item))
            for item in self.parts[shard.part].load_rows(shard)
        ]
        if not self._has_learned:
            learn_words(self.nlp, items)
            self._has_learned = True
        counts = Counter({"documents": 0, "words": 0, "entities": 0})
        errors: list[dict[str, str]] = []
        documents = annotate_rows(
            self.nlp,
            items,
            shard.first,
            self._fixed["batch_size"],
            self.layers,
            counts,
            errors,
            on_row=on_row,
            min_confidence=settings.min_confidence,
            max_seconds=settings.max_seconds,
        )
        meta, name = self.nlp.meta, f"part-{number:05}"
        assert self.format.write is not None  # `find_output` has looked
        annotated = AnnotatedShard(
            documents,
            self.layers,
            counts,
            name,
            pipeline=f"{meta['lang']}_{meta['name']} {meta['version']}",
            keep=settings.columns.keep,
            meanings=self._meanings,
            date=self._fixed.get("date", ""),
        )
        with self.nlp.memory_zone():
            files = self.format.write(annotated)
        files = files if counts["documents"] else {}
        hashes = {file: sha256(content).hexdigest() for file, content in files.items()}
        if self.format.is_folder and files:
            write_part(self.work.output, name, files)
            hashes = {name: hash_folder(hashes)}
        else:
            for file, content in files.items():
                write_part(self.work.output, file, content)
        return FinishedShard(number, dict(counts), hashes, errors)


def annotate_rows(
    nlp: Language,
    items: list[Item],
    first: int,
    batch_size: int,
    layers: Layers,
    counts: Counter[str],
    errors: list[dict[str, str]],
    *,
    on_row: Callable[[int], None] = lambda words: None,
    min_confidence: float = 0.0,
    max_seconds: float = DEFAULT_SECONDS,
) -> Iterator[AnnotatedDocument]:
    """Annotate consecutive rows, `first` being the number of the first, in a memory zone.

    `counts` gets what was found, and `errors` the `id` and `reason` of each row that failed.
    `on_row` is called with the words of each row, 0 for one that failed.
    """
    reasons = [item.error or _find_excess(nlp, item.text) for item in items]
    accepted = [item for item, reason in zip(items, reasons, strict=True) if not reason]
    docs = annotate_items(nlp, accepted, batch_size, max_seconds)
    for number, (item, reason) in enumerate(zip(items, reasons, strict=True), first):
        doc = reason or next(docs)
        if isinstance(doc, str):
            errors.append({"id": printable(item.id), "reason": doc})
            on_row(0)
            continue
        if min_confidence > 0.0:
            keep_confident(doc, min_confidence)
        found = describe(doc, layers)
        counts.update(_count(found))
        on_row(len(doc))
        yield AnnotatedDocument(number, item, doc, found)


def _count(found: dict) -> dict[str, int]:
    counted = {name: len(value) for name, value in found.items() if isinstance(value, list)}
    return {"documents": 1, "words": found["words"], "characters": found["characters"], **counted}


def learn_words(nlp: Language, items: list[Item]) -> None:
    """Tokenize the first texts outside of a memory zone, up to `LEARNED_CHARACTERS`."""
    characters = 0
    for item in items:
        characters += len(item.text)
        if characters > LEARNED_CHARACTERS:
            break
        with suppress(Exception):  # is told when the text is annotated
            nlp.make_doc(item.text)


def _find_excess(nlp: Language, text: str) -> str:
    is_read = len(text) <= nlp.max_length
    return "" if is_read else f"{len(text):,} characters, and the pipeline reads {nlp.max_length:,}"


def annotate_items(
    nlp: Language, items: list[Item], batch_size: int, max_seconds: float = DEFAULT_SECONDS
) -> Iterator[Doc | str]:
    """Yield the Doc of each text, or why it failed, which is found by halving the rest.

    `max_seconds` is the time for a batch and, if that is too short, for each of its texts.
    DamagedPipelineError is raised if the scores of the pipeline are not finite numbers.
    """
    done = 0
    docs = ((_make_doc(nlp, item), place) for place, item in enumerate(items))
    parts: list[list[Item]] = []
    try:
        annotated = nlp.pipe(docs, as_tuples=True, batch_size=batch_size)
        for doc, place in limit_each(annotated, max_seconds):
            if place > done:
                break
            yield doc
            done += 1
        if done < len(items):  # an error handler has left some out
            raise ValueError("documents are missing")
    except DamagedPipelineError:
        raise
    except Exception as error:
        if len(items) == 1:
            yield explain_failure(error)
            return
        if isinstance(error, TookTooLong):  # halves would take as long again
            parts = [[item] for item in items[done : done + batch_size]]
    rest = items[done + len(parts) :]
    half = (len(rest) + 1) // 2
    for part in filter(None, (*parts, rest[:half], rest[half:])):
        yield from annotate_items(nlp, part, batch_size, max_seconds)


def _make_doc(nlp: Language, item: Item) -> Doc:
    doc = nlp.make_doc(item.text)
    if item.patient:
        doc.user_data[DOCUMENT_ID] = item.patient
    return doc


def explain_failure(error: BaseException) -> str:
    """What failed, without the message of the error, which may quote a text."""
    if isinstance(error, TookTooLong):
        return "took longer than the limit for a text"
    frame = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"


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
            raise has_changed(work.source)
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
