"""Patterns of people's names: known names beside each other, after a title or the name of a field,
and in segments of HL7.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .pattern_rules import Found, is_eponym
from .plain_text import fold
from .term_lists import NameWords, name_words

_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_PARTICLES = frozenset("de del la las los y i da do dos van von el san santa".split())
# What is between two words of a name.
_GAPS = frozenset([" ", "-", ". ", " - "])
_MAX_PARTICLES = 3
# Longer names are lists of people.
_MAX_WORDS = 7

# Titles, after which any word that is not ordinary is a name.
_TITLES = (
    r"dr|dra|d|dña|dna|d[ªa]|don|doña|sr|sra|srta|sres|doctora?|mr|mrs|ms|miss|hermana|padre|fdo"
    r"|firmado|firma|alias|apodad[oa]|mote|llamad[oa]|llaman|conocid[oa] como|de nombre|a nombre de|nurse"
)
# Names of fields, and of people, after which one word of a name has to be known.
_FIELDS = (
    r"nombres?|apellidos?|apellido\d?|nombre y apellidos|paciente|patient|name|surname|forename"
    r"|first_?name|last_?name|given|family|m[ée]dic[oa]|facultativ[oa]|enfermer[oa]|cirujan[oa]|tutora?"
    r"|remitid[oa] por|atendid[oa] por|informad[oa] por|solicitado por|realizado por|validado por"
    r"|acompañad[oa] (?:de|por)|responsable|cl[íi]nico responsable|contacto|titular|aseguad[oa]"
    r"|hij[oa]s?|herman[oa]s?|espos[oa]|marido|mujer|madre|padre|pareja|novi[oa]|abuel[oa]|t[íi][oa]"
    r"|cuñad[oa]|sobrin[oa]|prim[oa]|niet[oa]|suegr[oa]|vecin[oa]|cuidador[a]?|son|daughter|wife"
    r"|husband|mother|father|sister|brother|seen by|signed|signed by|referred by|reviewed by"
)
_CUE = re.compile(
    rf"(?<![^\W_])(?:(?P<title>{_TITLES})|(?P<field>{_FIELDS}))(?![^\W\d_])"
    r"(?:[.:\s\"'«“=>|<(/ªº_,-]|es\b|is\b|de_|sra?\b\.?){1,8}(?=[^\W\d_])",
    re.IGNORECASE,
)
# Words after a name that only a person does.
_DOES = re.compile(
    r" (?:(?:no|se|ya|ha|había|fue|est[áa]) )?(?:refier[ea]n?|acud[ei]\w*|ingres[aó]|present[aó]|consult[aó]|viv[ei]\w*"
    r"|cuenta|niega|nieg\w+|dice|coment[aó]|vuelve|volvi[óo]|llam[aó]|fall?eci[óo]|toma|tomaba|vino|viene|es alta"
    r"|es dad[oa]|padece|reconoce|acepta|firma|firm[óo]|solicit[aó]|explica|tiene|debuta|sufr[eió]+|precis[aó]"
    r"|denies|reports|presents|complains|returned|lives|states|was admitted|was seen)\b",
    re.IGNORECASE,
)
_NO_PERSON_BEFORE = re.compile(
    r"(?:\b(?:san|santa|santo|virgen|nuestra señora|hospital\w*|cl[íi]nica|centro|fundaci[óo]n|instituto"
    r"|universidad|calle|c/|plaza|avda?|avenida|paseo|colegio|iglesia|parroquia|residencia)\.?"
    r"(?: (?:de|del|la|los|las|el))* )\Z",
    re.IGNORECASE,
)
_SEGMENT = re.compile(r"^\W?[A-Z][A-Z0-9]{2}\|.*", re.MULTILINE)
_COMPONENT = re.compile(r"(?<=[|^])[^\W\d_][^|^~\d\n]{2,40}(?=\^)|(?<=\^)[^\W\d_][^|^~\d\n]{2,40}(?=[|^~]|$)")


class _Word(NamedTuple):
    """A word of a text, with what is known about it.

    Attributes:
        start, end: in the text.
        form: normalised.
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


