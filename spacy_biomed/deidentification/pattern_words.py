"""The words of a text as patterns of people's names see them."""

import re
from functools import cache, partial
from typing import NamedTuple

from .pattern_forms import find_form
from .plain_text import PlainText
from .term_lists import NameWords, name_words, word_list

_form = partial(find_form, "people")
MAX_PARTICLES = 3
# Longer names are lists of people.
MAX_WORDS = 7
# A given name and a surname that are one word have at least this many letters.
SHORTEST_JOINED = 8


class Word(NamedTuple):
    """A word of a text: its place, its folded form, and what is known about it.

    Attributes:
        shape: "l" for lower case, "u" for capitals, "t" for a capital first, "i" for an initial.
        known: "given", "surname" or "" for a name that is known.
        is_ordinary: whether it is also, or only, a word of clinical texts.
    """

    start: int
    end: int
    form: str
    shape: str
    known: str
    is_ordinary: bool

    def is_clear(self) -> bool:
        return bool(self.known) and not self.is_ordinary


@cache
def _all_names(language: str) -> frozenset[str]:
    known = name_words(language)
    return (known.given | known.surnames) - word_list("name_particles")


class TextWords:
    """The words of a plain text, each by its place among them, and how they make up names.

    `places` are (start, end) in the text, `at` the place of the word that starts at an offset.
    """

    def __init__(self, plain: PlainText, language: str):
        self.plain, self.language = plain, language
        self.text, self.folded = plain.text, plain.folded
        self.known: NameWords = name_words(language)
        self.names, self.particles = _all_names(language), word_list("name_particles")
        self.places = [match.span() for match in _form("word").finditer(self.folded)]
        self.at = {start: place for place, (start, _) in enumerate(self.places)}
        self._words: dict[int, Word] = {}

    def word(self, place: int) -> Word:
        word = self._words.get(place)
        if word is None:
            word = self._words[place] = self._describe(*self.places[place])
        return word

    def word_at(self, offset: int) -> Word | None:
        """The word that starts at an offset."""
        place = self.at.get(offset)
        return None if place is None else self.word(place)

    def words(self, first: int, end: int) -> list[Word]:
        return [self.word(place) for place in range(first, end)]

    def does(self, end: int) -> bool:
        """Whether what only a person does follows an offset: "Candela refiere"."""
        return _form("does").match(self.folded, end) is not None

    def begins_sentence(self, start: int) -> bool:
        return _form("sentence_start").search(self.text, max(start - 2, 0), start) is not None

    def _describe(self, start: int, end: int) -> Word:
        written, form = self.text[start:end], self.folded[start:end]
        parts = [form, *re.split("['-]", form)]
        known = "given" if len(form) >= SHORTEST_JOINED and self.known.is_joined_name(form) else ""
        for part in parts:
            if part in self.known.given:
                known = known or "given"
            elif part in self.known.surnames:
                known = known or "surname"
        if written.isupper():
            shape = "u" if len(written) > 1 else "i"
        else:
            shape = "t" if written[0].isupper() else "l"
        return Word(start, end, form, shape, known, parts[-1] in self.known.ordinary)

    def joins(self, place: int) -> bool:
        """Whether a word follows the one before it as the words of a name do."""
        if not 0 < place < len(self.places):
            return False
        gap = self.text[self.places[place - 1][1] : self.places[place][0]]
        if gap == " ":
            return True
        if _form("gap").fullmatch(gap) is None:
            return False
        if self.word(place - 1).shape == "i" or "-" in gap:
            return True
        first, second = self.word(place - 1), self.word(place)
        is_other = second.is_clear() or (gap == "_" and second.shape in "tu")
        return gap != ". " and first.is_clear() and is_other and not second.is_ordinary

    def _continues(self, place: int, first: Word) -> bool:
        """Whether a word can be a further one of a name that begins with another word."""
        word = self.word(place)
        if first.shape == "l" or word.shape == "l":
            return first.shape == word.shape and word.is_clear()
        if word.shape == "i":
            return self.text[word.end : word.end + 1] == "."
        if word.known:
            return not word.is_ordinary or word.shape == first.shape
        if word.is_ordinary:
            return False
        return word.shape == "t" or (first.shape == "u" and len(word.form) > 2)

    def extend(self, place: int) -> int:
        """The end of the words that continue a name."""
        first, end = self.word(place), place + 1
        while end - place < MAX_WORDS and self.joins(end):
            last = end
            for _ in range(MAX_PARTICLES):
                if self.word(last).form in self.particles and self.joins(last + 1):
                    last += 1
            if not self._continues(last, first):
                break
            end = last + 1
        return end

    def name_end(self, place: int) -> int:
        """The offset where the name that begins with a word ends."""
        return self.places[self.extend(place) - 1][1]
