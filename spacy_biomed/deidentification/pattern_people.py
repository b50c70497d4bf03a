"""Names of people by where they stand: after a role or a verb, at the start of a note, beside
another name; and without what only looks like a name.
"""

from collections.abc import Iterator
from functools import partial

from .pattern_forms import find_form
from .pattern_names import TextWords, Word, find_names
from .pattern_rules import Found, apply_table, find_matches, read_rule
from .plain_text import LONGEST, PlainText
from .term_lists import is_clinical_term, is_ordinary

_form = partial(find_form, "people")
# Words of a role and of brackets after it, and of a name before an age.
_MOST_WORDS = 4
# Names after one role.
_MOST_NAMES = 3


def find_people(plain: PlainText, language: str) -> Found:
    """Find names of people.

    These are the names of `pattern_names.find_names`, and:

    - Words after a role ("Surgeon: Rosenthal", "nurse Tamsin") or before a department.
    - Names after a verb at the start of a sentence ("Saw Thaddeus Wexford").
    - A name that somebody is called by, and initials after "case of".
    - At the start of a line or a sentence, names before an age, a verb or a sign, and two words
      that are not ordinary with a comma between ("Okonkwo, Chidi.").
    - Names after a bed, and a given name that "and" joins to another name.

    Single words that are clinical terms ("Parkinson"), and names before a noun such as "sign", are
    left out unless a title is before them.
    """
    source = TextWords(plain, language)
    at_starts = _at_starts if language == "en" else _before_ages
    finders = find_names, _after_roles, _at_work, _after_verbs, _after_calls, _in_cases, _in_items
    spans = [span for find in (*finders, at_starts) for span in find(source)]
    spans += [(start, end) for start, end, _ in apply_table("people", plain, language)]
    names = _unite(plain.text, spans)
    for start, end in [*names, *_find_joined(source, names)]:
        if not _is_term(source, start, end):
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


