"""What the extra `train` installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import BiomedError, install_command


@contextmanager
def importing_extra(needed_for: str) -> Iterator[None]:
    """Say which extra to install if an import within the context, needed for this, fails."""
    try:
        yield
    except ImportError as error:
        raise BiomedError(f"{needed_for} ({error}): {install_command('train')}") from error
