"""Mentions of personal data in a plain text: their borders, and where else they occur."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from .pattern_finders import is_unnamed
from .pattern_forms import find_form, is_eponym, is_other_number
from .plain_text import PlainText, fold
from .surrogate_dates import TIME
from .term_lists import is_clear_name, is_clinical_term, is_name, name_words, word_list

# Kinds whose mentions have capitalised words and initials beside them.
EXTENDED = frozenset({"name", "place", "institution"})
# Kinds of which two mentions with only particles between them are one ("3 años y 8 meses").
BRIDGED = ("age", "place", "institution", "profession", "other")
# Kinds whose mentions must have digits.
NUMBERS = ("id", "phone")
_form = partial(find_form, "mentions")
# Characters that are looked at before a mention, and that may join it after it: time is bounded.
_FARTHEST, _LONGEST_JOINED = 40, 100
_WORD = re.compile(r"[^\W\d_]+")

# Shorter names and numbers would match in too many places; those of two or three letters have to be
# known.
_SHORTEST, _SHORTEST_KNOWN, _FEWEST_DIGITS = 4, 2, 5
# Names of at least this length are found within words too, as in "jecheverria".
_SHORTEST_WITHIN = 6
_BETWEEN_DIGITS = " .-/"
_SIGNS = " \"'<>{}[]|=:;,*^~\\"


class Mention(NamedTuple):
    """A span of text to replace, in characters, end exclusive."""

    start: int
    end: int
    label: str


Kind = Callable[[str], str]


def refine(
    plain: PlainText, mentions: Iterable[Mention], kind: Kind, language: str
) -> list[Mention]:
    """Mentions without what is not personal: line ends, words of clinical texts around a name.

    Left out are mentions without a letter or digit, and what `_is_harmless` knows.
    """
    refined = []
    for mention in mentions:
        what = kind(mention.label)
        for start, end in _split_lines(plain.text, mention, what):
            if what == "name":
                trimmed = _trim_name(plain, start, end, language)
                if trimmed is None or is_term(plain.text, start, end):
                    continue
                for place in ((start, trimmed[0]), (trimmed[1], end)):
                    codes = _form("code").finditer(plain.text, *place)
                    refined += [Mention(*code.span(), mention.label) for code in codes]
                start, end = trimmed
            elif what == "date":
                minutes = 3 if plain.text[end : end + 1] == ":" else 0
                added = TIME.search(plain.text, start, end + minutes)
                # "el 3 de mayo [12 mg]"
                added = added or _form("dose").search(plain.text, start, end + 5)
                if added and start < added.start() < end:
                    end = added.start()
            value = plain.text[start:end]
            start += len(value) - len(value.lstrip(_SIGNS))
            one = Mention(start, start + len(value.strip(_SIGNS)), mention.label)
            if not _is_harmless(plain.text, one, what, language):
                refined.append(one)
    return refined


def _split_lines(text: str, mention: Mention, kind: str) -> Iterator[tuple[int, int]]:
    """The parts of a mention on each of its lines; of a number only those with digits.

    A word of numbers with commas between is a row of CSV: "1971-02-03,7781234".
    """
    value = text[mention.start : mention.end]
    is_row = kind in (*NUMBERS, "date") and "," in value and " " not in value
    if "\n" not in value and not is_row:
        yield mention.start, mention.end
        return
    for line in re.finditer(r"[^\n,]+" if is_row else r"[^\n]+", value):
        start = mention.start + line.start()
        is_field = text[mention.start + line.end() :].lstrip(" ")[:1] == ":" and line.start() > 0
        if not (is_field or ((is_row or kind in NUMBERS) and not re.search(r"\d", line[0]))):
            yield start, start + len(line[0].rstrip())


def _is_harmless(text: str, mention: Mention, kind: str, language: str) -> bool:
    """Whether it is the number of a paper, a place in a term, no relative, or the like."""
    value = text[mention.start : mention.end]
    if not any(map(str.isalnum, value)):
        return True
    is_number = not any(map(str.isalpha, value))
    before = fold(text[max(mention.start - _FARTHEST, 0) : mention.start])
    is_short = is_number and kind == "date" and not re.search(r"\d{4}|\b0\d\D\d+\D|\D0\d\D", value)
    if is_short and _form("score").search(before):
        return True
    if kind in (*NUMBERS, "date") and _is_in_citation(text, mention):
        return True
    # "CEA 1998": a year alone after the name of a laboratory value, or before a unit.
    if kind == "date" and re.fullmatch(r"\d{4}", value):
        is_value = is_other_number(text, mention.start) and not _form("disease").search(before)
        return is_value or _form("unit_after").match(text, mention.end) is not None
    if kind == "id" and (_is_dosage(before, value) or _form("public_code").fullmatch(value)):
        return True
    if kind == "phone" and len(value) < 3 and value.isalpha():
        return True
    if kind in NUMBERS or (is_number and kind in ("age", "place")):
        # "12:30-14:00" has the middle of two times.
        is_in_time = text[mention.end : mention.end + 1] == before[-1:] == ":"
        is_own = "@" in value or find_form("identifiers", "own_number").fullmatch(value)
        return (is_other_number(text, mention.start) and not is_own) or is_in_time
    is_words = kind in EXTENDED or "PROFESION" in mention.label
    if is_words and is_term(text, mention.start, mention.end):
        return True
    # "Enalapril [Ratiopharm] 20 mg"
    if kind in EXTENDED and _form("before_dose").match(text, mention.end):
        is_somebody = any(map(is_clear_name, _WORD.findall(fold(value))))
        return not (is_somebody or _follows_title(text, mention.start))
    if kind == "place" or (kind == "name" and not is_name(fold(value))):
        return is_eponym(text, mention.start) and " " not in value
    if kind == "institution":
        # "Cuerpos de Lewy", "ángulo de [Treitz]"
        last = mention.start + value.rfind(" ") + 1
        is_part = is_eponym(value, last - mention.start) or is_eponym(text, mention.start)
        is_term_of = is_eponym(text, last) and (is_part or last == mention.start)
        return is_unnamed(value, language) or is_term_of
    if len(value) == 1 and kind == "other" and value.isalpha():
        return not _form("before_sex").search(before)
    if "SEXO" in mention.label and " " not in value:
        is_odd = value.istitle() or any(map(str.isdigit, value))
        return is_odd and not _form("sex").search(fold(value))
    return "FAMILIAR" in mention.label and len(value) < 4 and not _form("relative").search(value)


def _is_in_citation(text: str, mention: Mention) -> bool:
    near = max(mention.start - _FARTHEST, 0), mention.end + _FARTHEST
    return any(
        match.start() <= mention.start and mention.end <= match.end()
        for match in _form("citation").finditer(text, *near)
    )


def _is_dosage(before: str, value: str) -> bool:
    """Whether numbers right after a drug are those of its doses in a day: "Ventolin 2-2-2"."""
    word = re.search(r"(\w+):? (?:\d{1,2}-)*\Z", before)
    if word is None or not re.fullmatch(r"[1-9]?\d(?:-[1-9]?\d){1,3}", value):
        return False
    return is_clinical_term(word[1]) or _form("score").search(word[1]) is not None


def is_term(text: str, start: int, end: int) -> bool:
    """Whether a mention is a clinical term, perhaps with a number, and no title is before it."""
    value = fold(text[start:end]).strip(" .,;:0123456789")
    value = re.sub(r" (?:[a-e]|i{1,3}|iv|v)\Z", "", value)
    return bool(value) and is_clinical_term(value) and not _follows_title(text, start)


def _follows_title(text: str, start: int) -> bool:
    return _form("title").search(text, max(start - 8, 0), start) is not None


def _trim_name(plain: PlainText, start: int, end: int, language: str) -> tuple[int, int] | None:
    """A name without the ordinary words around it: "Vino María Pérez" and "Ana Ruiz Diabetes".

    It is None for ordinary words alone, several or in lower case, without a title before them.
    """
    words = list(_WORD.finditer(plain.folded, start, end))
    names = [n for n, word in enumerate(words) if not _is_only_ordinary(word[0], language)]
    if not names:
        is_plain = len(words) > 1 or plain.text[start:end].islower()
        return None if is_plain and not _follows_title(plain.text, start) else (start, end)
    first, last = names[0], names[-1]
    following = plain.text[end : end + 2]
    goes_on = following[:1] == ":" or (
        following[:1] == " " and (following[1:].islower() or following[1:].isdigit())
    )
    has_dots = plain.text[words[last].end() : end].count(".") > 1
    if last + 1 < len(words) and (goes_on or len(words) - last > 2 or has_dots or first > 0):
        end = words[last].end()
    is_known = any(is_name(word[0]) for word in words[first : last + 1])
    is_field = plain.text[max(start - 2, 0) : start].rstrip()[-1:] in (":", ".")
    return (words[first].start() if is_known and not is_field else start), end


def _is_only_ordinary(word: str, language: str) -> bool:
    """Whether a folded word is one of clinical texts and no name, particle or initial."""
    if len(word) < 3 or word in word_list("particles"):
        return False
    return word in name_words(language).ordinary and not is_name(word)


# Where else mentions occur


def find_again(
    plain: PlainText, mentions: Sequence[Mention], kind: Kind, language: str
) -> list[Mention]:
    """Other occurrences of mentions, whatever their case and accents.

    Each word of a name is looked for, in any order, with initials and within longer words. A number
    is found by its digits, whatever is between them, and anything else in full, as whole words.
    Ordinary words of clinical texts count only as they were written, or beside another word of a
    name.
    """
    by_kind: dict[str, list[Mention]] = defaultdict(list)
    for one in mentions:
        by_kind[kind(one.label)].append(one)
    found = list(_find_names(plain, by_kind["name"], language))
    for initialed in ("name", "institution"):
        found += _find_initials(plain, by_kind[initialed], language)
    for number in NUMBERS:
        found += _find_digits(plain.text, by_kind[number])
    for other in ("name", "place", "institution", "email", "url", "id"):
        found += _find_whole(plain, by_kind[other], language)
    return found


def _find_whole(plain: PlainText, mentions: Iterable[Mention], language: str) -> Iterator[Mention]:
    ordinary = name_words(language).ordinary
    labels = {plain.text[one.start : one.end]: one.label for one in mentions}
    for value, label in labels.items():
        name = fold(value)
        if sum(map(str.isalpha, name)) < 3 and sum(map(str.isdigit, name)) < _FEWEST_DIGITS:
            continue
        is_ordinary = all(word in ordinary for word in _WORD.findall(name))
        for start, end in _find_all(plain.folded, name):
            is_same = plain.text[start:end] == value
            is_within = _is_within_word(plain.text, start) or _is_within_word(plain.text, end)
            if (is_same or not is_ordinary) and not is_within:
                yield Mention(start, end, label)


def _find_all(text: str, part: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each occurrence of a string; some may overlap."""
    start = text.find(part)
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + 1)


