"""Several processes that take requests in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, local
from typing import Any

from .process import Worker, WorkerDied, start_worker


class ProcessPool:
    """Processes that are started when they are needed, and end with the context.

    Each does one request at a time, for a thread of this process. Unlike `ProcessPoolExecutor`, a
    process that dies takes only its own request with it, and a process has the environment that its
    libraries read when they are imported.

    Args:
        name: "MODULE:CLASS", whose methods answer the requests.
        openings: the arguments of the method `open` for each process that is started.
        attempts: times that a request is begun, if the process that does it dies.
        keep_errors: as in `Worker`.
    """

    def __init__(
        self,
        name: str,
        processes: int,
        openings: Iterator[Mapping[str, object]],
        environment: dict[str, str] | None = None,
        attempts: int = 1,
        *,
        keep_errors: bool = True,
    ):
        self._name, self._openings, self._environment = name, openings, environment
        self._attempts, self._keep_errors = attempts, keep_errors
        self._threads = ThreadPoolExecutor(processes)
        self._own = local()  # `worker` of each thread
        self._all: list[Worker] = []
        self._is_ending = False
        self._lock = Lock()

    def submit(self, do: str, **arguments: object) -> Future[Any]:
        """Send a request to the next process that is free.

        Its exceptions are those of `Worker.ask`; WorkerDied, if each process died that began it.
        """
        return self._threads.submit(self._ask, do, arguments)

    def _ask(self, do: str, arguments: dict[str, object]) -> Any:
        for attempt in range(1, self._attempts + 1):
            try:
                if not hasattr(self._own, "worker"):
                    self._own.worker = self._start()
                return self._own.worker.ask(do, **arguments)
            except WorkerDied:
                vars(self._own).pop("worker", None)
                if self._is_ending or attempt == self._attempts:
                    raise
        raise AssertionError

    def _start(self) -> Worker:
        with self._lock:
            if self._is_ending:
                raise WorkerDied("the run ends")
            worker = start_worker(self._name, self._environment, keep_errors=self._keep_errors)
            self._all.append(worker)
            opening = next(self._openings)
        worker.ask("open", **opening)
        return worker

    def kill(self) -> None:
        """End all processes at once, and what they were asked for."""
        with self._lock:
            self._is_ending = True
        for worker in self._all:
            worker.kill()

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.kill()  # else the threads wait for what is begun
        self._threads.shutdown(cancel_futures=True)
        for worker in self._all:
            worker.close()
