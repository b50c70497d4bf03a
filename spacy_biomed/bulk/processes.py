"""Annotate shards in several processes; one of them runs `python -m` this module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Lock

from ..errors import BiomedError
from ..evaluation.workers import Worker, WorkerFailed, serve, thread_settings
from ..files.sources import Shard
from .manifest import FinishedShard
from .shard_worker import ATTEMPTS, ShardWork, ShardWorker, explain_deaths


def annotate_in_processes(
    work: ShardWork,
    unfinished: list[tuple[int, Shard]],
    on_shard: Callable[[int, int], None],
    processes: int,
) -> Generator[FinishedShard, None, None]:
    """Annotate shards; yield each when it is finished, in any order.

    The shard of a process that dies is begun again by a new one.

    Args:
        work: what to do.
        unfinished: the shards by number, ascending.
        on_shard: called after each shard with its rows and words.
        processes: number of processes, which end with the generator.

    Raises:
        BiomedError: if a process cannot read the input or write the output, or if several die at
            the same shard.
    """
    team = _Team(work)
    waiting = iter(unfinished)
    rows = {number: shard.rows for number, shard in unfinished}
    running: set[Future[FinishedShard]] = set()
    with team, ThreadPoolExecutor(processes) as pool:

        def submit(count: int) -> None:
            for number, shard in islice(waiting, count):
                running.add(pool.submit(team.annotate, number, shard))

        try:
            submit(processes)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                submit(len(done))  # so that no process waits until the caller has recorded these
                for finished in (future.result() for future in done):
                    on_shard(rows[finished.shard], finished.counts["words"])
                    yield finished
        finally:
            team.kill()  # else the pool waits for the shards that are begun


class _Team:
    """The processes. Each does one shard at a time, for a thread of this process."""

    def __init__(self, work: ShardWork):
        self._work = work
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
                    raise explain_deaths(self._work, number, shard) from None
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
        with self._lock:
            if self._is_ending:
                raise WorkerFailed("the run ends")
            command = [sys.executable, "-m", __name__]
            worker = Worker(command, thread_settings(self._work.threads))
            self._all.append(worker)
        worker.ask("open", work=asdict(self._work))
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


if __name__ == "__main__":
    serve(ShardWorker())
