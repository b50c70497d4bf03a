"""Memory that is free, but that the C library keeps."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def release_free_memory() -> None:
    """Give free memory back to the system; with C libraries other than glibc, do nothing.

    Each training batch needs arrays of other sizes. Between arrays that stay, free memory is left
    that is too small for the next ones, and so ever more is taken.
    """
    trim = _find_trim()
    if trim is not None:
        trim(0)


@cache
def _find_trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
