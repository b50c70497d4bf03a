"""What the extra `train` installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import BiomedError, install_command


@contextmanager
def importing_extra(needed_for: str) -> Iterator[None]:
    """Import modules that need the extra `train` within the context.

    Args:
        needed_for: what needs which packages, for the message.

    Raises:
        BiomedError: if the extra is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise BiomedError(f"{needed_for} ({error}): {install_command('train')}") from error
