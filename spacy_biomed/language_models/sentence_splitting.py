"""Sentences of a text, by rules."""

from __future__ import annotations

import re

from spacy.language import BaseDefaults
from spacy.util import get_lang_class

from ..errors import BiomedError

# What spaCy's lists of abbreviations lack of scientific and clinical writing.
# fmt: off
ABBREVIATIONS = (
    "al", "approx", "aprox", "ca", "cf", "col", "cols", "ctra", "eq", "eqs", "fig", "figs",
    "max", "min", "mín", "máx", "núm", "pág", "págs", "pers", "pl", "pp", "prof", "ref", "refs",
    "resp", "sp", "spp", "ssp", "subsp", "suppl", "tel", "var", "vol", "vols", "vs",
)
# fmt: on

# A sentence that is still open in a parenthesis after so many characters has a stray one.
_MAX_PARENTHESIS = 1000

# More characters than an abbreviation has.
_LONGER_THAN_ABBREVIATIONS = 30

_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")
# The end of a sentence, a blank, and what the next one begins with.
_BOUNDARY = re.compile(r"(?<![.!?…。])[.!?…。]+[\"'”’»)\]]*( )(?=[\"'“‘«¿¡(\[*•–-]* ?(\w))")
_OPENING = "([\"'“‘«¿¡"


class SentenceSplitter:
    """Splits where a sentence can end and the next one can begin.

    A sentence ends with a full stop, a question or an exclamation mark, closing quotes and brackets
    included, unless that belongs to an abbreviation or an initial, stands inside a parenthesis,
    or is followed by a lower-case letter; and with a paragraph (a blank line).

    Attributes:
        lang: code of the language, whose abbreviations spaCy's tokenizer knows.

    Raises:
        BiomedError: if spaCy does not know the language.
    """

    def __init__(self, lang: str):
        exceptions = find_language(lang).tokenizer_exceptions
        known = [orth[:-1] for orth in exceptions if orth[:1].isalpha() and orth[-1] == "."]
        # With their case: "Mass." is a state, and "mass." ends a sentence.
        self.abbreviations = {*known, *ABBREVIATIONS, *map(str.capitalize, ABBREVIATIONS)}

    def split(self, text: str) -> list[str]:
        """The sentences in order, with single blanks for any white space in them."""
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
        """Whether the sentence that begins at start ends at the match."""
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
        """Whether a text ends with an abbreviation or an initial, but for its full stop."""
        word = text.rpartition(" ")[2].lstrip(_OPENING)
        return word in self.abbreviations or (len(word) == 1 and word.isalpha())


def find_language(lang: str) -> type[BaseDefaults]:
    """What spaCy knows of a language: stop words, abbreviations among the tokenizer's exceptions.

    Raises:
        BiomedError: if spaCy does not know the language.
    """
    try:
        return get_lang_class(lang).Defaults
    except ImportError as error:
        raise BiomedError(
            f"spaCy knows no language {lang!r}; give a code such as en or es"
        ) from error