def find_names(text: str, language: str) -> Found:
    """Find names of people.

    These are a known given name with the names after it; known surnames with a given name or an
    initial after a comma; names after a title ("Dr."), and known names after the name of a field
    or person ("Nombre:", "su hija", also in JSON and XML) and before what only people do
    ("refiere"); and the words of components in segments of HL7. Where capitals tell nothing, all
    words of a name have to be known.
    """
    finder = _Finder(text, language)
    yield from ((start, end, "name") for start, end in finder.find())


class _Finder:
    def __init__(self, text: str, language: str):
        self._text = text
        self._known: NameWords = name_words(language)
        self._words = [self._describe(match) for match in _WORD.finditer(text)]
        self._at = {word.start: place for place, word in enumerate(self._words)}

    def find(self):
        """(start, end) of each name; some may overlap."""
        for match in _CUE.finditer(self._text):
            place = self._at.get(match.end())
            if place is not None and not is_eponym(self._text, match.start()):
                found = self._after_cue(place, bool(match["title"]))
                if found:
                    yield found
        words, place = self._words, 0
        while place < len(words):
            end = self._end_of_run(place) if self._can_begin(place) else place
            if end > place and not self._is_other(words[place].start):
                yield words[place].start, words[end - 1].end
            place = max(end, place + 1)
        yield from self._in_commas()
        if "^" in self._text:
            yield from self._in_segments()

    def _describe(self, match: re.Match[str]) -> _Word:
        word = match[0]
        form = fold(word)
        known = ""
        parts = [form, *re.split("['-]", form)] if "-" in form or "'" in form else [form]
        for part in parts:
            if part in self._known.given:
                known = known or "given"
            elif part in self._known.surnames:
                known = known or "surname"
        if len(word) == 1:
            shape = "i" if word.isupper() else "l"
        elif word.isupper():
            shape = "u"
        else:
            shape = "t" if word[0].isupper() else "l"
        return _Word(*match.span(), form, shape, known, parts[-1] in self._known.ordinary)

    def _joins(self, place: int) -> bool:
        """Whether a word follows the one before it as the words of a name do."""
        words = self._words
        if place >= len(words):
            return False
        gap = self._text[words[place - 1].end : words[place].start]
        return gap in _GAPS and (gap != ". " or words[place - 1].shape == "i")

    def _continues(self, place: int, first: _Word) -> bool:
        """Whether a word can be a further one of a name that begins with another word."""
        word = self._words[place]
        if first.shape == "l":
            return word.shape == "l" and word.is_clear()
        if word.shape == "l":
            return False
        if word.shape == "i":
            return self._text[word.end : word.end + 1] == "."
        if word.known:
            return not word.is_ordinary or word.shape == first.shape
        if word.is_ordinary:
            return False
        return word.shape == "t" or (first.shape == "u" and len(word.form) > 2)

    def _end_of_run(self, place: int) -> int:
        """The end of the name whose first word is at a place; the place itself if it is none."""
        end = self._extend(place)
        words = [word for word in self._words[place:end] if word.form not in _PARTICLES]
        if len([word for word in words if word.shape != "i"]) > 1:
            return end
        first = self._words[place]
        if first.shape == "t" and not first.is_ordinary and _DOES.match(self._text, first.end):
            return place + 1
        return place

    def _extend(self, place: int) -> int:
        """The end of the words that continue a name."""
        first, end = self._words[place], place + 1
        while end < len(self._words) and end - place < _MAX_WORDS and self._joins(end):
            last = end
            while (
                last - end < _MAX_PARTICLES
                and self._words[last].form in _PARTICLES
                and last + 1 < len(self._words)
                and self._joins(last + 1)
            ):
                last += 1
            if not self._continues(last, first):
                break
            end = last + 1
        return end

    def _can_begin(self, place: int) -> bool:
        word = self._words[place]
        if not word.known or word.form in _PARTICLES:
            return False
        if word.known == "given":
            following = self._words[place + 1] if place + 1 < len(self._words) else None
            # "Dolores Blanco": both are ordinary words too, and both are capitalised.
            return not word.is_ordinary or (
                word.shape in "tu" and following is not None and following.is_clear()
            )
        # Surnames first, as in a list: "Ochoa Ibáñez Marta".
        end = self._extend(place)
        return not word.is_ordinary and (
            any(one.known == "given" and one.is_clear() for one in self._words[place:end])
            or (end == place + 1 and _DOES.match(self._text, word.end) is not None)
        )

    def _after_cue(self, place: int, is_title: bool) -> tuple[int, int] | None:
        word = self._words[place]
        while word.form in _PARTICLES and place + 1 < len(self._words) and self._joins(place + 1):
            if word.shape == "l" and word.form in ("y", "de", "del", "el", "la") and not is_title:
                return None
            place += 1
            word = self._words[place]
        is_name = word.is_clear() or (word.known and word.shape != "l")
        if is_title and word.shape != "i":
            is_name = is_name or (not word.is_ordinary and word.shape in "tu" and len(word.form) > 2)
            is_name = is_name or (word.shape == "l" and self._is_unknown_name(place))
        elif word.shape == "i":
            # "Paciente J.E.R.", "Sra. M. Ochoa"
            initials = re.compile(r"(?:[A-ZÀ-Þ]\.[ -]?){2,5}").match(self._text, word.start)
            if initials and not re.match(r"\s*[\d:]", self._text[initials.end() :]):
                return word.start, initials.start() + len(initials[0].rstrip(" -"))
            return self._after_cue(place + 1, is_title) if self._joins(place + 1) else None
        elif not is_name and word.shape == "t" and not word.is_ordinary:
            end = self._extend(place)
            is_name = any(one.known for one in self._words[place + 1 : end])
        if not is_name:
            return None
        return word.start, self._words[self._extend(place) - 1].end

    def _is_unknown_name(self, place: int) -> bool:
        """Whether a word in lower case after a title is a name: "dra. echeverria"."""
        word = self._words[place]
        title = self._text[max(word.start - 6, 0) : word.start].lower()
        return (
            not word.is_ordinary
            and len(word.form) > 3
            and re.search(r"\b(?:dra?|sra?|srta|dña)\.? $", title) is not None
        )

    def _in_commas(self):
        """Surnames, a comma, and a given name or initials: "OCHOA IBÁÑEZ, Marta", "Iglesias, C."."""
        words = self._words
        for place in range(1, len(words)):
            word, before = words[place], words[place - 1]
            if self._text[before.end : word.start] not in (", ", ","):
                continue
            first = place - 1
            while first and self._joins(first) and words[first - 1].shape == before.shape and (
                words[first - 1].known or not words[first - 1].is_ordinary
            ) and words[first - 1].form not in _PARTICLES and place - first < 3:
                first -= 1
            if before.shape in "tu" and not before.is_ordinary and not self._is_other(words[first].start):
                if word.known == "given" and word.shape in "tu" and not word.is_ordinary:
                    if before.known == "surname" or len(before.form) > 4 or first < place - 1:
                        yield words[first].start, words[self._extend(place) - 1].end
                elif before.known == "surname" and word.shape == "i":
                    initials = re.compile(r"(?:[A-ZÀ-Þ]\.[ -]?){1,3}").match(self._text, word.start)
                    if initials and not re.match(r"\s*[\d:]", self._text[initials.end() :]):
                        yield words[first].start, initials.start() + len(initials[0].rstrip(" -"))

    def _in_segments(self):
        for line in _SEGMENT.finditer(self._text):
            for match in _COMPONENT.finditer(self._text, line.start(), line.end()):
                words = re.findall(r"\w+", fold(match[0]))
                if any(map(self._known.is_name, words)) or not self._known.ordinary.issuperset(words):
                    yield match.span()

    def _is_other(self, start: int) -> bool:
        """Whether a name belongs to an institution, an address or a term."""
        before = self._text[max(start - 40, 0) : start]
        return bool(_NO_PERSON_BEFORE.search(before)) or is_eponym(self._text, start)
