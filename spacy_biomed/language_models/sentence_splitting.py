"""Split text into sentences by rules."""

from __future__ import annotations

import re

from spacy.language import BaseDefaults
from spacy.util import get_lang_class

from ..errors import BiomedError

# Abbreviations of scientific and clinical writing that are missing in spaCy's lists.
# fmt: off
ABBREVIATIONS = (
    "al", "approx", "aprox", "ca", "cf", "col", "cols", "ctra", "eq", "eqs", "fig", "figs",
    "max", "min", "mín", "máx", "núm", "pág", "págs", "pers", "pl", "pp", "prof", "ref", "refs",
    "resp", "sp", "spp", "ssp", "subsp", "suppl", "tel", "var", "vol", "vols", "vs",
)
# fmt: on

# After this many characters in an open parenthesis, it is assumed to be a stray bracket.
_MAX_PARENTHESIS = 1000

# Longer than any abbreviation.
_LONGER_THAN_ABBREVIATIONS = 30

_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")
# The end of a sentence, a space, and the beginning of the next sentence.
_BOUNDARY = re.compile(r"(?<![.!?…。])[.!?…。]+[\"'”’»)\]]*( )(?=[\"'“‘«¿¡(\[*•–-]* ?(\w))")
_OPENING = "([\"'“‘«¿¡"


class SentenceSplitter:
    """Splits text into sentences.

    A sentence ends with a full stop, a question or an exclamation mark, and any closing quotes and
    brackets after it. It does not end there if the full stop belongs to an abbreviation or an
    initial, if the mark is inside a parenthesis, or if a lower-case letter follows. A sentence also
    ends with a paragraph (at a blank line).

    Attributes:
        lang: code of the language, whose abbreviations spaCy's tokenizer knows.

    Raises:
        BiomedError: if spaCy does not know the language.
    """

    def __init__(self, lang: str):
        exceptions = find_language(lang).tokenizer_exceptions
        known = [orth[:-1] for orth in exceptions if orth[:1].isalpha() and orth[-1] == "."]
        # Case-sensitive: "Mass." is a state, and "mass." ends a sentence.
        self.abbreviations = {*known, *ABBREVIATIONS, *map(str.capitalize, ABBREVIATIONS)}

    def split(self, text: str) -> list[str]:
        """The sentences in order; any white space in them becomes a single space."""
        sentences = []
        for paragraph in _PARAGRAPH_BREAK.split(text):
            paragraph = " ".join(paragraph.split())
            start = 0
            for match in _BOUNDARY.finditer(paragraph):
                if self._ends(paragraph, start, match):
                    sentences.append(paragraph[start : match.start(1)])
                    start = match.end(1)
            sentences.append(paragraph[start:])
        return list(filter(None, sentences))

    def _ends(self, text: str, start: int, match: re.Match[str]) -> bool:
        """Whether the sentence that starts at `start` ends at the match."""
        if match[2].islower():
            return False
        stop, end = match.start(), match.start(1)
        last_characters = text[max(start, stop - _LONGER_THAN_ABBREVIATIONS) : stop]
        if text[stop] == "." and self._is_abbreviated(last_characters):
            return False
        if end - start > _MAX_PARENTHESIS:
            return True
        return text.count("(", start, end) <= text.count(")", start, end)

    def _is_abbreviated(self, text: str) -> bool:
        """Whether a text ends with an abbreviation or an initial, without its full stop."""
        word = text.rpartition(" ")[2].lstrip(_OPENING)
        return word in self.abbreviations or (len(word) == 1 and word.isalpha())


def find_language(lang: str) -> type[BaseDefaults]:
    """spaCy's defaults of a language: stop words, and tokenizer exceptions with abbreviations."""
    try:
        return get_lang_class(lang).Defaults
    except ImportError as error:
        raise BiomedError(
            f"spaCy knows no language {lang!r}; give a code such as en or es"
        ) from error