def _find_digits(text: str, mentions: Iterable[Mention]) -> Iterator[Mention]:
    """The same digits, with other signs between them or letters beside them."""
    labels = {
        "".join(filter(str.isdigit, text[one.start : one.end])): one.label for one in mentions
    }
    labels = {digits: label for digits, label in labels.items() if len(digits) >= _FEWEST_DIGITS}
    if not labels:
        return
    places = [place for place, char in enumerate(text) if char.isdigit()]
    every = "".join(text[place] for place in places)
    for digits, label in labels.items():
        for first, last in _find_all(every, digits):
            start, end = places[first], places[last - 1] + 1
            between = [char for char in text[start:end] if not char.isdigit()]
            borders = text[start - 1 : start].isdigit() or text[end : end + 1].isdigit()
            if not borders and len(between) < len(digits) and set(between) <= set(_BETWEEN_DIGITS):
                yield Mention(start, end, label)


class _Part(NamedTuple):
    """A word of a name: its label, how it was written, and whether it is also an ordinary word."""

    label: str
    written: set[str]
    is_ordinary: bool


def _split_names(plain: PlainText, names: Iterable[Mention], language: str) -> dict[str, _Part]:
    """The words of names that are long enough to be looked for, folded."""
    parts: dict[str, _Part] = {}
    ordinary = name_words(language).ordinary
    for one in names:
        for word in _WORD.finditer(plain.folded, one.start, one.end):
            form = word[0]
            shortest = _SHORTEST_KNOWN if is_name(form) else _SHORTEST
            if len(form) < shortest or form in word_list("particles"):
                continue
            is_ordinary = form in ordinary or len(form) < 3
            part = parts.setdefault(form, _Part(one.label, set(), is_ordinary))
            written = plain.text[word.start() : word.end()]
            if written[0].isupper() and (len(form) >= _SHORTEST or written.istitle()):
                part.written.add(written)
    return parts


