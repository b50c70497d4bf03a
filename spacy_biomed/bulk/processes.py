"""Annotate shards in several processes; one of them runs `python -m` this module."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

from ..errors import BiomedError
from ..evaluation.workers import Worker, WorkerFailed, serve, thread_settings
from ..pipeline.pipeline_loading import load_pipeline
from .manifest import FinishedShard
from .shards import ShardAnnotator
from .sources import Columns, Part, Shard, find_parts

# Times that a shard is begun, if the process that annotates it dies.
ATTEMPTS = 3


@dataclass
class ShardWork:
    """What a process needs to annotate shards; see `ShardAnnotator`.

    Attributes:
        pipeline: installed package or pipeline directory.
        source, output: file or folder to annotate, and output folder.
        columns: of the text and the identifier.
        format: of the output.
        batch_size: documents of a batch.
        min_confidence: entities of a lower confidence are left out.
    """

    pipeline: str
    source: str
    output: str
    columns: Columns
    format: str
    batch_size: int
    min_confidence: float = 0.0


def annotate_in_processes(
    work: ShardWork,
    parts: list[Part],
    todo: list[tuple[int, Shard]],
    processes: int,
    on_shard: Callable[[int, int], None],
) -> Generator[FinishedShard, None, None]:
    """Annotate shards; yield each when it is finished, in any order.

    The shard of a process that dies is begun again by a new one.

    Args:
        work: what to do.
        parts: of the input.
        todo: the shards by number, ascending.
        processes: number of processes, which end with the generator.
        on_shard: called after each shard with its rows and words.

    Raises:
        BiomedError: if a process cannot read the input or write the output, or if several die at
            the same shard.
    """
    team = _Team(work, {part.name: part.state() for part in parts})
    waiting = iter(todo)
    rows = {number: shard.rows for number, shard in todo}
    running: set[Future[FinishedShard]] = set()
    with team, ThreadPoolExecutor(processes) as pool:
        try:
            while True:
                for number, shard in islice(waiting, processes - len(running)):
                    running.add(pool.submit(team.annotate, number, shard))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for finished in (future.result() for future in done):
                    on_shard(rows[finished.shard], finished.counts["words"])
                    yield finished
        finally:
            team.kill()  # else the pool waits for the shards that are begun


class _Team:
    """The processes. Each does one shard at a time, for a thread of this process.

    Args:
        work: what to do.
        states: the state of each part of the input, as this process has read it.
    """

    def __init__(self, work: ShardWork, states: dict[str, str]):
        self._work, self._states = work, states
        self._free: SimpleQueue[Worker] = SimpleQueue()
        self._all: list[Worker] = []
        self._is_ending = False
        self._lock = Lock()

    def annotate(self, number: int, shard: Shard) -> FinishedShard:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                worker = self._take()
                result = worker.ask("annotate", number=number, shard=shard)
            except WorkerFailed as error:
                if error.kind == BiomedError.__name__:
                    raise BiomedError(str(error)) from None
                if error.kind or self._is_ending:
                    raise
                if attempt == ATTEMPTS:
                    part = list(self._states)[shard.part]
                    raise BiomedError(
                        f"shard {number} (rows {shard.row + 1:,} to {shard.row + shard.rows:,} of "
                        f"{part}): its process died {ATTEMPTS} times; is there enough memory? Use "
                        "fewer processes or smaller batches"
                    ) from None
            else:
                self._free.put(worker)
                return FinishedShard(**result)
        raise AssertionError

    def _take(self) -> Worker:
        try:
            return self._free.get_nowait()
        except Empty:
            return self._start()

    def _start(self) -> Worker:
        threads = {k: v for k, v in thread_settings(1).items() if k not in os.environ}
        with self._lock:
            if self._is_ending:
                raise WorkerFailed("the run ends")
            worker = Worker([sys.executable, "-m", __name__], threads)
            self._all.append(worker)
        if worker.ask("open", work=asdict(self._work)) != self._states:
            raise BiomedError(f"{self._work.source}: changes while it is read: leave it alone")
        return worker

    def kill(self) -> None:
        with self._lock:
            self._is_ending = True
        for worker in self._all:
            worker.kill()

    def __enter__(self) -> _Team:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._all:
            worker.close()


class _ShardProcess:
    """Answers the requests of `_Team`."""

    _annotator: ShardAnnotator

    def open(self, work: dict[str, Any]) -> dict[str, str]:
        """Load the pipeline; return the state of each part of the input."""
        columns = Columns(*work["columns"])
        nlp = load_pipeline(work["pipeline"])
        parts = find_parts(Path(work["source"]), columns)
        self._annotator = ShardAnnotator(
            nlp,
            parts,
            Path(work["output"]),
            work["format"],
            work["batch_size"],
            work["min_confidence"],
        )
        return {part.name: part.state() for part in parts}

    def annotate(self, number: int, shard: list[int]) -> dict[str, Any]:
        """Annotate a shard."""
        return asdict(self._annotator.annotate(number, Shard(*shard)))


if __name__ == "__main__":
    serve(_ShardProcess())
