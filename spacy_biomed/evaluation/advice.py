"""Which engine, threads and processes annotate fastest on this machine, found out by trying."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from ..encoders.onnx.engine_choice import VARIABLE
from ..encoders.onnx.engines import ENGINES
from ..errors import BiomedError
from ..pipeline.pipeline_loading import find_trainable, load_pipeline
from ..workers.process import Worker, WorkerFailed, start_worker, thread_settings
from .benchmark import MEASURES_PIPELINE, SENTENCE, Progress

SECONDS = 3.0  # of annotation for each way


class Way(NamedTuple):
    """A way to annotate with a pipeline, and its speed.

    Attributes:
        engine: of the exported encoder; "" for encoders in PyTorch, and without one.
        processes, threads: processes, and threads of each.
        words_per_second: of all processes together.
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
    fastest way comes first.

    Args:
        texts: to annotate; each way takes about three seconds, or as long as all texts take.
    """
    exported = any(hasattr(pipe, "engine") for _, pipe in load_pipeline(pipeline).pipeline)

    def measure(own: str, engine: str, processes: int) -> Iterator[Way]:
        threads = max(processors // processes, 1)
        progress(f"{own} {engine}, {processes} processes of {threads} threads")
        try:
            found, speed = _measure(own, engine, processes, threads, texts)
        except WorkerFailed:  # the engine or PyTorch is not installed
            return
        if found == engine:
            yield Way(own, engine, processes, threads, speed)

    engines = ENGINES if exported else ("",)
    tried = [way for engine in engines for way in measure(pipeline, engine, 1)]
    trainable = find_trainable(pipeline)
    if trainable != pipeline:
        tried += measure(trainable, "", 1)
    if not tried:
        raise BiomedError(
            f"{pipeline}: cannot be measured; try it with `python -m spacy biomed annotate`"
        )
    best = max(tried, key=lambda way: way.words_per_second)
    for processes in sorted({processors, processors // 4} - {0, 1}):
        tried += measure(best.pipeline, best.engine, processes)
    return sorted(tried, key=lambda way: -way.words_per_second)


def _measure(
    pipeline: str, engine: str, processes: int, threads: int, texts: list[str]
) -> tuple[str, float]:
    """Annotate the texts in several processes; return the engine, and words per second."""
    environment = thread_settings(threads) | ({VARIABLE: engine} if engine else {})
    with ExitStack() as stack, ThreadPoolExecutor(processes) as pool:
        workers = [
            stack.enter_context(start_worker(MEASURES_PIPELINE, environment))
            for _ in range(processes)
        ]

        def prepare(worker: Worker) -> dict:
            worker.ask("load", pipeline=pipeline, text=SENTENCE)
            counts = worker.ask("read", texts=texts, batch_size=None)
            worker.ask("pipe")
            return counts

        counts = list(pool.map(prepare, workers))[0]
        used = next(iter(counts["engines"].values()), "")
        if used != engine:
            return used, 0.0
        start = time.perf_counter()

        def repeat(worker: Worker) -> int:
            rounds = 0
            while time.perf_counter() - start < SECONDS or not rounds:
                worker.ask("pipe")
                rounds += 1
            return rounds

        rounds = sum(pool.map(repeat, workers))
        return used, rounds * counts["words"] / (time.perf_counter() - start)
