"""Patterns of towns, regions and countries: known names where a place is to be expected, and other
names beside a country or after a postal code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from .term_lists import terms

LISTS = ("places", "regions", "countries")
# What stands before a place. Names at the beginning of a sentence are left to the recogniser: they
# may be surnames or other words ("Reading", "Salta").
_BEFORE = {
    "es": (
        r"(?:\b(?:en|de|desde|hacia|a|por|y|o|natural|procedente|provincia|residente)\s+"
        r"|[,(/:–-]\s*)"
    ),
    "en": r"(?:\b(?:in|from|near|to|outside|via|visited)\s+(?:the\s+)?)",
}
_CAPITALISED = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_TOWN = {
    "es": rf"{_CAPITALISED}(?:[ ](?:(?:de|del|la|las|los|el)[ ])*{_CAPITALISED}){{0,3}}",
    "en": rf"{_CAPITALISED}(?:[ ]{_CAPITALISED}){{0,2}}",
}


def _one_of(names: set[str]) -> str:
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    one = "|".join(re.escape(name).replace(r"\ ", r"\s") for name in longest_first)
    return rf"(?:{one})(?![\w’'-])"


@cache
def _forms(language: str) -> list[re.Pattern[str]]:
    lists = {kind: set(terms(language, kind)) for kind in LISTS}
    place = _one_of(set().union(*lists.values()))
    country = _one_of(lists["countries"] | lists["regions"])
    town = _TOWN[language]
    forms = [
        rf"{_BEFORE[language]}(?P<value>{place})",
        # "(Medartis®, Basel, Suiza)"; "Lübeck, Alemania"; "Madrid. España." in an address
        rf"[(,;][ ]?(?P<value>(?:{town}[®™]?,[ ]){{1,3}}{country})",
        rf"(?<![\w-])(?P<value>{town})(?=\s?[,(]\s?{country})",
        rf"(?<=[.)\n])[ ](?P<value>{country})(?=\s*[.\n)]|$)",
    ]
    if language == "es":
        forms.append(rf"\b\d{{5}}[ ,-]{{1,3}}(?P<value>{town})")
    return [re.compile(form) for form in forms]


def find_places(text: str, language: str) -> Iterator[tuple[re.Match[str], str]]:
    """Find places.

    These are names of the lists after a preposition, in Spanish after a comma or bracket too;
    countries that are a sentence of their own; capitalised words before a country, such as a
    company and its town, and in Spanish after a postal code.
    """
    for form in _forms(language):
        for match in form.finditer(text):
            yield match, "place"
