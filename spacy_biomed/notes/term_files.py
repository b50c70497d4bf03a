"""The terms of a language: files of groups of terms, in `terms/LANGUAGE/`."""

import re
from functools import cache
from itertools import product
from pathlib import Path

from ..errors import BiomedError

FOLDER = Path(__file__).parent / "terms"
NOTE_LANGUAGES = ("en", "es")

_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")


@cache
def read_groups(language: str, name: str) -> dict[str, tuple[str, ...]]:
    """Read the terms of a file, abbreviations, cues or headings, by group.

    A line `[group]` begins a group, every other line is a term, and `#` begins a remark.

    Raises:
        BiomedError: if there are no terms for the language.
    """
    if language not in NOTE_LANGUAGES:
        known = " or ".join(NOTE_LANGUAGES)
        raise BiomedError(f"there are no terms for the language {language}: set it to {known}")
    groups: dict[str, list[str]] = {}
    for line in (FOLDER / language / f"{name}.txt").read_text(encoding="utf8").splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            terms = groups.setdefault(line.strip("[]"), [])
        elif line:
            terms += expand(line)
    return {group: tuple(terms) for group, terms in groups.items()}


def expand(term: str) -> list[str]:
    """Write out the alternatives of a term.

    Examples:
        >>> expand("{,se }descarta{n,}")
        ['descartan', 'descarta', 'se descartan', 'se descarta']
    """
    parts = _ALTERNATIVES.split(term)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]
