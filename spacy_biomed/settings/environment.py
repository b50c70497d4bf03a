"""Environment variables that hold for a while."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def setting_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable within the context, also for processes that begin in it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
