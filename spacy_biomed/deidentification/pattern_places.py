"""Patterns of towns, regions and countries: known names where a place is to be expected, and other
names beside a country or after a postal code.
"""

from __future__ import annotations

import re
from functools import cache

from .pattern_contacts import STATES
from .pattern_rules import Found, Rule, apply_rules, is_eponym, rule
from .plain_text import PlainText, fold
from .term_lists import is_clinical_term, name_words, normalize, terms

LISTS = ("places", "regions", "countries")
# What stands before a place. Names at the beginning of a sentence are left to the recogniser: they
# may be surnames or other words ("Reading", "Salta").
_BEFORE = {
    "es": (
        r"(?:\b(?:en|de|desde|hacia|a|por|y|o|natural|procedente|provincia|residente)[ ]"
        r"|[,(/:-][ ]?)"
    ),
    "en": r"(?:\b(?:in|from|near|to|outside|via|visited)[ ](?:the[ ])?)",
}
_CAPITALISED = r"[A-ZÀ-ÖØ-Þ][\w'-]+"
_TOWN = {
    "es": rf"{_CAPITALISED}(?:[ ](?:(?:de|del|la|las|los|el)[ ])*{_CAPITALISED}){{0,3}}",
    "en": rf"{_CAPITALISED}(?:[ ]{_CAPITALISED}){{0,2}}",
}
_WORD = r"[^\W\d_][\w'-]*"
_MOST_WORDS = 6
_ARTICLES = frozenset(["el", "la", "las", "los"])


@cache
def _known(language: str) -> tuple[frozenset[str], frozenset[str]]:
    """The places of a language, folded, and those of their words with which one begins."""
    places = frozenset(normalize(name) for kind in LISTS for name in terms(language, kind))
    return places, frozenset(name.split()[0] for name in places)


# One drug is given for another.
_FROM_DRUG = re.compile(
    r"\b(?i:switch(?:ed)?|chang(?:ed?|ing)|convert(?:ed)?|transition(?:ed)?|wean(?:ed)?"
    r"|rotat(?:ed?|ing)"
    r"|titrat(?:ed?|ing)|cambi\w+)(?: \w+)? (?:from|de) \Z"
)


@cache
def _expected(language: str) -> re.Pattern[str]:
    return re.compile(rf"(?i:{_BEFORE[language]})(?=({_WORD}))")


@cache
def _forms(language: str) -> list[Rule]:
    names = {*terms(language, "countries"), *terms(language, "regions")}
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    one = "|".join(re.escape(name) for name in longest_first)
    country = rf"(?:{one}|{one.upper()})(?![\w'-])"
    town = _TOWN[language]
    forms = [
        # "(Medartis®, Basel, Suiza)"; "Lübeck, Alemania"; "Madrid. España." in an address
        rf"[(,;][ ]?(?P<value>(?:{town}[®™]?,[ ]){{1,3}}{country})",
        rf"(?<![\w-])(?P<value>{town})(?=[ ]?[,(][ ]?{country})",
        rf"(?<=[.)\n])[ ](?P<value>{country})(?=\s*[.\n)]|$)",
    ]
    if language == "es":
        code = r"(?:0[1-9]|[1-4]\d|5[0-2])\d{3}"
        cues = (
            r"natural|vecin[oa]|oriund[oa]|originari[oa]|procedente|barrio|pueblo|aldea|localidad"
            r"|municipio|pedan[íi]a|residente|reside|vive|empadronad[oa]|ciudad|provincia|isla"
            r"|viaj[eoó]\w*"
            r"|traslad\w+"
        )
        forms.append(
            rf"\b(?i:{cues})[ ](?i:de|en|a|desde)[ ](?P<value>(?:(?i:el|la|las|los)[ ])?{town})"
        )
        forms.append(rf"(?<![\d.,]){code}[ ,-]{{1,3}}(?P<value>{town})(?![\w'-]| ?\d)")
    if language == "en":
        forms.append(
            r"\b(?i:from|liv(?:es|ing|ed) (?:in|near)|born in|resident of|native of|moved (?:to"
            r"|from)"
            r"|raised in|grew up in|resid(?:es|ing|ed) in|relocated (?:to|from)|retired to"
            r"|settled in"
            r"|visiting|travel+ed to|trip to|returned (?:to|from)|hometown of|based in|stay(?:s"
            r"|ing) in"
            r"|evacuated (?:to|from)|sent to)[ ]"
            rf"(?P<value>{town}(?:, {town})?)"
        )
        # A town between an address and its code.
        forms.append(
            rf"(?P<value>{town}),? (?=(?:VIC|NSW|QLD|TAS|WA|SA|ACT|NT),? \d{{4}}\b"
            rf"|(?:{STATES}) \d{{5}}\b(?! ?\()"
            rf"|[A-PR-UWYZ][A-HK-Y]?\d[\dA-Z]? \d[ABD-HJLNP-UW-Z]{{2}}\b)"
        )
        forms.append(rf"(?<![\w-])(?P<value>{town}),[ ](?:{STATES})\b")
    return [rule("place", form, _is_town) for form in forms]


def _is_town(match: re.Match[str]) -> bool:
    """Whether the first word is not an ordinary one: "12345 Ferritina" is a row of values."""
    if _FROM_DRUG.search(match.string, max(match.start("value") - 40, 0), match.start("value")):
        return False
    words = re.split(r"[ ,®™]", fold(match["value"]))
    first = next((word for word in words if word not in _ARTICLES), "")
    names = name_words("es")
    if is_clinical_term(first):
        return False
    if first != words[0] and match["value"][0].isupper() and words[0] in _known("es")[1]:
        return True
    return first not in names.ordinary or first in _known("es")[1] or names.is_name(first)


def find_places(plain: PlainText, language: str) -> Found:
    """Find places.

    These are names of the lists after a preposition, countries that are a sentence of their own,
    and capitalised words before a country, such as a company and its town. In Spanish they are also
    names of the lists after a comma or bracket, and capitalised words after a postal code. A name
    in lower case must not be an ordinary word, or part of a term ("fiebre de Malta").
    """
    text, folded = plain.text, plain.folded
    places, firsts = _known(language)
    for match in _expected(language).finditer(text):
        if folded[slice(*match.span(1))] in firsts and not is_eponym(text, match.end()):
            end = _longest(text, folded, match.end(), places, name_words(language).ordinary)
            if end:
                yield match.end(), end, "place"
    for start, end, pattern in apply_rules(_forms(language), plain):
        value = text[start:end].split()
        ordinary = name_words(language).ordinary
        while len(value) > 1 and fold(value[-1]) in ordinary and fold(value[-1]) not in places:
            end -= len(value.pop()) + 1
        yield start, end, pattern


def _longest(
    text: str, folded: str, start: int, places: frozenset[str], ordinary: frozenset[str]
) -> int:
    """The end of the longest place that begins at an offset; 0 if there is none."""
    words = re.compile(rf"{_WORD}(?:[ ]{_WORD}){{0,{_MOST_WORDS}}}").match(text, start)
    end = words.end() if words else start
    while end > start:
        name = folded[start:end]
        if name in places:
            is_lower = text[start:end].islower()
            return 0 if is_lower and all(word in ordinary for word in name.split()) else end
        end = text.rfind(" ", start, end)
    return 0
