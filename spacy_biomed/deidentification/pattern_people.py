"""Names of people by where they stand: after a role or a verb, at the start of a note, beside
another name; and without what only looks like a name.
"""

from collections.abc import Iterator
from functools import partial

from .pattern_forms import find_form
from .pattern_names import NameFinder, Word
from .pattern_rules import Found, find_matches, read_rule
from .plain_text import LONGEST, PlainText
from .term_lists import LANGUAGES, is_clinical_term, name_words

_form = partial(find_form, "people")
# Words of a role and of brackets after it, and of a name before an age.
_MOST_WORDS = 4
# Names after one role.
_MOST_NAMES = 3


def find_people(plain: PlainText, language: str) -> Found:
    """Find names of people.

    These are the names of `NameFinder`, and:

    - Words after a role and a colon ("Surgeon: Rosenthal").
    - Names after a verb at the start of a sentence ("Saw Thaddeus Wexford").
    - A name that somebody is called by, and initials after "case of".
    - At the start of a line or a sentence, names before an age, a verb or a sign, and two words
      that are not ordinary with a comma between ("Okonkwo, Chidi.").
    - Names after a bed, and a given name that "and" joins to another name.

    Single words that are clinical terms ("Parkinson"), and names before a noun such as "sign", are
    left out unless a title is before them.
    """
    finder = _PeopleFinder(plain, language)
    names = _unite(plain.text, [*finder.find_names(), *finder.find_people()])
    for start, end in [*names, *finder.find_joined(names)]:
        if not finder.is_term(start, end):
            yield start, end, "name"


