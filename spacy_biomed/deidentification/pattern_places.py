"""Patterns of towns, regions and countries: known names where a place is to be expected, and other
names beside a country or after a postal code.
"""

from __future__ import annotations

from .pattern_forms import find_form, is_eponym
from .pattern_rules import Found, apply_table
from .plain_text import PlainText, fold
from .term_lists import name_words, place_words


def find_places(plain: PlainText, language: str) -> Found:
    """Find places.

    These are names of the lists after a preposition, countries that are a sentence of their own,
    and capitalised words before a country, such as a company and its town. In Spanish they are also
    names of the lists after a comma or bracket, and capitalised words after a postal code. A name
    in lower case must not be an ordinary word, or part of a term ("fiebre de Malta").
    """
    text, folded = plain.text, plain.folded
    places, ordinary = place_words(language), name_words(language).ordinary
    for match in find_form("places", "before", language).finditer(text):
        if folded[slice(*match.span(1))] in places.first and not is_eponym(text, match.end()):
            end = _longest(text, folded, match.end(), places.names, ordinary)
            if end:
                yield match.end(), end, "place"
    for start, end, pattern in apply_table("places", plain, language):
        value = text[start:end].split()
        while (
            len(value) > 1 and fold(value[-1]) in ordinary and fold(value[-1]) not in places.names
        ):
            end -= len(value.pop()) + 1
        yield start, end, pattern


def _longest(
    text: str, folded: str, start: int, places: frozenset[str], ordinary: frozenset[str]
) -> int:
    """The end of the longest place that begins at an offset; 0 if there is none."""
    words = find_form("places", "words").match(text, start)
    end = words.end() if words else start
    while end > start:
        name = folded[start:end]
        if name in places:
            is_lower = text[start:end].islower()
            return 0 if is_lower and all(word in ordinary for word in name.split()) else end
        end = text.rfind(" ", start, end)
    return 0