def _find_names(plain: PlainText, names: Sequence[Mention], language: str) -> Iterator[Mention]:
    parts = _split_names(plain, names, language)
    given = name_words(language).given
    run: list[re.Match[str]] = []
    for word in _WORD.finditer(plain.folded) if parts else ():
        if word[0] not in parts:
            continue
        if run and not _joins(plain.folded, run, word, given):
            yield from _take_run(plain, run, parts)
            run = []
        run.append(word)
    yield from _take_run(plain, run, parts)
    for form, part in parts.items():
        if not part.is_ordinary and len(form) >= _SHORTEST:
            yield from _find_within(plain, form, part.label)


def _joins(
    text: str, run: Sequence[re.Match[str]], word: re.Match[str], given: frozenset[str]
) -> bool:
    """Whether a word belongs to the same name as those before it.

    After a comma it does if they are surnames: "Ochoa, Marta", but not "Marta Ochoa, Ana Ruiz".
    """
    between = text[run[-1].end() : word.start()]
    if "," in between and len(run) > 1 and any(one[0] in given for one in run):
        return False
    return _form("between_parts").fullmatch(between) is not None


def _take_run(
    plain: PlainText, run: Sequence[re.Match[str]], parts: dict[str, _Part]
) -> Iterator[Mention]:
    """The words of a run of name parts: all of it if it has several, else if it is a name alone."""
    clear = [
        word
        for word in run
        if not parts[word[0]].is_ordinary
        or plain.text[word.start() : word.end()] in parts[word[0]].written
    ]
    if clear or len({word[0] for word in run}) > 1:
        taken = run if len(run) > 1 else clear
        yield Mention(taken[0].start(), taken[-1].end(), parts[taken[0][0]].label)


