"""Surrogates of people's names, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from re import Match

from .document_key import DocumentKey
from .surrogate_formats import FormatSurrogates
from .term_lists import WORD, known, match_case, normalize, terms, word_list

# How names are abbreviated. "M.ª" has one word.
_SHORT = {
    "ma": "maria",
    "fco": "francisco",
    "fdez": "fernandez",
    "gcia": "garcia",
    **dict.fromkeys(("glez", "gonz"), "gonzalez"),
    **dict.fromkeys(("rguez", "rdguez"), "rodriguez"),
    **dict.fromkeys(("mtnez", "mtez"), "martinez"),
    **dict.fromkeys(("hdez", "hndez"), "hernandez"),
    **dict.fromkeys(("dguez", "dmguez"), "dominguez"),
    "jmnez": "jimenez",
    "schez": "sanchez",
}
_DOTTED = re.compile(r"(?<=\bM)\.(?=ª)")


class NameSurrogates:
    """Replace the names of a document with names from lists.

    Each word of a name has one surrogate, so a surname alone gets the same surrogate as in a full
    name. The surrogate depends only on the word and not on other names, so it is the same in all
    documents of a scope. Known female and male given names become given names of the same kind; all
    other words become surnames. An initial becomes the initial of the surrogate of the document's
    first name word with this initial. Particles and titles (de la, Dr.) are left out.

    Attributes:
        key: the choices of the document.
        language: "en" or "es".
        formats: for digits in names, and for initials without a name.
        names: all names of the document, in text order.
    """

    def __init__(
        self, key: DocumentKey, language: str, formats: FormatSurrogates, names: Iterable[str]
    ):
        self._key = key
        self._language = language
        self._formats = formats
        # The first word for each initial.
        self._words: dict[str, str] = {}
        for name in names:
            for word in _essential_words(name):
                if not _is_initials(word[0], name):
                    form = normalize(word[0])
                    self._words.setdefault(form[0], form)

    def __call__(self, name: str) -> str | None:
        """The surrogate of a name; None for a name without letters."""
        name = _DOTTED.sub("", name)
        words = _essential_words(name)
        if not words:
            return None
        replaced = [self._replace(word[0], name) for word in words]
        starts = [0, *(word.end() for word in words)]
        ends = [*(word.start() for word in words), len(name)]
        gaps = [self._rewrite(name[s:e]) for s, e in zip(starts, ends, strict=True)]
        gaps[1:-1] = [gap or " " for gap in gaps[1:-1]]
        gaps[0], gaps[-1] = gaps[0].lstrip(), gaps[-1].rstrip()
        return "".join(chain(*zip(gaps, [*replaced, ""], strict=True)))

    def _rewrite(self, gap: str) -> str:
        """Rewrite the text between words: keep punctuation, draw digits, drop particles."""
        if WORD.search(gap):
            return ", " if "," in gap else ""
        return self._formats(gap) or gap

    def _replace(self, word: str, name: str) -> str:
        if _is_initials(word, name):
            letters = filter(str.isalpha, word)
            return "".join(match_case(self._initial(letter), letter) for letter in letters)
        return match_case(self._choose(normalize(word)), word)

    def _choose(self, form: str) -> str:
        form = _SHORT.get(form, form)
        return self._key.choose(terms(self._language, _list_of(form)), "name", form)

    def _initial(self, letter: str) -> str:
        """The initial of the surrogate of a name with this initial, or else a random letter."""
        word = self._words.get(normalize(letter)[:1])
        if word is None:
            return self._formats(letter) or letter
        return normalize(self._choose(word))[0].upper()


def _essential_words(name: str) -> list[Match[str]]:
    """The words of a name without particles and titles; if there are no others, all words."""
    words = list(WORD.finditer(name))
    return [word for word in words if normalize(word[0]) not in word_list("particles")] or words


def _is_initials(word: str, name: str) -> bool:
    is_short = len(word) <= 3 and word.isupper() and not name.isupper()
    return len(word) == 1 or (is_short and normalize(word) not in _SHORT)


def _list_of(form: str) -> str:
    """The name of the list for the surrogate of a word.

    A word that is both a given name and a surname, or neither, becomes a surname. Its position in
    the name would decide better, but it may differ between the occurrences of a word.
    """
    if form not in known("surnames"):
        for name in ("given_female", "given_male"):
            if form in known(name):
                return name
    return "surnames"
