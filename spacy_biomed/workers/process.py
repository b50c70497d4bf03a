"""Subprocesses that stay alive and answer one request after another, alone or in a pool.

Requests and answers are pickled. This module only needs the standard library: a worker may run in
an environment without this package's dependencies.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pkgutil import resolve_name
from threading import Lock, local
from typing import IO, Any, cast

# Beginnings of the environment variables that set the number of threads of libraries.
LIBRARIES = ("OMP", "MKL", "OPENBLAS", "RAYON")


class WorkerFailed(RuntimeError):
    """An exception in a worker, in one line without a location; `kind` is its name there."""

    def __init__(self, message: str, kind: str = ""):
        super().__init__(message)
        self.kind = kind


class WorkerDied(WorkerFailed):
    """The process of a worker ended."""


class Worker:
    """A subprocess that runs `serve`.

    Attributes:
        keep_errors: whether what it prints to standard error is kept for the message of its
            failure, instead of being printed.
        started: `time.perf_counter()` just before the process started.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        *,
        keep_errors: bool = True,
    ):
        # Closed with the process.
        self._errors = tempfile.TemporaryFile("w+", encoding="utf8", errors="replace")  # noqa: SIM115
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors if keep_errors else None,
            env={**os.environ, **(environment or {})},
        )
        # Not None, since both are pipes.
        self._requests = cast(IO[bytes], self._process.stdin)
        self._answers = cast(IO[bytes], self._process.stdout)

    def ask(self, do: str, **arguments: object) -> Any:
        """Send a request, and wait for the answer.

        A worker's `BiomedError` is raised here; other exceptions are `WorkerFailed`; if it ended,
        `WorkerDied`.
        """
        try:
            _send(self._requests, (do, arguments))
            result, error = pickle.load(self._answers)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):  # it ended, or at an answer
            raise WorkerDied(self._last_words()) from None
        if error:
            from ..errors import BiomedError  # which a worker from this file alone does not have

            message, kind = error
            raise BiomedError(message) if kind == "BiomedError" else WorkerFailed(message, kind)
        return result

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return lines[-1] if lines else f"the process ended with status {status}"

    def kill(self) -> None:
        """End the process at once, also while another thread waits for its answer."""
        self._process.kill()

    def close(self) -> None:
        """End the process."""
        try:
            self._requests.close()
            self._process.wait(timeout=10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.kill()  # it may still be working on a request
        self.close()


def start_worker(
    name: str, environment: dict[str, str] | None = None, *, keep_errors: bool = True
) -> Worker:
    """Start a process that answers with the methods of a class, written as "MODULE:CLASS"."""
    return Worker([sys.executable, "-m", __name__, name], environment, keep_errors=keep_errors)


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


def serve(methods: object) -> None:
    """Answer requests from stdin, each by the method of its name, until its end; then `end`."""
    # A terminal sends Ctrl-C to this process too. It ends when the one that asks does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries may print to stdout, so answers go to a copy of it.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        while True:
            do, arguments = pickle.load(sys.stdin.buffer)
            try:
                answer: tuple[object, object] = (getattr(methods, do)(**arguments), None)
            except Exception as error:
                kind = type(error).__name__
                if kind != "BiomedError":  # its message says all
                    traceback.print_exc()
                answer = (None, ((str(error).strip() or kind).splitlines()[0], kind))
            _send(answers, answer)
    except EOFError:
        pass
    finally:
        getattr(methods, "end", lambda: None)()


def _send(stream: IO[bytes], message: object) -> None:
    pickle.dump(message, stream, protocol=5)
    stream.flush()


def thread_settings(threads: int | None) -> dict[str, str]:
    """Environment variables that set the number of threads of all libraries; none for None."""
    return {} if threads is None else {f"{name}_NUM_THREADS": str(threads) for name in LIBRARIES}


if __name__ == "__main__":
    serve(resolve_name(sys.argv[1])())
