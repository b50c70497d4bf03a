"""The lists of names, places and institutions that surrogates are taken from."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

from ..corpora.mention_replacement import read_terms

FOLDER = Path(__file__).parent / "surrogate_terms"
LANGUAGES = ("en", "es")

# Letters, with combining accents where a text has them apart.
WORD = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+")


def normalize(text: str) -> str:
    """What spellings of the same share: without case and accents, white space as one space."""
    decomposed = unicodedata.normalize("NFKD", text)
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(letters.casefold().split())


def normalized_words(text: str) -> list[str]:
    """The words of a text, each normalized."""
    return [normalize(word) for word in WORD.findall(text)]


@cache
def terms(language: str, name: str) -> tuple[str, ...]:
    """A list of a language: given_female, given_male, surnames, places, countries, institutions."""
    return tuple(read_terms(FOLDER / language / f"{name}.txt"))


@cache
def known(name: str) -> frozenset[str]:
    """What the lists of this name have in all languages, normalized."""
    return frozenset(normalize(term) for language in LANGUAGES for term in terms(language, name))


@cache
def word_list(name: str) -> frozenset[str]:
    """A list of words for all languages, normalized: particles, address_words, generic_words."""
    return frozenset(normalize(word) for word in read_terms(FOLDER / f"{name}.txt"))


def match_case(term: str, original: str) -> str:
    """A term in capitals or small letters, if the original is in these throughout."""
    if original.isupper() and sum(map(str.isalpha, original)) > 1:
        return term.upper()
    return term.lower() if original.islower() else term
