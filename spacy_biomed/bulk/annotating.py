"""Annotate large collections of documents, shard by shard, so that a run can be continued."""

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from spacy.language import Language

from ..encoders.batching.concurrency import default_threads
from ..errors import BiomedError
from ..files.digests import hash_file
from ..files.outputs import check_replaceable, working_directory, write_part
from ..files.sources import Part, has_changed
from ..formats.fhir import read_meanings
from ..formats.registry import check_columns, find_output, get_format
from ..pipeline.ner.calibrating import list_uncalibrated
from ..settings.environment import setting_variable
from ..workers.process import ProcessPool, WorkerDied, thread_settings
from .deidentification import DEIDENTIFIED_BY, Deidentification
from .manifest import (
    ERRORS,
    FinishedShard,
    Manifest,
    check_no_others,
    describe_pipeline,
    is_continued,
    open_manifest,
    read_finished,
    read_manifest,
    record_finished,
    write_results,
)
from .ray_engine import annotate_on_ray, check_ray
from .shards import (
    ATTEMPTS,
    BulkSettings,
    Engine,
    ShardAnnotator,
    ShardWork,
    explain_deaths,
    find_input,
    find_states,
    load,
)

MADE_BY = "spacy biomed annotate"
# pyarrow opens it as a part of the folder, and names it in its error.
EXPLANATION = "READ_ONE_TABLE.md"
_READ_A_TABLE = """Each folder here is a table of its own. Read one of them, for example
pandas.read_parquet("annotated.parquet/entities"), and not the folder above, which has no rows.
"""
# Documents of a batch on a GPU, which would wait for Python after smaller ones.
GPU_BATCH = 512
# The engine of exported encoders is part of the settings: which one is faster may differ from one
# process to the next, and their results differ in the last digits.
ENGINE_VARIABLE, ENGINE = "SPACY_BIOMED_ENGINE", "onnxruntime"


@dataclass
class BulkReport:
    """What a run has done.

    Attributes:
        counts: documents, words, characters, entities, and relations and answers, of all finished
            shards, also those of earlier runs.
        failed: `id` and `reason` of each row that was not annotated.
        shards: number of all shards.
        continued: number of shards that were finished before.
        uncalibrated: components whose confidence is the model's own probability.
    """

    counts: Counter[str]
    failed: list[dict[str, str]]
    shards: int
    continued: int
    uncalibrated: list[str]


# Called with the rows that are done, the rows in total, and the words that this run has annotated.
Progress = Callable[[int, int, int], None]


def annotate_collection(
    pipeline: str,
    source: Path,
    output: Path,
    settings: BulkSettings | None = None,
    *,
    on_progress: Progress | None = None,
    deidentification: Deidentification | None = None,
) -> BulkReport:
    """Annotate all documents of an input, or continue an earlier run with the same output.

    The input is cut into shards of consecutive rows, each of which is written at once and whole. So
    each row is in the output exactly once, whenever the process is killed. Batches never cross the
    boundary of a shard: a continued run writes the same bytes as an uninterrupted one. A row that
    fails is listed in `_errors.jsonl` without its text. While it runs, SPACY_BIOMED_ENGINE is
    "onnxruntime" unless it is set, so that all processes use the same engine.

    Args:
        pipeline: installed package or pipeline directory.
        source: file or folder to annotate (`find_parts`).
        output: folder to write; the ending of its name says the format (`find_output`).
        on_progress: called after each document; with several processes, after each shard.
        deidentification: how to de-identify; then the parts of the output have only what replaces
            the mentions, whatever its ending.

    Raises:
        BiomedError: if the pipeline or the input cannot be read, the output cannot be written,
            there are too many errors, or the run to be continued had another input, pipeline or
            setting. Finished shards are kept.
    """
    settings, is_copied = settings or BulkSettings(), deidentification is not None
    format = "replacements" if is_copied else find_output(output)
    made_by = DEIDENTIFIED_BY if is_copied else MADE_BY
    check_replaceable(output, made_by, [source, pipeline])
    if not is_copied:
        check_columns(format, settings.columns, settings.meanings)
    meanings = read_meanings(settings.meanings)
    parts = find_input(source, settings, deidentification)
    if settings.engine == "ray":
        if settings.gpu_id >= 0:
            raise BiomedError("--gpu-id is for processes of this machine: leave --engine ray out")
        check_ray(settings.address)
    with setting_variable(ENGINE_VARIABLE, os.environ.get(ENGINE_VARIABLE, ENGINE)):
        nlp = load(pipeline, settings, deidentification)
        uncalibrated = list_uncalibrated(nlp)
        with working_directory(output, made_by, [source, pipeline]):
            earlier = read_manifest(output) if is_continued(output) else None
            recorded = {} if earlier is None else earlier.settings
            fixed = _list_settings(nlp, settings, format, recorded)
            fixed["threads"] = _find_threads(output, settings, recorded.get("threads"))
            if settings.meanings is not None:
                fixed["meanings"] = meanings
            if deidentification is not None:
                fixed |= deidentification.describe(nlp)
            states, described = find_states(parts), describe_pipeline(nlp)
            manifest = open_manifest(output, earlier, parts, states, described, fixed)
            code = None if settings.code is None else os.path.abspath(settings.code)
            work = ShardWork(
                # Absolute: workers may have another working directory.
                os.path.abspath(pipeline) if Path(pipeline).exists() else pipeline,
                source.absolute(),
                output.absolute(),
                replace(settings, code=code),
                deidentification,
                manifest,
                states,
            )
            finished = read_finished(output, len(manifest.shards))
            continued = len(finished)
            unfinished = [n for n in range(len(manifest.shards)) if n not in finished]
            watch = _Watch(manifest, finished, on_progress)
            engine = _choose_engine(work, nlp, parts, len(unfinished))
            del nlp  # else it stays in memory beside those of several processes
            with _keeping_finished(output, finished):
                with closing(engine(work, unfinished, watch.advance)) as done:
                    watch.check(output, settings.max_errors)
                    for one in done:
                        record_finished(output, one)
                        finished[one.shard] = one
                        watch.errors += len(one.errors)
                        watch.check(output, settings.max_errors)
                if find_states(find_input(source, settings, deidentification)) != states:
                    raise has_changed(source)
                check_no_others(output, finished)
            write_results(output, finished)
            # It stops readers of the whole folder, which would mix its tables.
            if format == "parquet" and not (output / EXPLANATION).exists():
                write_part(output, EXPLANATION, _READ_A_TABLE.encode())
    counts = Counter[str]()
    for one in finished.values():
        counts.update(one.counts)  # a sum would leave out what was not found
    failed = [error for number in sorted(finished) for error in finished[number].errors]
    return BulkReport(counts, failed, len(manifest.shards), continued, uncalibrated)


