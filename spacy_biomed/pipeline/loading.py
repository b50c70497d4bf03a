"""Pipelines by directory or package name, with errors of one line."""

from __future__ import annotations

import spacy
from spacy.language import Language

from ..errors import BiomedError


def load_pipeline(name: str) -> Language:
    """`spacy.load`.

    name: an installed package, or a pipeline directory.
    RAISES BiomedError: if there is none, or an incomplete one.
    """
    try:
        return spacy.load(name)
    except OSError as error:
        reason = str(error).splitlines()[0]
        if not reason.startswith(("[E050]", "[E053]")):
            raise BiomedError(f"{name}: not a complete pipeline ({reason})") from error
        raise BiomedError(
            f"{name}: neither an installed pipeline package nor a pipeline directory; "
            "`python -m spacy biomed install FOLDER` installs a wheel"
        ) from error