def _find_within(plain: PlainText, form: str, label: str) -> Iterator[Mention]:
    """A name within a longer word: after an initial, or where capitals begin another word."""
    text = plain.text
    for start, end in _find_all(plain.folded, form):
        before, after = text[start - 1 : start], text[end : end + 1]
        begins = not before.isalpha() or (text[start].isupper() and before.islower())
        ends = not after.isalpha() or after.isupper() != text[end - 1].isupper()
        is_within = before.isalpha() or after.isalpha()
        if is_within and ((begins and ends) or len(form) >= _SHORTEST_WITHIN):
            yield Mention(start, end, label)


def _find_initials(plain: PlainText, names: Iterable[Mention], language: str) -> Iterator[Mention]:
    """The initials of names: "J.E.R." and, of three letters or more, "JER"."""
    labels: dict[str, str] = {}
    for one in names:
        words = _WORD.findall(plain.text, one.start, one.end)
        letters = fold("".join(word[0] for word in words if word[0].isupper() and len(word) > 1))
        if 2 <= len(letters) <= 6:
            labels.setdefault(letters, one.label)
    for match in _form("dotted").finditer(plain.text) if labels else ():
        letters = fold("".join(filter(str.isalpha, match[0])))
        if letters in labels and ("." in match[0] or letters not in name_words(language).ordinary):
            end = match.start() + len(match[0].rstrip(" -"))
            yield Mention(match.start(), end, labels[letters])


# Borders


