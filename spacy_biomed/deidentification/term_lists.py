"""The lists of names, places and institutions for surrogates."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..corpora.mention_replacement import read_terms

FOLDER = Path(__file__).parent / "surrogate_terms"
LANGUAGES = ("en", "es")

# Letters, with combining accents for decomposed text.
WORD = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+")


def normalize(text: str) -> str:
    """Normalise spelling: case-folded, without accents, runs of white space as one space."""
    decomposed = unicodedata.normalize("NFKD", text)
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(letters.casefold().split())


def normalized_words(text: str) -> list[str]:
    """The words of a text, each normalised."""
    return [normalize(word) for word in WORD.findall(text)]


@cache
def terms(language: str, name: str) -> tuple[str, ...]:
    """Read a list of a language, such as given_female or places, or of "", such as companies."""
    return tuple(read_terms(FOLDER / language / f"{name}.txt"))


@cache
def _abbreviations() -> dict[str, str]:
    return dict(line.split() for line in terms("", "abbreviated_names"))


def write_out(word: str) -> str:
    """The name that a normalised word abbreviates: "fdez", or the word itself."""
    return _abbreviations().get(word, word)


@cache
def known(name: str) -> frozenset[str]:
    """The terms of the lists of this name in all languages, normalised."""
    return frozenset(normalize(term) for language in LANGUAGES for term in terms(language, name))


_SHORTEST_FOREIGN = 4
# The letters of a given name and a surname that are one word: at least, and at most.
_SHORTEST_JOINED, _LONGEST_JOINED = 8, 30


class NameWords(NamedTuple):
    """What is known of the words of a language, all without accents and in lower case.

    Attributes:
        given, surnames: names of people.
        ordinary: words of clinical texts, some of which are also names ("Rosa", "Delgado").
    """

    given: frozenset[str]
    surnames: frozenset[str]
    ordinary: frozenset[str]

    def is_name(self, word: str) -> bool:
        """Whether a word is a name, and perhaps an ordinary word too."""
        return word in self.given or word in self.surnames

    def is_joined_name(self, word: str) -> bool:
        """Whether a word is a given name and a surname without a space, and not ordinary."""
        if word in self.ordinary or not _SHORTEST_JOINED <= len(word) <= _LONGEST_JOINED:
            return False
        return any(
            word[:end] in self.given
            and word[end:] in self.surnames
            and not (word[:end] in self.ordinary or word[end:] in self.ordinary)
            for end in range(3, len(word) - 2)
        )


@cache
def name_words(language: str) -> NameWords:
    """The words of a language, as normalised.

    Names of the other languages count as surnames if they are surnames too: alone, they may be
    eponyms.
    """
    lists = ("known_given", "known_surnames", "ordinary_words")
    given, surnames, ordinary = (frozenset(terms(language, name)) for name in lists)
    foreign = known("known_given") | known("known_surnames")
    foreign -= known("ordinary_words") | known("places") | given
    foreign = frozenset(name for name in foreign if len(name) >= _SHORTEST_FOREIGN)
    given |= foreign - known("known_surnames")
    return NameWords(given, surnames | foreign - given, ordinary)


class PlaceWords(NamedTuple):
    """The places of a language, normalised, and the words with which one begins."""

    names: frozenset[str]
    first: frozenset[str]


@cache
def place_words(language: str) -> PlaceWords:
    """The towns, regions and countries of a language."""
    lists = ("places", "regions", "countries")
    places = [*terms("", "known_places"), *(one for kind in lists for one in terms(language, kind))]
    names = frozenset(map(normalize, places))
    return PlaceWords(names, frozenset(name.split()[0] for name in names))


def is_name(word: str) -> bool:
    """Whether a normalised word is a person's name in any language."""
    return any(name_words(language).is_name(word) for language in LANGUAGES)


def is_ordinary(word: str) -> bool:
    """Whether a normalised word is one of clinical texts in any language."""
    return any(word in name_words(language).ordinary for language in LANGUAGES)


def is_clear_name(word: str) -> bool:
    """Whether a normalised word is a name in any language, and no ordinary word in it."""
    return any(one.is_name(word) and word not in one.ordinary for one in map(name_words, LANGUAGES))


def is_clinical_term(words: str) -> bool:
    """Whether all of several normalised words are names of scales, drugs and the like."""
    known = word_list("clinical_terms")
    words = words.replace("-", " ")
    return words in known or all(word in known for word in words.split(" "))


@cache
def word_list(name: str) -> frozenset[str]:
    """Read a list for all languages, normalised: particles, address_words or generic_words."""
    return frozenset(map(normalize, terms("", name)))


def one_of(words: Iterable[str]) -> str:
    """A regular expression for any of several words, the longest first."""
    return "|".join(map(re.escape, sorted(set(words), key=lambda word: (-len(word), word))))


def match_case(term: str, original: str) -> str:
    """The term in upper or lower case if all of the original is; else unchanged."""
    if original.isupper() and sum(map(str.isalpha, original)) > 1:
        return term.upper()
    return term.lower() if original.islower() else term
