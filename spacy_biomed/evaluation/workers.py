"""Subprocesses that stay alive and answer one request after another.

A measured program runs in a separate process, so that its memory and start-up can be measured, and
several programs can take turns. This module only needs the standard library: a worker may run in an
environment without this package's dependencies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import IO, Any, cast

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


class WorkerFailed(RuntimeError):
    """The failure of a worker.

    Attributes:
        message: one line, without a location.
        kind: name of the exception in the worker; "" if the process itself ended.
    """

    def __init__(self, message: str, kind: str = ""):
        super().__init__(message)
        self.kind = kind


class Worker:
    """A subprocess that runs `serve`.

    Attributes:
        command: command line, whose program has to call `serve`.
        environment: environment variables to set for it.
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
            text=True,
            encoding="utf8",
        )
        # Not None, since both are pipes.
        self._requests = cast(IO[str], self._process.stdin)
        self._answers = cast(IO[str], self._process.stdout)

    def ask(self, do: str, **arguments: object) -> Any:
        """Send a request and wait for the answer.

        Raises:
            WorkerFailed: if the request raised an exception in the worker, or the process ended.
        """
        try:
            print(json.dumps({"do": do, **arguments}), file=self._requests, flush=True)
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerFailed(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(answer["error"], answer["kind"])
        return answer["result"]

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


def serve(methods: object) -> None:
    """Answer requests from stdin until it is closed.

    Args:
        methods: a request {"do": "name", ...} calls the method of this name, whose result must be
            serialisable as JSON.
    """
    # Libraries may print to stdout, so answers go to a copy of it.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        method: Callable[..., object] = getattr(methods, request.pop("do"))
        try:
            answer = {"result": method(**request)}
        except Exception as error:
            traceback.print_exc()
            kind = type(error).__name__
            answer = {"error": (str(error).strip() or kind).splitlines()[0], "kind": kind}
        print(json.dumps(answer), file=answers, flush=True)


def thread_settings(threads: int | None) -> dict[str, str]:
    """Environment variables that set the number of threads of all libraries; none for None."""
    return {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