def check_failed(
    output: Path, documents: int, failed: list[dict[str, str]], listed: Path, max_errors: int | None
) -> None:
    """Raise BiomedError if documents failed and --max-errors does not allow it, or if all did.

    `documents` is the number of those that did not fail, and `listed` the file with the others.
    """
    if not failed or (documents and max_errors is not None):
        return
    first = f"{failed[0]['id']}: {failed[0]['reason']}"
    count = f"{len(failed):,} of {documents + len(failed):,} documents failed"
    if not documents:
        raise BiomedError(f"{output}: has no document, since all {len(failed):,} failed: {first}")
    raise BiomedError(
        f"{output}: {count}, the others are done: {first}; see {listed}, or allow it with "
        f"--max-errors {len(failed)}"
    )


def _list_settings(
    nlp: Language, settings: BulkSettings, format: str, recorded: dict[str, Any]
) -> dict[str, Any]:
    """What the output depends on; `recorded` is that of the run to be continued."""
    usual = nlp.batch_size if settings.gpu_id < 0 else max(nlp.batch_size, GPU_BATCH)
    listed = {
        "format": format,
        **settings.columns._asdict(),
        "keep": list(settings.columns.keep),
        **settings.layout._asdict(),
        "code": None if settings.code is None else hash_file(Path(settings.code)),
        "shard_size": settings.shard_size,
        "batch_size": settings.batch_size or usual,
        "engine": os.environ[ENGINE_VARIABLE],
    }
    if settings.gpu_id >= 0:
        listed["gpu"] = True
    if settings.min_confidence:
        listed["min_confidence"] = settings.min_confidence
    if get_format(format).is_dated:
        listed["date"] = recorded.get("date") or date.today().isoformat()
    return listed


def _choose_engine(work: ShardWork, nlp: Language, parts: list[Part], shards: int) -> Engine:
    """What annotates this number of shards."""
    if work.settings.engine == "ray":
        return annotate_on_ray
    processes = max(1, min(work.settings.n_process or 1, shards))
    if processes > 1 or work.threads != default_threads():
        return partial(annotate_in_processes, processes=processes)
    annotate = ShardAnnotator(work, nlp, parts).annotate
    return lambda _, numbers, on_row: (annotate(one, partial(on_row, 1)) for one in numbers)


def annotate_in_processes(
    work: ShardWork, unfinished: list[int], on_shard: Callable[[int, int], None], processes: int
) -> Generator[FinishedShard, None, None]:
    """An `Engine`: processes of this machine, which end with the generator.

    The shard of a process that dies is begun again by a new one.
    """
    waiting = iter(unfinished)
    running: dict[Future[FinishedShard], int] = {}
    name, environment = f"{__package__}.shards:ShardWorker", thread_settings(work.threads)
    with ProcessPool(name, processes, repeat({"work": work}), environment, ATTEMPTS) as pool:

        def submit(count: int) -> None:
            for number in islice(waiting, count):
                running[pool.submit("annotate", number=number)] = number

        submit(processes)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            submit(len(done))  # so that no process waits until the caller has recorded these
            for future in done:
                number = running.pop(future)
                try:
                    finished = future.result()
                except WorkerDied:
                    raise explain_deaths(work, number) from None
                on_shard(work.manifest.shards[number].rows, finished.counts["words"])
                yield finished


@contextmanager
def _keeping_finished(output: Path, finished: dict[int, FinishedShard]) -> Iterator[None]:
    """Write what is finished if the run ends early, and say that it can be continued."""
    try:
        yield
    except BaseException as error:
        with suppress(BiomedError, OSError):
            write_results(output, finished)
        if isinstance(error, BiomedError) and finished:
            raise BiomedError(f"{error}; finished shards are kept: run it again") from error
        raise


def _find_threads(output: Path, settings: BulkSettings, recorded: int | None) -> int:
    """The number of threads of each process, `recorded` if a run is continued."""
    if "OMP_NUM_THREADS" not in os.environ:
        is_alone = settings.engine == "local" and settings.n_process in (None, 1)
        return recorded or (default_threads() if is_alone else 1)
    threads = default_threads()
    if recorded not in (None, threads):
        raise BiomedError(
            f"{output}: was begun with {recorded} threads in each process, and with {threads} some "
            f"bytes may differ; set OMP_NUM_THREADS to {recorded}, or name another output"
        )
    return threads


class _Watch:
    """Counts what is done, and stops a run with too many errors."""

    def __init__(
        self, manifest: Manifest, finished: dict[int, FinishedShard], on_progress: Progress | None
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
                f"{max_errors:,}: see {output / ERRORS}, and give a higher --max-errors"
            )
