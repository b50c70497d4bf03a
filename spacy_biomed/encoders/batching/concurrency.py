"""Run independent batches in parallel, each on a single thread.

Two batches on one thread each finish sooner than two batches in sequence on two threads, because
nothing within a batch waits for another thread. Encoders release the GIL while they compute, so
Python can prepare the next batch meanwhile.
"""

import math
import os
import platform
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
from threadpoolctl import LibController, ThreadpoolController

from ...arrays import Floats2d

# Products of fewer rows are not worth a separate thread.
_LEAST_ROWS = 256
# OpenBLAS rearranges the second factor first, unless a product has few multiplications. Products of
# few rows are therefore computed for some columns at a time. The limits suit an AMD EPYC.
_FEW_ROWS = 64
_FEW_MULTIPLICATIONS = 400_000
_LEAST_COLUMNS = 16
_PROCESS = os.getpid()

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_concurrently(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> list[Result]:
    """The function's results, in the order of the items, computed on this number of threads."""
    return list(_pool(os.getpid(), threads, "encoder").map(function, items))


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The function's results, each computed while the next item is drawn and the last one used.

    Only `function` runs on another thread, one call at a time. Items are drawn on the caller's.
    """
    ahead = ThreadPoolExecutor(1, thread_name_prefix="spacy-biomed-ahead")
    try:
        yield from submit_ahead(
            lambda item: ahead.submit(copy_context().run, function, item), items, most=1
        )
    finally:
        ahead.shutdown(cancel_futures=True)


def submit_ahead(
    submit: Callable[[Item], Future[Result]], items: Iterable[Item], most: int
) -> Iterator[Result]:
    """The results of items in their order, while at most `most` further items are submitted."""
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) > most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def matmul(left: Floats2d, right: Floats2d) -> Floats2d:
    """The product of two NumPy matrices, (rows, n) and (n, columns), on all threads.

    By default OpenBLAS's threads busy-wait for the next product for milliseconds, which takes
    processor time from the encoder. These threads wait passively.
    """
    threads = min(default_threads(), len(left) // _LEAST_ROWS)
    with _one_blas_thread:
        if len(left) < _FEW_ROWS:
            return _multiply_few(left, right)
        if threads < 2:
            return left @ right
        product = np.empty((len(left), right.shape[1]), dtype=np.result_type(left, right))
        borders = [len(left) * i // threads for i in range(threads + 1)]
        parts = [slice(start, end) for start, end in pairwise(borders)]
        pool = _pool(os.getpid(), threads, "matmul")
        list(pool.map(lambda part: np.matmul(left[part], right, out=product[part]), parts))
        return product


def _multiply_few(left: Floats2d, right: Floats2d) -> Floats2d:
    """The product of a matrix with few rows, computed for some columns at a time."""
    columns = right.shape[1]
    together = _FEW_MULTIPLICATIONS // max(left.size, 1)
    together = max(together - together % _LEAST_COLUMNS, _LEAST_COLUMNS)
    if together >= columns:
        return left @ right
    product = np.empty((len(left), columns), dtype=np.result_type(left, right))
    for start in range(0, columns, together):
        part = slice(start, start + together)
        np.matmul(left, right[:, part], out=product[:, part])
    return product


class _OneBlasThread:
    """Context in which OpenBLAS uses one thread for all callers, until the last user has left.

    Other libraries for matrix products are not changed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._threads: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._threads = [library.get_num_threads() for library in _openblas()]
                for library in _openblas():
                    library.set_num_threads(1)
            self._users += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for library, threads in zip(_openblas(), self._threads, strict=True):
                    library.set_num_threads(threads)


_one_blas_thread = _OneBlasThread()


@cache
def _openblas() -> list[LibController]:
    """The loaded copies of OpenBLAS. threadpoolctl's own context asks each for more."""
    return list(ThreadpoolController().select(internal_api="openblas").lib_controllers)


@cache
def _pool(process: int, threads: int, purpose: str) -> ThreadPoolExecutor:
    """The pool of a process: a forked process inherits no threads and makes a new pool."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"spacy-biomed-{purpose}")


def default_threads() -> int:
    """OMP_NUM_THREADS, or the processors that this process may use; one in a forked process.

    The processes of `nlp.pipe` must not compete for processors.
    """
    if os.getpid() != _PROCESS:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    return available_processors()


def available_processors(control_group: Path = Path("/sys/fs/cgroup")) -> int:
    """The number of processors that this process may use, also in a container with a limit."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    return max(1, min(count, _read_limit(control_group) or count))


def _read_limit(control_group: Path) -> int | None:
    """The processors that a container's control group, version 2 or 1, gives; None for all."""
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        try:
            texts = [(control_group / file).read_text(encoding="ascii") for file in files]
            quota, period = map(int, " ".join(texts).split())
        except (OSError, ValueError):  # no such version, or "max"
            continue
        return math.ceil(quota / period) if quota > 0 and period > 0 else None
    return None


def describe_processor() -> tuple[str, list[str]]:
    """The processor's name and, on Linux, the instructions that it supports."""
    name = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf8", errors="replace")
    except OSError:
        return name, []
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    flags = fields.get("flags", fields.get("Features", "")).split()
    return fields.get("model name") or name, flags
