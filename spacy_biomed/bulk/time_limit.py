"""A limit of time for Python code, in any thread."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from ctypes import c_ulong, py_object, pythonapi
from itertools import islice
from threading import TIMEOUT_MAX, Timer, current_thread, get_ident, main_thread
from types import FrameType
from typing import TypeVar

DEFAULT_SECONDS = 120.0
_Item = TypeVar("_Item")


class TookTooLong(Exception):
    """The time is over."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong where the block is after so many seconds.

    Code that is not Python ends first. In the main thread of a process on Linux or macOS a signal
    interrupts the block (SIGALRM), elsewhere another thread.
    """
    has_signals = current_thread() is main_thread() and hasattr(signal, "setitimer")
    limit = _limit_by_signal if has_signals else _limit_by_thread
    yield from limit(min(seconds, TIMEOUT_MAX))


def _limit_by_signal(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _limit_by_thread(seconds: float) -> Iterator[None]:
    thread = c_ulong(get_ident())
    timer = Timer(seconds, pythonapi.PyThreadState_SetAsyncExc, (thread, py_object(TookTooLong)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        # It may come between the end of the block and these lines. It is not taken back, since
        # CPython 3.11 then never ends under a tracer, such as coverage's.
        with suppress(TookTooLong):
            timer.cancel()
            timer.join()
            timer.is_alive()  # an exception from another thread is raised here at the latest


def limit_each(items: Iterable[_Item], seconds: float) -> Iterator[_Item]:
    """The items, each of which has so many seconds to come; raise TookTooLong after them."""
    remaining = iter(items)
    while True:
        with time_limit(seconds):
            found = list(islice(remaining, 1))
        if not found:
            return
        yield found[0]
