"""Annotate large collections of documents, shard by shard, so that a run can be continued."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import BiomedError
from ..outputs import working_directory, write_part
from ..pipeline.pipeline_loading import load_pipeline
from .findings import Layers, describe, find_layers
from .manifest import (
    ERRORS,
    FinishedShard,
    describe_pipeline,
    open_manifest,
    read_finished,
    record_finished,
    write_results,
)
from .sinks import SINKS, Sink, find_format
from .sources import Columns, Item, Part, Shard, find_parts

if TYPE_CHECKING:
    from .manifest import Manifest

MADE_BY = "spacy biomed annotate"
# The engine of exported encoders is part of the settings: which one is faster may differ from one
# process to the next, and their results differ in the last digits.
ENGINE_VARIABLE, ENGINE = "SPACY_BIOMED_ENGINE", "onnxruntime"


@dataclass(frozen=True)
class BulkSettings:
    """How a collection is annotated.

    Attributes:
        columns: of the text and the identifier.
        shard_size: rows of a shard. All of a shard's documents are in memory.
        batch_size: documents of a batch; None for the pipeline's.
        max_errors: the run stops after a shard with which more rows than this could not be
            annotated; None for no limit.
    """

    columns: Columns = field(default_factory=Columns)
    shard_size: int = 1000
    batch_size: int | None = None
    max_errors: int | None = None


@dataclass
class BulkReport:
    """What a run has done.

    Attributes:
        counts: documents, words, characters, entities, and relations and answers, of all finished
            shards, also those of earlier runs.
        errors: number of rows that were not annotated.
        shards: number of all shards.
        continued: number of shards that were finished before.
    """

    counts: Counter[str]
    errors: int
    shards: int
    continued: int


# Called with the rows that are done, the rows in total, and the words that this run has annotated.
Progress = Callable[[int, int, int], None]


def annotate_collection(
    pipeline: str,
    source: Path,
    output: Path,
    settings: BulkSettings | None = None,
    *,
    on_progress: Progress | None = None,
) -> BulkReport:
    """Annotate all documents of an input, or continue an earlier run with the same output.

    The input is cut into shards of consecutive rows. A shard is written to temporary files, which
    are flushed to disk and renamed, and then recorded as finished with their checksums. So each
    row is in the output exactly once, whenever the process is killed, and the files of a continued
    run are the same, byte for byte, as those of a run that was never interrupted: batches never
    cross the boundary of a shard. A row that cannot be annotated is listed in `_errors.jsonl`, with
    its identifier and the reason, and never with its text.

    Args:
        pipeline: installed package or pipeline directory.
        source: file or folder to annotate (`find_parts`).
        output: folder to write; the ending of its name says the format (`find_format`).
        settings: how to annotate.
        on_progress: called after each batch.

    Raises:
        BiomedError: if the pipeline or the input cannot be read, the input, the pipeline or a
            setting differs from that of the run to be continued, the output cannot be written, or
            there are too many errors. Finished shards are kept.
    """
    settings = settings or BulkSettings()
    format = find_format(output)
    parts = find_parts(source, settings.columns)
    os.environ.setdefault(ENGINE_VARIABLE, ENGINE)
    nlp = load_pipeline(pipeline)
    batch_size = settings.batch_size or nlp.batch_size
    fixed = {
        "format": format,
        **settings.columns._asdict(),
        "shard_size": settings.shard_size,
        "batch_size": batch_size,
        "engine": os.environ[ENGINE_VARIABLE],
    }
    with working_directory(output, MADE_BY, [source, pipeline]):
        manifest = open_manifest(output, parts, describe_pipeline(nlp), fixed)
        finished = read_finished(output, len(manifest.shards))
        continued = len(finished)
        worker = ShardAnnotator(nlp, parts, output, format, batch_size)
        watch = _Watch(manifest, finished, on_progress)
        try:
            watch.check(output, settings.max_errors)
            for number, shard in enumerate(manifest.shards):
                if number not in finished:
                    finished[number] = worker.annotate(number, shard, watch.advance)
                    watch.errors += len(finished[number].errors)
                    watch.check(output, settings.max_errors)
        except BaseException:
            with suppress(BiomedError, OSError):
                write_results(output, finished)
            raise
        write_results(output, finished)
    counts = sum((Counter(one.counts) for one in finished.values()), Counter[str]())
    return BulkReport(counts, watch.errors, len(manifest.shards), continued)


class ShardAnnotator:
    """Annotates and writes single shards.

    Args:
        nlp: the pipeline.
        parts: of the input.
        output: the output folder.
        format: one of `SINKS`.
        batch_size: documents of a batch.
    """

    def __init__(
        self, nlp: Language, parts: list[Part], output: Path, format: str, batch_size: int
    ):
        self.nlp, self.parts, self.output = nlp, parts, output
        self.format, self.batch_size = format, batch_size
        self.layers = find_layers(nlp)

    def annotate(
        self, number: int, shard: Shard, on_batch: Callable[[int, int], None]
    ) -> FinishedShard:
        """Annotate a shard, write its files, and record it as finished.

        Args:
            number: of the shard.
            shard: its rows.
            on_batch: called after each batch with its rows and words.

        Raises:
            BiomedError: if the input cannot be read or the output cannot be written.
        """
        sink = SINKS[self.format](self.layers)
        items = self.parts[shard.part].read(shard)
        counts, errors = fill(
            sink, self.nlp, items, shard.first, self.batch_size, self.layers, on_batch
        )
        files = sink.files(f"part-{number:05}") if counts["documents"] else {}
        checksums = {name: sha256(content).hexdigest() for name, content in files.items()}
        try:
            for name, content in files.items():
                write_part(self.output, name, content)
            finished = FinishedShard(number, counts, checksums, errors)
            record_finished(self.output, finished)
        except BiomedError as error:
            raise BiomedError(
                f"{error}; finished shards are kept: run it again to continue"
            ) from error
        return finished


def fill(
    sink: Sink,
    nlp: Language,
    items: Iterable[Item],
    first: int,
    batch_size: int,
    layers: Layers,
    on_batch: Callable[[int, int], None],
) -> tuple[dict[str, int], list[dict[str, str]]]:
    """Annotate consecutive rows and add what was found to a sink.

    Args:
        sink: to add to.
        nlp: the pipeline.
        items: the rows.
        first: number of the first row in the input.
        batch_size: documents of a batch.
        layers: layers that the pipeline writes.
        on_batch: called after each batch with its rows and words.

    Returns:
        the number of documents, words and so on; `id` and `reason` of each row that failed.
    """
    counts = Counter({"documents": 0, "words": 0, "entities": 0})
    errors: list[dict[str, str]] = []
    # What the pipeline's vocabulary learns from the texts is forgotten with the shard.
    with nlp.memory_zone():
        number = first
        for batch in _batch(items, batch_size):
            words = 0
            for item, doc in _annotate_batch(nlp, batch):
                if isinstance(doc, str):
                    errors.append({"id": item.id, "reason": doc})
                else:
                    found = describe(doc, layers)
                    sink.add(number, item.id, doc, found)
                    counts.update(_count(found))
                    words += len(doc)
                number += 1
            on_batch(len(batch), words)
    return dict(counts), errors


def _count(found: dict) -> dict[str, int]:
    counted = {name: len(value) for name, value in found.items() if isinstance(value, list)}
    return {"documents": 1, "words": found["words"], "characters": found["characters"], **counted}


def _batch(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _annotate_batch(nlp: Language, batch: list[Item]) -> Iterator[tuple[Item, Doc | str]]:
    """The documents of a batch in order; the reason instead of one that cannot be annotated."""
    reasons = {place: _refuse(nlp, item) for place, item in enumerate(batch)}
    texts = [item.text for place, item in enumerate(batch) if not reasons[place]]
    docs = _annotate_texts(nlp, texts)
    for place, item in enumerate(batch):
        yield item, reasons[place] or next(docs)


def _refuse(nlp: Language, item: Item) -> str:
    if item.error:
        return item.error
    if len(item.text) > nlp.max_length:
        return f"{len(item.text):,} characters, and the pipeline reads {nlp.max_length:,}"
    return ""


def _annotate_texts(nlp: Language, texts: list[str]) -> Iterator[Doc | str]:
    """Annotate texts together; if that fails, each half by itself, down to the text that fails."""
    if not texts:
        return
    try:
        docs = list(nlp.pipe(texts, batch_size=len(texts)))
        if len(docs) < len(texts):  # an error handler has left some out
            raise ValueError("documents are missing")
    except Exception as error:
        if len(texts) == 1:
            yield _explain(error)
            return
    else:
        yield from docs
        return
    half = len(texts) // 2
    yield from _annotate_texts(nlp, texts[:half])
    yield from _annotate_texts(nlp, texts[half:])


def _explain(error: Exception) -> str:
    """What failed, without the message of the error, which may quote a text."""
    frame = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"


class _Watch:
    """Counts what is done, and stops a run with too many errors."""

    def __init__(
        self,
        manifest: Manifest,
        finished: dict[int, FinishedShard],
        on_progress: Progress | None,
    ):
        self._on_progress = on_progress
        self._total = sum(shard.rows for shard in manifest.shards)
        self._rows = sum(manifest.shards[number].rows for number in finished)
        self._words = 0
        self.errors = sum(len(one.errors) for one in finished.values())
        self.advance(0, 0)

    def advance(self, rows: int, words: int) -> None:
        self._rows += rows
        self._words += words
        if self._on_progress is not None:
            self._on_progress(self._rows, self._total, self._words)

    def check(self, output: Path, max_errors: int | None) -> None:
        if max_errors is not None and self.errors > max_errors:
            raise BiomedError(
                f"{output}: {self.errors:,} documents could not be annotated, and --max-errors is "
                f"{max_errors:,}; see {output / ERRORS}, and continue with a higher --max-errors"
            )
