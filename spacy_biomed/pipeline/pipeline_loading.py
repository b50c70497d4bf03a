"""Load pipelines by directory or package name, with one-line errors."""

from __future__ import annotations

from pathlib import Path

import spacy
from spacy.language import Language
from spacy.util import get_installed_models

from ..errors import BiomedError, add_hint, suggest, suggest_sibling


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
            hint = suggest(name, get_installed_models()) or suggest_sibling(Path(name))
            problem = (
                f"{name}: neither an installed pipeline package nor a pipeline directory; "
                "`python -m spacy biomed install FOLDER` installs a wheel"
            )
            raise BiomedError(add_hint(problem, hint)) from error
        what = "complete" if isinstance(error, OSError) else "readable"
        raise BiomedError(
            f"{name}: not a {what} pipeline ({reason}); copy or install it again"
        ) from error