def _unite(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping spans of one line as one."""
    united: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if united and start < united[-1][1] and "\n" not in text[start:end]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((start, end))
    return united


class _PeopleFinder(NameFinder):
    def find_people(self) -> Iterator[tuple[int, int]]:
        """(start, end) of each name that stands where people do."""
        yield from self._after_roles()
        yield from self._after_verbs()
        yield from self._after_calls()
        for match in find_matches(read_rule("people", "case"), self.plain):
            yield match.start("value"), match.start("value") + len(match["value"].rstrip())
        yield from self._in_items()
        yield from self._at_starts() if self.language == "en" else self._before_ages()

    def find_joined(self, names: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Given names after a name and "and", and all names after a title of several people."""
        for start, end in names:
            if _form("several").search(self.folded, max(start - 12, 0), start):
                yield from self._colleagues(end)
            joined = _form("and").match(self.text, end)
            place = self.at.get(joined.end()) if joined else None
            if (
                place is not None
                and (word := self.word(place)).is_clear()
                and word.known == "given"
            ):
                yield word.start, self.places[self.extend(place) - 1][1]

    def _colleagues(self, end: int) -> Iterator[tuple[int, int]]:
        """Capitalised words after a name, each after a comma or "and"."""
        while following := _form("colleague").match(self.text, end):
            place = self.at.get(following.end())
            word = self.word(place) if place is not None else None
            if place is None or word is None or word.shape not in "tu":
                break
            if following[0] == ", " and not (word.known or self._is_unusual(word)):
                break
            end = self.places[self.extend(place) - 1][1]
            yield word.start, end

    def is_term(self, start: int, end: int) -> bool:
        """Whether what looks like a name is a clinical term."""
        name = self.folded[start:end].removesuffix("'s")
        if self.folded.startswith(" virus", end):
            return True
        if name.count(" ") > 1 or _form("title_before").search(
            self.folded, max(start - 8, 0), start
        ):
            return False
        is_known_term = is_clinical_term(name)
        if _form("noun").match(self.folded, end) and (is_known_term or " " not in name):
            return True
        return is_known_term and not _form("does").match(self.folded, end)

    def _is_unusual(self, word: Word) -> bool:
        """Whether a capitalised word is ordinary in no language and no clinical term."""
        return (
            word.shape in "tu"
            and len(word.form) > 1
            and not word.is_ordinary
            and not is_clinical_term(word.form)
            and not _form("department").fullmatch(word.form)
            and (
                bool(word.known)
                or not any(word.form in name_words(one).ordinary for one in LANGUAGES)
            )
        )

    def _is_substance(self, word: Word) -> bool:
        return not word.known and _form("substance").search(word.form) is not None

    def _read_words(self, place: int, most: int = 5) -> list[Word]:
        """The capitalised words from a place on that no ordinary word is among, with initials."""
        words: list[Word] = []
        while place < len(self.places) and len(words) < most:
            word = self.word(place)
            is_initial = word.shape == "i" and bool(words)
            if not (self._is_unusual(word) or is_initial) or (words and not self.joins(place)):
                break
            words.append(word)
            place += 1
        return words

    def _after_roles(self) -> Iterator[tuple[int, int]]:
        for colon in _form("colon").finditer(self.text):
            place = self.at.get(colon.end()) if self._is_role(colon.end()) else None
            for _ in range(_MOST_NAMES):
                if place is None:
                    break
                word = self.word(place)
                is_name = word.shape in "tu" and len(word.form) > 2 and not self._is_substance(word)
                is_free = (
                    bool(word.known) and _form("end_of_call").match(self.text, word.end) is not None
                )
                if not is_name or (word.is_ordinary and not is_free):
                    break
                end = self.places[self.extend(place) - 1][1]
                yield word.start, end
                following = _form("colleague").match(self.text, end)
                place = self.at.get(following.end()) if following else None
                if place is not None and not self.word(place).is_clear():
                    break

    def _is_role(self, end: int) -> bool:
        """Whether one to three words before a colon, of which this is the end, are a role."""
        place, role = self.at[end], read_rule("people", "role")
        for start, _ in self.places[max(place - _MOST_WORDS, 0) : place]:
            if self.folded[start : start + LONGEST] in role.prefixes:
                match = role.form.match(self.folded, start)
                if match is not None and match.end() == end:
                    return True
        return False

    def _after_verbs(self) -> Iterator[tuple[int, int]]:
        for match in find_matches(read_rule("people", "to_somebody"), self.plain):
            start = match.start()
            is_first = _form("sentence_start").search(self.text, max(start - 2, 0), start)
            place = self.at.get(match.end()) if start == 0 or is_first else None
            words = self._read_words(place) if place is not None else []
            names = [word for word in words if word.shape != "i"]
            is_one = len(names) == 1 and names[0].known == "given" and names[0].shape == "t"
            if is_one or (len(names) > 1 and not any(map(self._is_substance, names))):
                yield words[0].start, words[-1].end

    def _after_calls(self) -> Iterator[tuple[int, int]]:
        for match in find_matches(read_rule("people", "calls"), self.plain):
            place = self.at.get(match.end())
            word = self.word(place) if place is not None else None
            if word is None or word.shape != "t":
                continue
            is_end = (
                _form("end_of_call").match(self.text, word.end)
                or self.text[word.end : word.end + 2] == " ("
            )
            if is_end and not is_clinical_term(word.form):
                yield word.start, word.end

    def _in_items(self) -> Iterator[tuple[int, int]]:
        for match in _form("item").finditer(self.text):
            place = self.at.get(match.end())
            words = self._read_words(place) if place is not None else []
            if not words or not _form("after_item").match(self.text, words[-1].end):
                continue
            is_known = any(word.is_clear() for word in words)
            if is_known or (match["bed"] and not any(map(self._is_substance, words))):
                yield words[0].start, words[-1].end

    def _at_starts(self) -> Iterator[tuple[int, int]]:
        for match in _form("start").finditer(self.text):
            place = self.at.get(match.end())
            words = self._read_words(place) if place is not None else []
            names = [word for word in words if word.shape != "i"]
            if not names or any(map(self._is_substance, names)):
                continue
            end = words[-1].end
            if self.text[end : end + 2] == ", " and (inverted := self._after_comma(end + 2, names)):
                yield words[0].start, inverted
            elif self._is_person(names, end):
                yield words[0].start, end

    def _before_ages(self) -> Iterator[tuple[int, int]]:
        """A given name with the names after it, ordinary ones too: "rocío fuentes, 45 años"."""
        ages = list(_form("aged").finditer(self.folded))
        ends = {end: place for place, (_, end) in enumerate(self.places)} if ages else {}
        for age in ages:
            place = ends.get(age.start())
            words: list[Word] = []
            while place is not None and len(words) < _MOST_WORDS:
                word = self.word(place)
                if not word.known and word.form not in self._particles:
                    break
                words.insert(0, word)
                place = place - 1 if self.joins(place) else None
            while words and words[0].known != "given":
                del words[0]
            if not words:
                continue
            is_first = _form("sentence_start").search(
                self.text, max(words[0].start - 2, 0), words[0].start
            )
            is_many = len(words) > 1 or (words[0].shape != "l" and "(" in age[0])
            if any(word.is_clear() for word in words) or (is_first and is_many):
                yield words[0].start, words[-1].end

    def _is_person(self, names: list[Word], end: int) -> bool:
        """Whether what follows capitalised words is said of people, or ends a heading."""
        place = self.at.get(end + 2) if self.text.startswith(", ", end) else None
        is_followed = place is not None and _form("department").fullmatch(self.word(place).form)
        if is_followed and names[0].is_clear():
            return True
        if len(names) == 1:
            return False
        if _form("age").match(self.text, end) or _form("does").match(self.folded, end):
            return True
        if _form("acts").match(self.folded, end):
            return True
        return any(one.is_clear() for one in names) and bool(
            _form("after_start").match(self.text, end)
        )

    def _after_comma(self, start: int, before: list[Word]) -> int | None:
        """The end of the given name after a surname and a comma."""
        place = self.at.get(start)
        words = self._read_words(place, 3) if place is not None else []
        if not words or len(before) > 2 or any(map(self._is_substance, words)):
            return None
        is_same = words[0].shape == before[0].shape or words[0].shape == "t"
        end = words[-1].end
        is_known = words[0].known == "given" or before[0].known == "surname"
        is_end = _form("after_inverted").match(self.text, end) is not None
        return end if is_same and (is_end or is_known) else None