def _find_joined(source: TextWords, names: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Given names after a name and "and", and all names after a title of several people."""
    for start, end in names:
        if _form("several").search(source.folded, max(start - 12, 0), start):
            yield from _colleagues(source, end)
        joined = _form("and").match(source.text, end)
        word = source.word_at(joined.end()) if joined else None
        if word and word.is_clear() and word.known == "given":
            yield word.start, source.name_end(source.at[word.start])


def _colleagues(source: TextWords, end: int) -> Iterator[tuple[int, int]]:
    """Capitalised words after a name, each after a comma or "and"."""
    while following := _form("colleague").match(source.text, end):
        word = source.word_at(following.end())
        if word is None or word.shape not in "tu":
            break
        if following[0] == ", " and not (word.known or _is_unusual(word)):
            break
        end = source.name_end(source.at[word.start])
        yield word.start, end


def _is_term(source: TextWords, start: int, end: int) -> bool:
    """Whether what looks like a name is a clinical term."""
    name = source.folded[start:end].removesuffix("'s")
    if source.folded.startswith(" virus", end):
        return True
    if name.count(" ") > 1 or (start in source.at and _is_role(source, start)):
        return False
    if _form("title_before").search(source.folded, max(start - 12, 0), start):
        return False
    is_known_term = is_clinical_term(name)
    if _form("noun").match(source.folded, end) and (is_known_term or " " not in name):
        return True
    return is_known_term and not source.does(end)


def _is_unusual(word: Word) -> bool:
    """Whether a capitalised word is ordinary in no language and no clinical term."""
    return (
        word.shape in "tu"
        and len(word.form) > 1
        and not word.is_ordinary
        and not is_clinical_term(word.form)
        and not _form("department").fullmatch(word.form)
        and (bool(word.known) or not is_ordinary(word.form))
    )


def _is_substance(word: Word) -> bool:
    return not word.known and _form("substance").search(word.form) is not None


def _read_words(source: TextWords, offset: int, most: int = 5) -> list[Word]:
    """The capitalised words from an offset on that no ordinary word is among, with initials."""
    words: list[Word] = []
    first = source.at.get(offset, len(source.places))
    for place in range(first, min(first + most, len(source.places))):
        word = source.word(place)
        is_initial = word.shape == "i" and bool(words)
        if not (_is_unusual(word) or is_initial) or (words and not source.joins(place)):
            break
        words.append(word)
    return words


def _after_roles(source: TextWords) -> Iterator[tuple[int, int]]:
    for colon in _form("colon").finditer(source.text):
        place = source.at.get(colon.end()) if _is_role(source, colon.end()) else None
        for _ in range(_MOST_NAMES):
            if place is None:
                break
            place += source.word(place).shape == "i" and source.joins(place + 1)
            word = source.word(place)
            if word.shape == "l" or len(word.form) < 3 or _is_substance(word):
                break
            is_alone = _form("end_of_call").match(source.text, word.end) is not None
            if word.is_ordinary and not (word.known and is_alone):
                break
            end = source.name_end(place)
            yield word.start, end
            following = _form("colleague").match(source.text, end)
            place = source.at.get(following.end()) if following else None
            if place is not None and not source.word(place).is_clear():
                break


def _is_role(source: TextWords, end: int) -> bool:
    """Whether one to three words before a colon, of which this is the end, are a role."""
    place, role = source.at[end], read_rule("people", "role")
    for start, _ in source.places[max(place - _MOST_WORDS, 0) : place]:
        if source.folded[start : start + LONGEST] in role.prefixes:
            match = role.form.match(source.folded, start)
            if match is not None and match.end() == end:
                return True
    return False


def _after_verbs(source: TextWords) -> Iterator[tuple[int, int]]:
    for match in find_matches(read_rule("people", "to_somebody"), source.plain):
        if not source.begins_sentence(match.start()):
            continue
        words = _read_words(source, match.end())
        names = [word for word in words if word.shape != "i"]
        is_one = len(names) == 1 and names[0].known == "given" and names[0].shape == "t"
        if is_one or (len(names) > 1 and not any(map(_is_substance, names))):
            yield words[0].start, words[-1].end


def _at_work(source: TextWords) -> Iterator[tuple[int, int]]:
    for name in ("worker", "of_department"):
        for match in find_matches(read_rule("people", name), source.plain):
            words = _read_words(source, match.end())
            if words and words[0].shape == "t" and not any(map(_is_substance, words)):
                yield words[0].start, words[-1].end
                yield from _colleagues(source, words[-1].end)


def _after_calls(source: TextWords) -> Iterator[tuple[int, int]]:
    for match in find_matches(read_rule("people", "calls"), source.plain):
        word = source.word_at(match.end())
        if word is None or word.shape != "t" or is_clinical_term(word.form):
            continue
        is_before_bracket = source.text.startswith(" (", word.end)
        if is_before_bracket or _form("end_of_call").match(source.text, word.end):
            yield word.start, word.end


def _in_cases(source: TextWords) -> Iterator[tuple[int, int]]:
    for match in find_matches(read_rule("people", "case"), source.plain):
        group = "value" if match["value"] else "typed"
        yield match.start(group), match.start(group) + len(match[group].rstrip())


def _in_items(source: TextWords) -> Iterator[tuple[int, int]]:
    for match in _form("item").finditer(source.text):
        words = _read_words(source, match.end())
        if not words or not _form("after_item").match(source.text, words[-1].end):
            continue
        is_known = any(word.is_clear() for word in words)
        if is_known or (match["bed"] and not any(map(_is_substance, words))):
            yield words[0].start, words[-1].end


def _at_starts(source: TextWords) -> Iterator[tuple[int, int]]:
    for match in _form("start").finditer(source.text):
        words = _read_words(source, match.end())
        names = [word for word in words if word.shape != "i"]
        if not names or any(map(_is_substance, names)):
            continue
        end = words[-1].end
        is_inverted = source.text.startswith(", ", end)
        if is_inverted and (inverted := _after_comma(source, end + 2, names)):
            yield words[0].start, inverted
        elif _is_person(source, names, end):
            yield words[0].start, end


def _before_ages(source: TextWords) -> Iterator[tuple[int, int]]:
    """A given name with the names after it, ordinary ones too: "rocío fuentes, 45 años"."""
    ages = list(_form("aged").finditer(source.folded))
    ends = {end: place for place, (_, end) in enumerate(source.places)} if ages else {}
    for age in ages:
        place = ends.get(age.start())
        words: list[Word] = []
        while place is not None and len(words) < _MOST_WORDS:
            word = source.word(place)
            if not word.known and word.form not in source.particles:
                break
            words.insert(0, word)
            place = place - 1 if source.joins(place) else None
        while words and words[0].known != "given":
            del words[0]
        if not words:
            continue
        is_many = len(words) > 1 or (words[0].shape != "l" and "(" in age[0])
        is_first = is_many and source.begins_sentence(words[0].start)
        if is_first or any(word.is_clear() for word in words):
            yield words[0].start, words[-1].end


def _is_person(source: TextWords, names: list[Word], end: int) -> bool:
    """Whether what follows capitalised words is said of people, or ends a heading."""
    following = source.word_at(end + 2) if source.text.startswith(", ", end) else None
    if following and names[0].is_clear() and _form("department").fullmatch(following.form):
        return True
    if len(names) == 1:
        return False
    if source.does(end) or _form("acts").match(source.folded, end):
        return True
    is_clear = any(one.is_clear() for one in names)
    return bool(
        _form("age").match(source.text, end)
        or (is_clear and _form("after_start").match(source.text, end))
    )


def _after_comma(source: TextWords, start: int, before: list[Word]) -> int | None:
    """The end of the given name after a surname and a comma."""
    words = _read_words(source, start, 3)
    if not words or len(before) > 2 or any(map(_is_substance, words)):
        return None
    is_same = words[0].shape == before[0].shape or words[0].shape == "t"
    end = words[-1].end
    is_known = words[0].known == "given" or before[0].known == "surname"
    is_end = _form("after_inverted").match(source.text, end) is not None
    return end if is_same and (is_end or is_known) else None
