"""Surrogates of towns, addresses, countries and institutions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from .document_key import DocumentKey
from .surrogate_formats import FormatSurrogates
from .term_lists import WORD, match_case, normalize, normalized_words, terms, word_list

# A house number or a postcode, including letters in it, or a word.
_PART = re.compile(rf"(?P<code>\w*[^\W\D]\w*|\bs/n\b)|{WORD.pattern}")
_WITHIN_NAME = re.compile(r"[\s.'’-]{1,2}")


class PlaceSurrogates:
    """Replace places and institutions with random terms from lists.

    A surrogate depends only on the name, so it is the same in all documents of a scope.
    """

    def __init__(self, key: DocumentKey, language: str, formats: FormatSurrogates):
        self._key = key
        self._language = language
        self._formats = formats

    def place(self, text: str) -> str | None:
        """The surrogate of a town, an address or a postcode.

        Numbers, postcodes and names whose words all have less than three letters keep their format.
        Words such as Calle or Street stay. All other names become names of towns.

        Returns:
            the surrogate; None if the text contains only words that stay.
        """
        written, last = [], 0
        for start, end, is_name in _parts(text):
            original = text[start:end]
            if not is_name and normalize(original) in word_list("address_words"):
                continue
            surrogate = self._choose("places", original) if is_name else self._formats(original)
            if surrogate is None:
                return None
            written += [text[last:start], surrogate]
            last = end
        return "".join([*written, text[last:]]) if written else None

    def country(self, text: str) -> str:
        """The surrogate of a country."""
        return self._choose("countries", text)

    def institution(self, text: str) -> str:
        """The surrogate of an institution, if possible of the same type (Hospital, Clinic)."""
        generic = (word for word in normalized_words(text) if word in word_list("generic_words"))
        alike = _institutions_with(self._language, next(generic, ""))
        return self._choose("institutions", text, alike)

    def _choose(self, kind: str, original: str, options: Sequence[str] = ()) -> str:
        """Choose one of the options; if there are none, a term of the list of this kind."""
        options = options or terms(self._language, kind)
        surrogate = self._key.choose(options, kind, normalize(original))
        return surrogate if _is_abbreviation(original) else match_case(surrogate, original)


@cache
def _institutions_with(language: str, word: str) -> tuple[str, ...]:
    institutions = terms(language, "institutions")
    return tuple(term for term in institutions if word in normalized_words(term))


def _parts(text: str) -> Iterator[tuple[int, int, bool]]:
    """The parts of an address in text order: start, end and whether it is a name.

    Words separated only by a space, a hyphen or similar form one name.
    """
    start: int | None = None
    end = 0
    for match in _PART.finditer(text):
        is_word = match["code"] is None and normalize(match[0]) not in word_list("address_words")
        if start is not None and not (
            is_word and _WITHIN_NAME.fullmatch(text[end : match.start()])
        ):
            yield start, end, _is_long(text[start:end])
            start = None
        if not is_word:
            yield match.start(), match.end(), False
            continue
        start, end = match.start() if start is None else start, match.end()
    if start is not None:
        yield start, end, _is_long(text[start:end])


def _is_abbreviation(name: str) -> bool:
    return name.isupper() and sum(map(str.isalpha, name)) <= 4


def _is_long(name: str) -> bool:
    return any(len(word) > 2 for word in normalized_words(name))
