"""Measure a pipeline's speed, start-up time, memory and size on disk, and find its fastest use."""

import platform
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..encoders.batching.concurrency import available_processors, describe_processor
from ..errors import BiomedError
from ..workers.process import Worker, WorkerFailed, start_worker, thread_settings
from .pipeline_worker import SENTENCE

MEASURES_PIPELINE = f"{__package__}.pipeline_worker:PipelineWorker"
DOCUMENTS_SINGLY = 100  # per repeat
SECONDS = 3.0  # of annotation for each way that is tried

PACKAGES = (
    *("spacy-biomed", "spacy", "thinc", "numpy", "onnxruntime", "openvino", "tokenizers"),
    *("torch", "transformers", "spacy-transformers"),
)
# Instructions that determine the speed in bf16 and int8, by their names in Linux.
INSTRUCTIONS = (
    *("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"),
    *("asimddp", "i8mm", "bf16"),
)

Progress = Callable[[str], None]


@dataclass(slots=True)
class PipelineFigures:
    """The measurements of a pipeline.

    Attributes:
        pipeline: directory or package.
        documents, words: number of texts, and of their tokens by the pipeline's tokenizer.
        engines: the library that runs each exported encoder, by the component's name.
        disk_bytes: size of its directory.
        peak_bytes: peak resident size of the process that annotated the texts; None if unknown.
        load_seconds: time of `spacy.load` in new processes, after the import of spaCy.
        first_seconds: time from the start of a new process to its first annotated sentence.
        pipe_seconds: time of `nlp.pipe` for all texts.
        single_seconds: time of `nlp(text)` for evenly spaced texts.
    """

    pipeline: str
    documents: int = 0
    words: int = 0
    batch_size: int = 0
    components: list[str] = field(default_factory=list)
    engines: dict[str, str] = field(default_factory=dict)
    disk_bytes: int = 0
    peak_bytes: int | None = None
    load_seconds: list[float] = field(default_factory=list)
    first_seconds: list[float] = field(default_factory=list)
    pipe_seconds: list[float] = field(default_factory=list)
    single_seconds: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        figures = {
            measure.name: {"value": measure.value(self), "spread": measure.spread(self)}
            for measure in MEASURES
        }
        return {"pipeline": self.pipeline, "figures": figures, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure computed from a pipeline's measurements.

    Attributes:
        name: key in JSON.
        title, unit: for tables.
        source: the field of `PipelineFigures` with the measured seconds or bytes.
        scale: factor that converts a value to the unit.
        percentile: percentile of the values that is the figure; by default the median.
        counted: the field with the number whose speed is the figure: that number per second.
    """

    name: str
    title: str
    unit: str
    source: str
    scale: float = 1.0
    percentile: float | None = None
    counted: str | None = None

    def values(self, figures: PipelineFigures) -> list[float]:
        """All measured values, in words or documents per second, seconds or bytes."""
        measured = getattr(figures, self.source)
        if not isinstance(measured, list):
            measured = [measured] if measured else []
        if self.counted is None:
            return measured
        return [getattr(figures, self.counted) / seconds for seconds in measured]

    def value(self, figures: PipelineFigures) -> float | None:
        """The figure; None if it could not be measured."""
        values = self.values(figures)
        return float(np.percentile(values, self.percentile or 50.0)) if values else None

    def spread(self, figures: PipelineFigures) -> list[float] | None:
        """Minimum and maximum of the repeats; None if the values are not repeats."""
        values = self.values(figures)
        return [min(values), max(values)] if len(values) > 1 and self.percentile is None else None

    def times_better(self, figures: PipelineFigures, other: PipelineFigures) -> float | None:
        """The ratio of two pipelines' figures, above 1 if the first is better; None if unknown."""
        first, second = self.value(figures), self.value(other)
        if not first or not second:
            return None
        return second / first if self.counted is None else first / second


MEASURES = (
    Measure("words_per_second", "words a second", "", "pipe_seconds", counted="words"),
    Measure("documents_per_second", "documents a second", "", "pipe_seconds", counted="documents"),
    Measure("median_latency", "one document, median", "ms", "single_seconds", 1e3, 50.0),
    Measure("p99_latency", "one document, 99th percentile", "ms", "single_seconds", 1e3, 99.0),
    Measure("load_seconds", "loading", "s", "load_seconds"),
    Measure("first_seconds", "start to first sentence", "s", "first_seconds"),
    Measure("peak_bytes", "peak memory", "MB", "peak_bytes", 1e-6),
    Measure("disk_bytes", "size on disk", "MB", "disk_bytes", 1e-6),
)


def measure_pipelines(
    pipelines: list[str],
    texts: list[str],
    *,
    repeats: int = 5,
    threads: int | None = None,
    batch_size: int | None = None,
    code: str | None = None,
    progress: Progress = lambda done: None,
) -> list[PipelineFigures]:
    """Measure pipelines in separate processes, taking turns after each repeat.

    Args:
        pipelines: directories or installed packages.
        texts: texts to annotate, once as a warm-up, then `repeats` times.
        threads: number of threads of each library; by default as set in the environment.
        batch_size: batch size of `nlp.pipe`; by default the setting of each pipeline.
        code: Python file with what the pipelines need.
        progress: called after each of `count_parts` steps, with a description of the step.

    Raises:
        BiomedError: if a pipeline cannot be loaded, or fails.
    """
    environment = thread_settings(threads)
    with ExitStack() as stack:
        loaded: list[tuple[PipelineFigures, Worker]] = []
        for pipeline in pipelines:
            worker = stack.enter_context(start_worker(MEASURES_PIPELINE, environment))
            _ask(pipeline, worker, "load", pipeline=pipeline, code=code)
            counts = _ask(pipeline, worker, "read", texts=texts, batch_size=batch_size)
            _ask(pipeline, worker, "pipe")
            loaded.append((PipelineFigures(pipeline, len(texts), **counts), worker))
            progress(f"{pipeline}: warm-up")
        turns = [(number, *one) for number in range(1, repeats + 1) for one in loaded]
        for number, figures, _ in turns:
            own = figures.pipeline
            with start_worker(MEASURES_PIPELINE, environment) as new:
                figures.load_seconds.append(_ask(own, new, "load", pipeline=own, code=code))
                figures.first_seconds.append(time.perf_counter() - new.started)
            progress(f"{own}: start {number}")
        for number, figures, worker in turns:
            figures.pipe_seconds.append(_ask(figures.pipeline, worker, "pipe"))
            progress(f"{figures.pipeline}: repeat {number}")
        for number, figures, worker in turns:
            seconds = _ask(figures.pipeline, worker, "singly", count=DOCUMENTS_SINGLY)
            figures.single_seconds += seconds
            progress(f"{figures.pipeline}: documents one by one {number}")
        for figures, worker in loaded:
            figures.peak_bytes = _ask(figures.pipeline, worker, "peak_memory")
    return [figures for figures, _ in loaded]


def count_parts(pipelines: int, repeats: int) -> int:
    """The number of calls of `progress` in `measure_pipelines`."""
    return pipelines * (1 + 3 * repeats)


def _ask(of: str, worker: Worker, do: str, **arguments: object) -> Any:
    """Ask the worker of the pipeline `of`; its failure is one line."""
    try:
        return worker.ask(do, **arguments)
    except WorkerFailed as error:
        reason = f"{error.kind}: {error}" if error.kind else str(error)
        raise BiomedError(
            f"{of}: cannot be measured ({reason}); try it with `python -m spacy biomed annotate`"
        ) from error


def describe_machine(packages: Iterable[str] = PACKAGES) -> dict[str, Any]:
    """The processor, the system, and the versions of the installed packages."""
    versions = {"python": platform.python_version()}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    processor, flags = describe_processor()
    return {
        "processor": processor,
        "instructions": [flag for flag in INSTRUCTIONS if flag in flags],
        "processors": available_processors(),
        "system": platform.platform(),
        "versions": versions,
    }


def to_json(
    measured: list[PipelineFigures], *, texts: Path, repeats: int, threads: int | None
) -> dict[str, object]:
    """All measurements, in seconds and bytes, and the ratios of the first two pipelines."""
    result = {
        "texts": str(texts),
        "repeats": repeats,
        "threads": threads,
        "words": "tokens of each pipeline's tokenizer",
        "machine": describe_machine(),
        "pipelines": [figures.to_json() for figures in measured],
    }
    if len(measured) > 1:
        result["times_better"] = {
            measure.name: measure.times_better(measured[0], measured[1]) for measure in MEASURES
        }
    return result


class Way(NamedTuple):
    """A way to annotate with a pipeline: threads of each process, and words per second of all.

    The engine is that of the exported encoder; "" for encoders in PyTorch, and without one.
    """

    pipeline: str
    engine: str
    processes: int
    threads: int
    words_per_second: float


def create_texts(count: int = 64) -> list[str]:
    """Texts of a hundred words, no two the same, for those who give none."""
    return [" ".join(f"{SENTENCE} {number}." for _ in range(7)) for number in range(count)]


def find_fastest(
    pipeline: str, texts: list[str], processors: int, progress: Progress = lambda done: None
) -> list[Way]:
    """Try the engines with all processors as threads, and of the fastest other divisions.

    The trainable pipeline beside a compressed one is tried too, if PyTorch is installed. The
    fastest way comes first. Each takes about three seconds, or as long as all texts take.
    """
    from ..encoders.onnx.engines import ENGINES
    from ..pipeline.pipeline_loading import find_trainable, load_pipeline

    tried: list[Way] = []

    def measure(own: str, engine: str, processes: int) -> None:
        threads = max(processors // processes, 1)
        progress(f"{own} {engine}, {processes} processes of {threads} threads")
        with suppress(BiomedError, WorkerFailed):  # the engine or PyTorch is not installed
            found, speed = _measure(own, engine, processes, threads, texts)
            if found == engine:
                tried.append(Way(own, engine, processes, threads, speed))

    exported = any(hasattr(pipe, "engine") for _, pipe in load_pipeline(pipeline).pipeline)
    for engine in ENGINES if exported else ("",):
        measure(pipeline, engine, 1)
    trainable = find_trainable(pipeline)
    if trainable != pipeline:
        measure(trainable, "", 1)
    if not tried:
        raise BiomedError(
            f"{pipeline}: cannot be measured; try it with `python -m spacy biomed annotate`"
        )
    best = max(tried, key=lambda way: way.words_per_second)
    for processes in sorted({processors, processors // 4} - {0, 1}):
        measure(best.pipeline, best.engine, processes)
    return sorted(tried, key=lambda way: -way.words_per_second)


def _measure(
    pipeline: str, engine: str, processes: int, threads: int, texts: list[str]
) -> tuple[str, float]:
    """Annotate the texts in several processes; return the engine, and words per second."""
    from ..encoders.onnx.engines import VARIABLE

    environment = thread_settings(threads) | ({VARIABLE: engine} if engine else {})

    def prepare(worker: Worker) -> dict[str, Any]:
        worker.ask("load", pipeline=pipeline)
        counts = worker.ask("read", texts=texts, batch_size=None)
        worker.ask("pipe")
        return counts

    def repeat(worker: Worker) -> int:
        rounds = 0
        while time.perf_counter() - start < SECONDS or not rounds:
            worker.ask("pipe")
            rounds += 1
        return rounds

    with ExitStack() as stack, ThreadPoolExecutor(processes) as pool:
        started = (start_worker(MEASURES_PIPELINE, environment) for _ in range(processes))
        workers = list(map(stack.enter_context, started))
        counts, *_ = pool.map(prepare, workers)
        used = next(iter(counts["engines"].values()), "")
        if used != engine:
            return used, 0.0
        start = time.perf_counter()
        rounds = sum(pool.map(repeat, workers))
        return used, rounds * counts["words"] / (time.perf_counter() - start)
