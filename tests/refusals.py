"""Bad input is refused in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spacy_biomed.errors import BiomedError


@contextmanager
def refused(message: str = "", begin: object = "") -> Iterator[pytest.ExceptionInfo[BiomedError]]:
    """Check that the block is refused, in one line.

    Args:
        message: a regular expression for a part of the line.
        begin: what the line begins with, such as a path.
    """
    with pytest.raises(BiomedError, match=message) as error:
        yield error
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith(str(begin))
