"""Patterns of people's names: known names beside each other, after a title or the name of a field,
and in segments of HL7.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

from .pattern_forms import find_form, is_eponym
from .pattern_rules import find_matches, read_rule
from .plain_text import PlainText
from .term_lists import LANGUAGES, NameWords, is_clinical_term, name_words, word_list

_form = partial(find_form, "people")
_MAX_PARTICLES = 3
# Longer names are lists of people.
_MAX_WORDS = 7
# A given name and a surname that are one word have at least this many letters.
_SHORTEST_JOINED = 8


class Word(NamedTuple):
    """A word of a text, with what is known about it.

    Attributes:
        start, end: in the text.
        form: folded.
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


class NameFinder:
    """Finds names of people in a plain text by lists of names.

    Where capitals tell nothing, all words of a name have to be known.
    """

    def __init__(self, plain: PlainText, language: str):
        self.plain, self.language = plain, language
        self.text, self.folded = plain.text, plain.folded
        self._known: NameWords = name_words(language)
        self.places = [match.span() for match in _form("word").finditer(self.folded)]
        self._names = _all_names(language)
        self._particles = word_list("name_particles")
        self.at = {start: place for place, (start, _) in enumerate(self.places)}
        self._words: dict[int, Word] = {}

    def find_names(self) -> Iterator[tuple[int, int]]:
        """(start, end) of each name; some may overlap.

        These are:

        - A known given name with the names after it.
        - Known surnames with a given name or an initial after a comma.
        - Names after a title ("Dr.").
        - Known names after a field or a person ("Nombre:", "su hija", also in JSON and XML).
        - Known names before what only people do ("refiere").
        - The words of components in segments of HL7.
        """
        for cue in ("title", "field"):
            for match in find_matches(read_rule("people", cue), self.plain):
                place = self.at.get(match.end())
                if place is not None and not is_eponym(self.text, match.start()):
                    found = self._after_cue(place, cue == "title")
                    if found:
                        yield found
        yield from self._in_runs()
        yield from self._in_commas()
        yield from self._at_line_starts()
        yield from self._in_nicknames()
        if "^" in self.text:
            yield from self._in_segments()

    def _in_runs(self) -> Iterator[tuple[int, int]]:
        """A known given name with the names after it, and a name before what a person does."""
        done, folded, names = 0, self.folded, self._names
        for place, (start, end) in enumerate(self.places):
            form = folded[start:end]
            # Most words are short, and in no list.
            if form not in names and end - start < _SHORTEST_JOINED and form.isalpha():
                continue
            if place >= done and self._is_known(form):
                first, done = place, self._end_of_run(place)
                if done == place and self._is_after_initial(place):
                    first, done = place - 1, place + 1
                elif done > place:
                    first = self._find_start(place)
                    done += self._is_last_surname(done)
                if done > place and not self._is_other(start):
                    yield self.places[first][0], self.places[done - 1][1]

    def _is_last_surname(self, place: int) -> bool:
        """Whether a capitalised word after a name, before what a person does, is part of it."""
        if not self.joins(place):
            return False
        word, before = self.word(place), self.word(place - 1)
        return (
            word.shape == before.shape == "t"
            and _form("does").match(self.folded, word.end) is not None
        )

    def _find_start(self, place: int) -> int:
        """The first of capitalised words from the start of a line to a name: "MONZONÍS ELVIRA"."""
        first, shape = place, self.word(place).shape
        while first > max(place - _MAX_PARTICLES, 0) and self.joins(first) and shape != "l":
            word = self.word(first - 1)
            is_ordinary = any(word.form in name_words(one).ordinary for one in LANGUAGES)
            if word.shape != shape or is_ordinary or len(word.form) < _MAX_PARTICLES:
                break
            first -= 1
        start = self.places[first][0]
        return first if self.text[:start].rpartition("\n")[2].strip(" >*•#_-") == "" else place

    def _is_known(self, form: str) -> bool:
        if form in self._names:
            return True
        if "-" in form or "'" in form:
            return any(map(self._known.is_name, re.split("['-]", form)))
        return len(form) >= _SHORTEST_JOINED and self._known.is_joined_name(form)

    def _is_after_initial(self, place: int) -> bool:
        """Whether a surname has an initial before it: "B. Cano"."""
        word = self.word(place)
        is_surname = word.known == "surname" and word.is_clear() and word.shape != "l"
        return is_surname and self.joins(place) and self.word(place - 1).shape == "i"

    def _at_line_starts(self) -> Iterator[tuple[int, int]]:
        """Capitalised words, none of them ordinary, before what a person does; known names alone on
        a line, before a colon, or before an initial.
        """
        for line in _form("line").finditer(self.text):
            first = place = self.at.get(line.end(), len(self.places))
            while place < len(self.places) and place < first + _MAX_WORDS:
                word = self.word(place)
                is_initial = word.shape == "i" and self.text[word.end : word.end + 1] == "."
                # "elvira monzonis acude"
                is_lower = self.word(first).shape == "l" and self.word(first).known == "given"
                is_name = (word.shape in "tu" or is_lower) and not word.is_ordinary
                is_part = word.form in self._particles or is_name or is_initial
                if not is_part or (place > first and not self.joins(place)):
                    break
                place += 1
            words = [self.word(one) for one in range(first, place)]
            names = [one for one in words if one.form not in self._particles]
            is_row = bool(line["row"]) and len(names) > 1
            if names and (
                self._stands_for_person(names, words[-1].end)
                or (is_row and _form("after_row").match(self.text, words[-1].end))
            ):
                yield words[0].start, words[-1].end

    def _stands_for_person(self, names: list[Word], end: int) -> bool:
        text = self.text
        known = [one for one in names if one.known]
        if len(names) > 1 and _form("does").match(self.folded, end):
            return True
        if names[-1].shape == "i" and len(names) == 2:
            is_item = _form("after_initial").match(text, end) is not None
            return names[0].known == "surname" or (bool(names[0].known) and is_item)
        if names[0].shape == "l":
            return False
        if len(known) < len(names) or all(one.known == "surname" for one in names):
            initials = _form("initials").match(text, end + 1)
            return bool(known and initials and text[end : end + 1] in " ,")
        return text[end : end + 1] in ("", "\n", ":")

    def _in_nicknames(self) -> Iterator[tuple[int, int]]:
        """A given name in quotes or brackets after a name, and with that name and the next."""
        for match in _form("nickname").finditer(self.text):
            place = bisect_left(self.places, match.span("name"))
            inner = self.word(place)
            before = self.word(place - 1) if place else None
            is_after_name = before is not None and before.is_clear() and before.shape in "tu"
            is_alone = match.start() == 0 or self.text[match.start() - 1] == "\n"
            if is_after_name and before and before.end == match.start() - 1:
                last = bisect_left(self.places, match.end(), key=lambda one: one[0])
                following = self.word(last) if last < len(self.places) else None
                is_next = following is not None and following.start == match.end() + 1
                is_given = inner.known == "given" or match[0][0] in '"“«'
                if following and is_next and is_given and following.is_clear():
                    yield before.start, following.end
                elif inner.known == "given" and inner.is_clear():
                    yield match.span("name")
            elif is_alone and inner.known == "given" and inner.is_clear():
                yield match.span("name")

    def word(self, place: int) -> Word:
        word = self._words.get(place)
        if word is None:
            word = self._words[place] = self._describe(*self.places[place])
        return word

    def _describe(self, start: int, end: int) -> Word:
        written, form = self.text[start:end], self.folded[start:end]
        parts = [form, *re.split("['-]", form)] if "-" in form or "'" in form else [form]
        known = (
            "given" if len(form) >= _SHORTEST_JOINED and self._known.is_joined_name(form) else ""
        )
        for part in parts:
            if part in self._known.given:
                known = known or "given"
            elif part in self._known.surnames:
                known = known or "surname"
        if written.isupper():
            shape = "u" if len(written) > 1 else "i"
        else:
            shape = "t" if written[0].isupper() else "l"
        return Word(start, end, form, shape, known, parts[-1] in self._known.ordinary)

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
        while end - place < _MAX_WORDS and self.joins(end):
            last = end
            while (
                last - end < _MAX_PARTICLES
                and self.word(last).form in self._particles
                and self.joins(last + 1)
            ):
                last += 1
            if not self._continues(last, first):
                break
            end = last + 1
        return end

    def _end_of_run(self, place: int) -> int:
        """The end of the name that begins at a place; the place itself if there is no name."""
        first, end = self.word(place), self.extend(place)
        words = [self.word(one) for one in range(place, end)]
        names = [one for one in words if one.form not in self._particles and one.shape != "i"]
        if len(names) > 1:
            # "Dolores Blanco": both are ordinary words too, and both are capitalised. Surnames may
            # be first, as in a list: "Ochoa Ibáñez Marta".
            is_name = any(one.is_clear() for one in names) and any(
                one.known == "given" and (one.is_clear() or one is first) for one in names
            )
            if is_name:
                return end
        is_given = first.shape == "u" and first.known == "given"
        is_alone = (first.shape == "t" or is_given) and first.is_clear()
        if is_alone and any(is_said(first) for is_said in (self._does, self._acts, self._suffers)):
            return place + 1
        if is_alone and first.known == "given" and words[-1].shape == "i":
            return end
        is_joined = first.is_clear() and first.form not in self._names and first.shape in "tu"
        return place + 1 if is_joined and "-" not in first.form else place

    def _does(self, word: Word) -> bool:
        """Whether a person's doing follows a name: "Candela refiere"."""
        return _form("does").match(self.folded, word.end) is not None

    def _acts(self, word: Word) -> bool:
        """Whether an English sentence begins with a given name: "Denise called the office"."""
        if self.language != "en" or word.known != "given":
            return False
        is_first = _form("sentence_start").search(self.text, max(word.start - 2, 0), word.start)
        return bool(is_first and _form("acts").match(self.folded, word.end))

    def _suffers(self, word: Word) -> bool:
        """Whether something happens to somebody: "A Candela le duele"."""
        before = self.folded[max(word.start - 4, 0) : word.start]
        return bool(
            _form("suffers").search(before) and _form("is_done").match(self.folded, word.end)
        )

    def _after_cue(self, place: int, is_title: bool) -> tuple[int, int] | None:
        word = self.word(place)
        while word.form in self._particles and self.joins(place + 1):
            if word.shape == "l" and not is_title:
                return None
            place += 1
            word = self.word(place)
        if word.form in word_list("particles") or _form("department").match(word.form):
            return None
        if word.shape == "i":
            # "Paciente J.E.R.", "Sra. M. Ochoa"
            initials = self._read_initials(word.start)
            if initials is not None and initials[1] - initials[0] > 2:
                return initials
            return self._after_cue(place + 1, is_title) if self.joins(place + 1) else None
        end = self.extend(place)
        is_name = word.is_clear() or bool(word.known and word.shape != "l")
        if not is_name and not word.is_ordinary:
            if is_title or self._is_spaced(word):
                is_name = word.shape != "l" or self._is_after_doctor(word)
                is_name = is_name and len(word.form) > 2
            else:
                following = range(place + 1, end)
                is_name = word.shape == "t" and any(self.word(one).known for one in following)
        if is_title and end == place + 1 and word.known == "given" and self._ends_name(end):
            end += 1
        return (word.start, self.places[end - 1][1]) if is_name else None

    def _ends_name(self, place: int) -> bool:
        """Whether a capitalised word after a title and a given name is a surname that is also an
        ordinary word: "Dr. Alan Wake."
        """
        if not self.joins(place) or self.word(place).shape != "t":
            return False
        word = self.word(place)
        is_end = re.compile(r"[.,;:)\n]|\Z").match(self.text, word.end)
        is_term = is_clinical_term(word.form) or _form("department").fullmatch(word.form)
        return is_end is not None and not is_term

    def _is_spaced(self, word: Word) -> bool:
        """Whether a word has spaces between its letters in the original: "M A R T A"."""
        start, end = self.plain.to_original(word.start, word.end)
        return end - start == 2 * (word.end - word.start) - 1

    def _is_after_doctor(self, word: Word) -> bool:
        """Whether a title of people is before a word in lower case: "dra. echeverria"."""
        title = self.folded[max(word.start - 6, 0) : word.start]
        return len(word.form) > 3 and bool(_form("doctor_before").search(title))

    def _read_initials(self, start: int) -> tuple[int, int] | None:
        """The place of initials, unless a value follows them, as after "F.N."."""
        match = _form("initials").match(self.text, start)
        if match is None or re.compile(r"\s*[\d:]").match(self.text, match.end()):
            return None
        return start, start + len(match[0].rstrip(" -"))

    def _in_commas(self) -> Iterator[tuple[int, int]]:
        """Surnames, a comma, and a given name or initials: "OCHOA, Marta", "Iglesias, C."."""
        for comma in re.finditer(r"(?<=[^\W\d_]), ?(?=[^\W\d_])", self.text):
            place = self.at.get(comma.end(), 0)
            before, word = self.word(place - 1), self.word(place)
            is_first = place == 0 or (before.is_ordinary and not self._is_after_de(place - 1))
            if is_first or (before.shape == "l" and not self._is_lower_list(place)):
                continue
            first = self._start_of_surnames(place - 1)
            start = self.places[first][0]
            # "Marta Ochoa, Ana Ruiz" are two people.
            is_list = first < place - 1 and self.word(first).form not in self._known.surnames
            if self._is_other(start) or (is_list and self.word(first).known):
                continue
            if before.known == "surname" and word.shape == "i":
                initials = self._read_initials(word.start)
                if initials is not None:
                    yield start, initials[1]
                continue
            # "RUIZ SOTO, Dolores." is nobody's pain.
            is_alone = before.is_clear() and _form("after_initial").match(self.text, word.end)
            is_given = word.known == "given" and not (word.is_ordinary and not is_alone)
            is_given = is_given and (word.shape in "tu" or before.shape == "l")
            is_long = len(before.form) > 4 or first < place - 1
            if is_given and (before.known == "surname" or is_long):
                yield start, self.places[self.extend(place) - 1][1]

    def _is_after_de(self, place: int) -> bool:
        """Whether a surname that is also an ordinary word has a particle: "DE LA FUENTE, ANA"."""
        word, before = self.word(place), self.word(max(place - 1, 0))
        return word.known == "surname" and before.form in self._particles and before.shape != "l"

    def _is_lower_list(self, place: int) -> bool:
        """Whether a known surname and a known given name begin a line: "cano, beatriz"."""
        before, word = self.word(place - 1), self.word(place)
        first = self.places[self._start_of_surnames(place - 1)][0]
        is_start = not self.text[:first].rstrip(" ") or self.text[first - 1] == "\n"
        return is_start and before.known == "surname" and word.known == "given"

    def _start_of_surnames(self, place: int) -> int:
        """The first of up to three surnames that end at a place."""
        last, first = self.word(place), place
        while first > max(place - 2, 0) and self.joins(first):
            word = self.word(first - 1)
            if word.shape != last.shape or word.is_ordinary and not word.known:
                break
            first -= 1
        return first

    def _in_segments(self) -> Iterator[tuple[int, int]]:
        for line in _form("segment").finditer(self.text):
            for match in _form("component").finditer(self.text, line.start(), line.end()):
                words = re.findall(r"\w+", self.folded[slice(*match.span())])
                is_known = any(map(self._known.is_name, words))
                if is_known or not self._known.ordinary.issuperset(words):
                    yield match.span()

    def _is_other(self, start: int) -> bool:
        """Whether a name belongs to an institution, an address or a term."""
        before = self.folded[max(start - 40, 0) : start]
        return _form("no_person").search(before) is not None or is_eponym(self.text, start)
