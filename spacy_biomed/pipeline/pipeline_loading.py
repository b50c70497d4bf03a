"""Load pipelines by directory or package name, with one-line errors."""

from __future__ import annotations

import spacy
from spacy.language import Language

from ..errors import BiomedError


def load_pipeline(name: str) -> Language:
    """Load a pipeline with `spacy.load`.

    Args:
        name: an installed package, or a pipeline directory.

    Raises:
        BiomedError: if there is no such pipeline, or it is incomplete or damaged.
    """
    try:
        return spacy.load(name)
    except BiomedError:
        raise
    except Exception as error:  # every component reads its files and may raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if reason.startswith(("[E050]", "[E053]")):
            raise BiomedError(
                f"{name}: neither an installed pipeline package nor a pipeline directory; "
                "`python -m spacy biomed install FOLDER` installs a wheel"
            ) from error
        what = "complete" if isinstance(error, OSError) else "readable"
        raise BiomedError(
            f"{name}: not a {what} pipeline ({reason}); copy or install it again"
        ) from error
