"""Patterns of people's names: known names beside each other, after a title or the name of a field,
and in segments of HL7.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from .pattern_forms import find_form, is_eponym
from .pattern_rules import find_matches, read_rule
from .plain_text import PlainText
from .term_lists import is_clinical_term, is_ordinary, name_words, place_words, word_list, write_out

_form = partial(find_form, "people")
_MAX_PARTICLES = 3
# Longer names are lists of people.
_MAX_WORDS = 7


class Word(NamedTuple):
    """A word of a text: its place, its folded form, and what is known about it."""

    start: int
    end: int
    form: str
    shape: str  # "l" for lower case, "u" for capitals, "t" for a capital first, "i" for an initial
    known: str  # "given", "surname" or "" for a name that is known
    is_ordinary: bool  # whether it is also, or only, a word of clinical texts

    def is_clear(self) -> bool:
        return bool(self.known) and not self.is_ordinary

    def is_abbreviated(self) -> bool:
        return self.is_clear() and write_out(self.form) != self.form and self.shape != "l"


class TextWords:
    """The words of a plain text, each by its place among them, and how they make up names.

    `places` are (start, end) in the text, `at` the place of the word that starts at an offset.
    """

    def __init__(self, plain: PlainText, language: str):
        self.plain, self.language = plain, language
        self.text, self.folded = plain.text, plain.folded
        self.known, self.particles = name_words(language), word_list("name_particles")
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
        known = "given" if self.known.is_joined_name(form) else ""
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
        first, second = self.word(place - 1), self.word(place)
        # "M. Ochoa", "Hdez. Cruz"
        if first.shape == "i" or first.is_abbreviated() or "-" in gap:
            return True
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
            for _ in range(_MAX_PARTICLES):
                if self.word(last).form in self.particles and self.joins(last + 1):
                    last += 1
            if not self._continues(last, first):
                break
            end = last + 1
        return end

    def name_end(self, place: int) -> int:
        """The offset where the name that begins with a word ends."""
        return self.places[self.extend(place) - 1][1]


def find_names(source: TextWords) -> Iterator[tuple[int, int]]:
    """(start, end) of each name in the lists of names; some may overlap.

    Where capitals tell nothing, all words of a name have to be known. Names after a field or a
    person ("Nombre:", "su hija", also in JSON and XML) have to be known, those after a title not.
    """
    for cue in ("title", "field"):
        for match in find_matches(read_rule("people", cue), source.plain):
            place = source.at.get(match.end())
            if place is None or is_eponym(source.text, match.start()):
                continue
            if found := _after_cue(source, place, cue == "title"):
                yield found
    yield from _in_runs(source)
    yield from _in_commas(source)
    yield from _at_line_starts(source)
    yield from _in_nicknames(source)
    if "^" in source.text:
        yield from _in_segments(source)


def _in_runs(source: TextWords) -> Iterator[tuple[int, int]]:
    """A known given name with the names after it, and a name before what a person does."""
    done = 0
    for place, (start, end) in enumerate(source.places):
        if place < done or source.folded[start:end] in source.particles:
            continue
        if source.word(place).known:
            first, done = place, _end_of_run(source, place)
            if done == place and _is_after_initial(source, place):
                first, done = place - 1, place + 1
            elif done > place:
                first = _find_start(source, place)
                # A capitalised word before what a person does is part of the name.
                if source.joins(done) and source.word(done - 1).shape == "t":
                    last = source.word(done)
                    done += last.shape == "t" and source.does(last.end)
            if done > place and not _is_other(source, start):
                yield source.places[first][0], source.places[done - 1][1]


def _find_start(source: TextWords, place: int) -> int:
    """The first of capitalised words from the start of a line to a name: "MONZONÍS ELVIRA"."""
    first, shape = place, source.word(place).shape
    while first > max(place - _MAX_PARTICLES, 0) and source.joins(first) and shape != "l":
        word = source.word(first - 1)
        if word.shape != shape or is_ordinary(word.form) or len(word.form) < _MAX_PARTICLES:
            break
        first -= 1
    start = source.places[first][0]
    while start > 0 and source.text[start - 1] in " >*•#_-":
        start -= 1
    return first if start == 0 or source.text[start - 1] == "\n" else place


def _is_after_initial(source: TextWords, place: int) -> bool:
    """Whether a surname has an initial before it: "B. Cano"."""
    word = source.word(place)
    is_surname = word.known == "surname" and word.is_clear() and word.shape != "l"
    # "1 L Hartmann"
    first = source.places[place - 1][0]
    is_surname = is_surname and not source.text[max(first - 2, 0) : first].strip().isdigit()
    return is_surname and source.joins(place) and source.word(place - 1).shape == "i"


def _at_line_starts(source: TextWords) -> Iterator[tuple[int, int]]:
    """Capitalised words, none of them ordinary, before what a person does; known names alone on
    a line, before a colon, or before an initial.
    """
    for line in _form("line").finditer(source.text):
        first = place = source.at.get(line.end(), len(source.places))
        while place < len(source.places) and place < first + _MAX_WORDS:
            word = source.word(place)
            is_initial = word.shape == "i" and source.text[word.end : word.end + 1] == "."
            # "elvira monzonis acude"
            is_lower = source.word(first).shape == "l" and source.word(first).known == "given"
            # "Pérez de la Oliva"
            is_after_particle = place > first and source.word(place - 1).form in source.particles
            is_ordinary = word.is_ordinary and not is_after_particle
            is_name = (word.shape in "tu" or is_lower) and not is_ordinary
            is_part = word.form in source.particles or is_name or is_initial
            if not is_part or (place > first and not source.joins(place)):
                break
            place += 1
        words = source.words(first, place)
        names = [one for one in words if one.form not in source.particles]
        is_row = bool(line["row"]) and len(names) > 1
        if names and (
            _stands_for_person(source, names, words[-1].end)
            or (is_row and _form("after_row").match(source.text, words[-1].end))
        ):
            yield words[0].start, words[-1].end


def _stands_for_person(source: TextWords, names: list[Word], end: int) -> bool:
    text = source.text
    known = [one for one in names if one.known]
    if len(names) > 1 and source.does(end):
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


def _in_nicknames(source: TextWords) -> Iterator[tuple[int, int]]:
    """A given name in quotes or brackets after a name, and with that name and the next."""
    for match in _form("nickname").finditer(source.text):
        place = bisect_left(source.places, match.span("name"))
        inner = source.word(place)
        before = source.word(max(place - 1, 0))
        is_after = before.end == match.start() - 1 and before.is_clear() and before.shape in "tu"
        is_alone = match.start() == 0 or source.text[match.start() - 1] == "\n"
        following = source.word_at(match.end() + 1)
        is_quoted = match[0][0] in '"“«'
        is_given = inner.known == "given" or is_quoted
        if is_after and is_given and following and following.is_clear():
            yield before.start, following.end
        elif (is_after and is_quoted and inner.shape == "t") or (
            (is_after or is_alone) and inner.known == "given" and inner.is_clear()
        ):
            yield match.span("name")


def _end_of_run(source: TextWords, place: int) -> int:
    """The end of the name that begins at a place; the place itself if there is no name."""
    first, end = source.word(place), source.extend(place)
    words = source.words(place, end)
    names = [one for one in words if one.form not in source.particles and one.shape != "i"]
    # "Dolores Blanco" are ordinary words too. Surnames may be first: "Ochoa Ibáñez Marta".
    is_given = any(one.known == "given" and (one.is_clear() or one is first) for one in names)
    if len(names) > 1 and is_given and any(one.is_clear() for one in names):
        return end
    if first.is_abbreviated() and source.text.startswith(".", first.end):
        return end
    is_capital = first.shape == "u" and first.known == "given"
    is_alone = (first.shape == "t" or is_capital) and first.is_clear()
    if is_alone and first.known == "given" and words[-1].shape == "i":
        return end
    if is_alone and (_acts_or_suffers(source, first) or _is_given_alone(source, first)):
        return place + 1
    is_joined = first.is_clear() and first.shape in "tu" and not source.known.is_name(first.form)
    return place + 1 if is_joined and "-" not in first.form else place


def _acts_or_suffers(source: TextWords, word: Word) -> bool:
    """Whether a name does something, or something happens to it: "A Candela le duele"."""
    if source.does(word.end):
        return True
    # "Denise called the office"
    is_english = source.language == "en" and word.known == "given"
    acts = is_english and _form("acts").match(source.folded, word.end)
    if acts and source.begins_sentence(word.start):
        return True
    before = source.folded[max(word.start - 4, 0) : word.start]
    return bool(_form("suffers").search(before) and _form("is_done").match(source.folded, word.end))


def _is_given_alone(source: TextWords, word: Word) -> bool:
    """Whether a word is a given name with a capital, and neither a product nor a part of a term."""
    is_place = word.form in place_words(source.language).names
    if word.form not in source.known.given or is_place or word.shape != "t" or len(word.form) < 3:
        return False
    is_product = _form("after_product").match(source.text, word.end)
    before = source.folded[max(word.start - 40, 0) : word.start]
    return not (is_product or _form("before_product").search(before) or is_clinical_term(word.form))


def _after_cue(source: TextWords, place: int, is_title: bool) -> tuple[int, int] | None:
    word = source.word(place)
    while word.form in source.particles and source.joins(place + 1):
        if word.shape == "l" and not is_title:
            return None
        place += 1
        word = source.word(place)
    if word.form in word_list("particles") or _form("department").match(word.form):
        return None
    if word.shape == "i":
        # "Paciente J.E.R.", "Sra. M. Ochoa"
        initials = _read_initials(source, word.start)
        if initials is not None and initials[1] - initials[0] > 2:
            return initials
        return _after_cue(source, place + 1, is_title) if source.joins(place + 1) else None
    end = source.extend(place)
    is_name = word.is_clear() or bool(word.known and word.shape != "l")
    if not is_name and not word.is_ordinary:
        if is_title or _is_spaced(source, word):
            # "dra. echeverria"
            title = source.folded[max(word.start - 6, 0) : word.start]
            is_after_doctor = len(word.form) > 3 and _form("doctor_before").search(title)
            is_short = len(word.form) < 3 and word.shape != "t"
            is_name = not is_short and (word.shape != "l" or bool(is_after_doctor))
        else:
            following = source.words(place + 1, end)
            # "Mum (Shaz)", "son Vinny"
            is_kin = _form("kin_before").search(source.folded, max(word.start - 16, 0), word.start)
            is_named = is_kin or any(one.known for one in following)
            is_named = is_named if word.shape == "t" else word.shape == "u" and len(following) == 1
            is_name = bool(is_named) and not is_clinical_term(word.form)
    if is_name and not is_title and _follows_comma(source, end, word):
        end = source.extend(end)
    if is_title and end == place + 1 and word.known == "given" and _ends_name(source, end):
        end += 1
    return (word.start, source.places[end - 1][1]) if is_name else None


def _follows_comma(source: TextWords, place: int, surname: Word) -> bool:
    """Whether a word is a given name after a comma: "NAME: TORRES-VEGA, LUZ"."""
    word = source.word(min(place, len(source.places) - 1))
    is_other = word.is_ordinary or is_clinical_term(word.form) or word.shape in "li"
    is_after = source.text[source.places[place - 1][1] : word.start] in (",", ", ")
    is_same = word.shape == surname.shape and word.start > surname.end
    return is_after and is_same and not (is_other or _form("department").fullmatch(word.form))


def _ends_name(source: TextWords, place: int) -> bool:
    """Whether a capitalised word after a title and a given name is a surname that is also an
    ordinary word: "Dr. Alan Wake."
    """
    if not source.joins(place) or source.word(place).shape != "t":
        return False
    word = source.word(place)
    is_end = re.compile(r"[.,;:)\n]|\Z").match(source.text, word.end)
    is_term = is_clinical_term(word.form) or _form("department").fullmatch(word.form)
    return is_end is not None and not is_term


def _is_spaced(source: TextWords, word: Word) -> bool:
    """Whether a word has spaces between its letters in the original: "M A R T A"."""
    start, end = source.plain.to_original(word.start, word.end)
    return end - start == 2 * (word.end - word.start) - 1


def _read_initials(source: TextWords, start: int) -> tuple[int, int] | None:
    """The place of initials, unless a value follows them, as after "F.N."."""
    match = _form("initials").match(source.text, start)
    if match is None or re.compile(r"\s*[\d:]").match(source.text, match.end()):
        return None
    return start, start + len(match[0].rstrip(" -"))


def _in_commas(source: TextWords) -> Iterator[tuple[int, int]]:
    """Surnames, a comma, and a given name or initials: "OCHOA, Marta", "Iglesias, C."."""
    for comma in re.finditer(r"(?<=[^\W\d_]), ?(?=[^\W\d_])", source.text):
        place = source.at.get(comma.end(), 0)
        if place == 0:
            continue
        before, word = source.word(place - 1), source.word(place)
        is_surname = before.known == "surname"
        # "DE LA FUENTE, ANA": a surname that is also an ordinary word has a particle.
        particle = source.word(max(place - 2, 0))
        is_after_de = is_surname and particle.form in source.particles and particle.shape != "l"
        if before.is_ordinary and not is_after_de:
            continue
        # "Guillain-Barré, Addison's"
        if is_clinical_term(word.form) and source.text.startswith("'s", word.end):
            continue
        first = _start_of_surnames(source, place - 1)
        start = source.places[first][0]
        # "cano, beatriz" are a name if they begin a line.
        is_pair = is_surname and word.known == "given"
        if before.shape == "l" and not (
            is_pair and (source.text[start - 1] == "\n" or not source.text[:start].strip(" "))
        ):
            continue
        # "Marta Ochoa, Ana Ruiz" are two people.
        is_list = first < place - 1 and source.word(first).form not in source.known.surnames
        if _is_other(source, start) or (is_list and source.word(first).known):
            continue
        if is_surname and word.shape == "i":
            if initials := _read_initials(source, word.start):
                yield start, initials[1]
            continue
        # "RUIZ SOTO, Dolores." is nobody's pain.
        is_alone = before.is_clear() and _form("after_initial").match(source.text, word.end)
        is_given = word.known == "given" and not (word.is_ordinary and not is_alone)
        is_given = is_given and (word.shape in "tu" or before.shape == "l")
        is_long = len(before.form) > 4 or first < place - 1
        if is_given and (is_surname or is_long):
            yield start, source.name_end(place)


def _start_of_surnames(source: TextWords, place: int) -> int:
    """The first of up to three surnames that end at a place."""
    last, first = source.word(place), place
    while first > max(place - 2, 0) and source.joins(first):
        word = source.word(first - 1)
        if word.shape != last.shape or word.is_ordinary and not word.known:
            break
        first -= 1
    return first


def _in_segments(source: TextWords) -> Iterator[tuple[int, int]]:
    for line in _form("segment").finditer(source.text):
        for match in _form("component").finditer(source.text, line.start(), line.end()):
            words = re.findall(r"\w+", source.folded[slice(*match.span())])
            is_known = any(map(source.known.is_name, words))
            if is_known or not source.known.ordinary.issuperset(words):
                yield match.span()


def _is_other(source: TextWords, start: int) -> bool:
    """Whether a name belongs to an institution, an address or a term."""
    before = source.folded[max(start - 40, 0) : start]
    return _form("no_person").search(before) is not None or is_eponym(source.text, start)