def extend(text: str, mention: Mention, kind: str, language: str) -> Mention:
    """A mention with the rest of its first and last word, and what joins it by its form.

    A place or an institution gets the initials, numbers and abbreviations beside it: they are
    rarely anything else, and telling when they are left. A name gets initials; a number after it
    may be an age.
    """
    start, end = mention.start, mention.end
    while start > 0 and _is_within_word(text, start):
        start -= 1
    # The time of "2019-03-12T08:15" stays.
    while end < len(text) and _is_within_word(text, end) and kind != "date":
        end += 1
    if kind in EXTENDED or kind == "date":
        beside = _form("weekday_before" if kind == "date" else "initials_before")
        if before := beside.search(text, max(start - _FARTHEST, 0), start):
            start = before.start()
    if kind in EXTENDED:
        form = _form("initials_after" if kind == "name" else "joined_after")
        farthest = end + _LONGEST_JOINED
        while (after := form.match(text, end, farthest)) and not _is_of_next(text, after, language):
            end = after.end()
    return Mention(start, end, mention.label)


def _is_of_next(text: str, match: re.Match[str], language: str) -> bool:
    """Whether initials are the name of the next field, or an acronym is one of clinical texts."""
    groups = match.groupdict()
    if acronym := groups.get("acronym"):
        return acronym.lower() in name_words(language).ordinary
    initials = groups.get("initials")
    if initials is None:
        return False
    is_field = _form("field").fullmatch(initials) is not None
    return is_field or _form("before_value").match(text, match.end()) is not None


def extend_to_capitals(
    text: str, mention: Mention, others: Sequence[Mention], language: str
) -> Mention:
    """A mention with the capitalised words beside it, which complete a name found in part.

    They are in none of the `others`, disjoint mentions in text order, among which this one or one
    around it is. Ordinary words at either end belong to something else.
    """
    # "Philips IntelliVue": the words after a maker name what it makes.
    if fold(text[mention.start : mention.end]) in word_list("companies"):
        return mention
    place = bisect_right(others, mention.start, key=lambda one: one.end)
    first = others[place - 1].end if place else 0
    place = bisect_left(others, mention.end, key=lambda one: one.start)
    last = others[place].start if place < len(others) else len(text)
    first = max(mention.start - _FARTHEST, first)
    before = _form("capitals_before").search(text, first, mention.start)
    after = _form("capitals_after").match(text, mention.end, last)
    # The mention itself, and the words that can begin or end a name.
    places = [(mention.start, mention.end)]
    for beside in filter(None, (before, after)):
        for word in _WORD.finditer(text, *beside.span()):
            form = fold(word[0])
            is_ordinary = form in name_words(language).ordinary and not is_name(form)
            if form not in word_list("particles") and not is_ordinary:
                places.append(word.span())
    return Mention(min(places)[0], max(end for _, end in places), mention.label)


def bridge(text: str, mentions: Iterable[Mention], kind: str) -> list[Mention]:
    """The gaps between neighbouring mentions of one label that consist of particles, with both."""
    joining = _form("joining_ages" if kind == "age" else "joining")
    return [
        Mention(one.start, following.end, one.label)
        for one, following in pairwise(merge_overlapping(mentions))
        if one.label == following.label and joining.fullmatch(text, one.end, following.start)
    ]


def _is_within_word(text: str, offset: int) -> bool:
    around = text[max(offset - 1, 0) : offset + 1]
    return len(around) == 2 and around.isalnum()


def merge_overlapping(mentions: Iterable[Mention]) -> list[Mention]:
    """Merge mentions that share characters into disjoint ones, in text order.

    A merged mention has the label of the longest; if several are equally long, of the first.
    """
    merged: list[Mention] = []
    longest = 0
    for one in sorted(mentions, key=lambda one: (one.start, -one.end)):
        length = one.end - one.start
        if merged and one.start < merged[-1].end:
            last = merged[-1]
            label = one.label if length > longest else last.label
            merged[-1] = Mention(last.start, max(last.end, one.end), label)
            longest = max(longest, length)
        else:
            merged.append(one)
            longest = length
    return merged
