"""Cues of negation and other contexts, and how far they reach."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise, product
from operator import itemgetter
from typing import Any, NamedTuple

from spacy.strings import get_string_id

from ..errors import BiomedError, quote
from ..normalization import strip_accents
from .term_files import expand

# What may happen or is to be prevented, and the alternatives of a diagnosis: these categories mean
# others of all mentions but treatments, which prevent ("risk") or are compared ("differential").
OF_CONDITIONS = {"risk": "hypothetical", "differential": "uncertain"}
# What is considered or depends on an "if": of treatments alone, where they are not negated.
PLAN = "plan"
# What is taken today: no treatment is historical there, unless a cue that is as near says so.
CURRENT = "current"
_ASSERTED = ("negated", "uncertain", "historical", "hypothetical", "family")
# What is the patient's own, also in a section of family history.
OWN = "own"
# What the patient has, by what is said after it: "no fever, asthma stable".
AFFIRMED = "affirmed"
CATEGORIES = (*_ASSERTED, CURRENT, PLAN, OWN, AFFIRMED, *OF_CONDITIONS)
# A mention has one of each pair: the one with the nearest cue; the second, if both are as near.
_RIVALS = (
    *((AFFIRMED, one) for one in ("negated", "uncertain", "historical")),
    ("negated", "uncertain"),
    ("negated", "differential"),
)

_GROUP = re.compile(
    r"(?P<kind>none|stop|outside|between)?(?: ?\b(?P<category>{}))?"
    r"(?: (?P<direction>forward|backward|both))?(?: (?P<reach>\d+)(?P<item> item)?)?".format(
        "|".join(CATEGORIES)
    )
)
_FAR = 1 << 30
_LONGEST_LIST = 40  # words before a cue in which commas are looked for
_END = 0  # not the hash of a word
# In terms, the beginning or the end of a sentence.
_SENTENCE_END, _COMMA = get_string_id("¶"), get_string_id(",")
_JOINING = {
    get_string_id(word) for word in ("and", "or", "nor", "&", "/", "y", "e", "o", "u", "ni")
}
_ARTICLES = ("the", "a", "an", "his", "her", "el", "la", "los", "las", "su", "sus")
_IN_LISTS = _JOINING.union(map(get_string_id, _ARTICLES))


class _Group(NamedTuple):
    """What the terms of a group do in one or both directions.

    The kind is "cue" or one of `parse_group`. Without a category, a stop ends the scopes of all. A
    cue has at most `reach` words between it and what it applies to; one of an item has no comma.
    """

    kind: str
    category: str | None
    forward: bool
    backward: bool
    reach: int
    is_item: bool = False


# A term that was found: its end (exclusive), the number of its sentence, and what it does.
_Found = tuple[int, int, Sequence[_Group]]
# A mention: its start, the number of its sentence, and the words from the nearest cue by category.
_Place = tuple[int, int, dict[str, int]]


def parse_group(name: str) -> _Group:
    """Read the name of a group.

    It is a category of `CATEGORIES`, a direction ("forward", "backward", "both") and perhaps a
    reach in words: "negated forward", "negated backward 3". With "item" after it, a cue backward
    reaches no further than to a comma. Or it is "stop", for terms that end scopes, perhaps with a
    category and a direction: "stop negated", "stop uncertain forward". The group "none" has terms
    that only look like cues, and "outside" cues that also count where they begin a mention. One
    word of "between" may be between two words of any term.
    """
    found = _GROUP.fullmatch(name)
    if found is None or not (found["kind"] or (found["category"] and found["direction"])):
        raise BiomedError(
            f"no group of cues is called {quote(name)}: use a category ({', '.join(CATEGORIES)}) "
            'with a direction (forward, backward, both); "stop", "none", "outside" or "between"'
        )
    return _Group(
        found["kind"] or "cue",
        found["category"],
        found["direction"] != "backward",
        found["direction"] != "forward",
        int(found["reach"] or _FAR),
        found["item"] is not None,
    )


class CueMatcher:
    """Finds which mentions are in the scope of cues, in the manner of NegEx and ConText.

    A cue ("no evidence of", "ruled out") reaches forward, backward or both ways, to the next stop
    ("but") or the end of the sentence, and backward over commas only in a list. Of terms that
    overlap, the first counts, and of these the longest; a term that only looks like a cue ("not
    only") thus hides the cue within it. A stop and a term of "own" hide nothing. A term that
    overlaps a mention counts only if it is the whole mention ("mother"), or begins it and is in no
    name of a disease or drug ("denies fever"). A mention is negated or uncertain, not both: the
    nearest cue decides, "uncertain" if both are as near.

    Sources: Chapman et al. 2001, "A Simple Algorithm for Identifying Negated Findings and Diseases
    in Discharge Summaries"; Harkema et al. 2009, "ConText: An Algorithm for Determining Negation,
    Experiencer, and Temporal Status from Clinical Reports".

    In a term, "¶" is the beginning or the end of a sentence. Words are compared in small letters,
    with or without accents. The time is linear in the number of words.

    Args:
        groups: terms by group (`parse_group`). A term may be in several groups.
        own: more terms by group; a term that `groups` has too is only in these groups.
        tokenize: a function from a part of a term, without white space, to its words.

    Raises:
        BiomedError: if there is no group of a name.
    """

    def __init__(
        self,
        groups: Mapping[str, Iterable[str]],
        own: Mapping[str, Iterable[str]],
        tokenize: Callable[[str], list[str]],
    ):
        # From a word to what may follow it, and so on; `_END` has the groups of a whole term.
        self._root: dict[int | None, Any] = {}
        self._between: set[int] = set()
        for terms in (groups, own):
            for words, found in _read_terms(terms, tokenize).items():
                node = self._root
                for word in words:
                    node = node.setdefault(word, {})
                node[_END] = _by_direction(tuple(found))
                if any(group.kind == "between" for group in found):
                    self._between.update(words)

    def find(
        self,
        words: Sequence[int],
        sentences: Sequence[int],
        mentions: Sequence[tuple[int, int]],
        taken: Sequence[tuple[int, int]] | None = None,
    ) -> list[set[str]]:
        """Find the categories of mentions.

        Args:
            words: hashes of the words in small letters.
            sentences: the number of each word's sentence, ascending.
            mentions: first word and end (exclusive) of each, in order of their first words.
            taken: those whose words are in no term; by default all.
        """
        # A mention of white space alone may be at the end, in no sentence.
        sentences = [*sentences, -1]
        taken = mentions if taken is None else taken
        forward, backward = self._match(words, sentences, mentions, taken)
        starts: list[_Place] = [(start, sentences[start], {}) for start, _ in mentions]
        _sweep(forward, starts)
        # Backward is forward in the text as read from its end.
        pairs = zip(mentions, starts, strict=True)
        ends = [(-end, sentences[end - 1], found) for (_, end), (_, _, found) in pairs]
        _sweep(backward[::-1], sorted(ends, key=itemgetter(0)))
        return [_settle(found) for _, _, found in starts]

    def _match(
        self,
        words: Sequence[int],
        sentences: Sequence[int],
        every: Sequence[tuple[int, int]],
        mentions: Sequence[tuple[int, int]],
    ) -> tuple[list[_Found], list[_Found]]:
        """The first and longest terms that do not overlap, of each direction those that act in it.

        Backward, a term ends with its first word, and places are negative.
        """
        root = self._root
        ends = {end: start for start, end in every if start < end}
        # A mention that is a term ("mother") may be within a longer term ("mother reports").
        mentions = [(start, end) for start, end in mentions if not self._is_term(words[start:end])]
        mention_ends = dict(mentions)
        taken = {place for start, end in mentions for place in range(start, end)}
        forward: list[_Found] = []
        backward: list[_Found] = []
        past = 0
        firsts = root.get(_SENTENCE_END, ())
        starts = [
            (place, node)
            for place, word in enumerate(words)
            for node in (firsts, root)
            if word in node and (node is root or sentences[place] != sentences[place - 1])
        ]
        for start, first in starts:
            node = first
            if start < past or (start in taken and start not in mention_ends):
                continue
            end = start
            limit = mention_ends.get(start)
            number = sentences[start]
            is_between = False
            while end != limit and sentences[end] == number and (limit or end not in taken):
                word = words[end]
                if word not in node and word in self._between and start < end and not is_between:
                    is_between, end = True, end + 1
                    continue
                if (node := node.get(word)) is None:
                    break
                is_between, end = False, end + 1
                if _END in node and (limit is None or node[_END][2]):
                    past, groups = end, node[_END]
                if limit is None and _SENTENCE_END in node and sentences[end] != number:
                    past, groups = end, node[_SENTENCE_END][_END]
            if past > start:
                if groups[0]:
                    forward.append((start if limit else past, number, groups[0]))
                if groups[1]:
                    first_word = bisect_left(sentences, number, 0, start)
                    limited = _within_list(words, first_word, start, ends, groups[1])
                    backward.append((-start, number, limited))
                if groups[3]:  # the first word may begin a term that is not of a sentence's start
                    past = start + (first is root)
        return forward, backward

    def _is_term(self, words: Sequence[int]) -> bool:
        node: Any = self._root
        for word in words:
            node = node.get(word, {})
        return _END in node


def _within_list(
    words: Sequence[int], first: int, start: int, ends: Mapping[int, int], groups: Sequence[_Group]
) -> Sequence[_Group]:
    """Groups of a cue backward, which reaches over a comma only to further items of its list.

    "Fever, a cough and rash resolved" has three items. "AKI on CKD, fever resolved" has one, since
    more than a mention stands before the comma. Without "and", only negation reaches further items.

    Args:
        words: hashes of the words.
        first: the first word of the sentence.
        start: the first word of the cue.
        ends: the first word of each mention by its end.
        groups: what the cue does.
    """
    first = max(first, start - _LONGEST_LIST)
    end = start - (start > first and words[start - 1] == _COMMA)
    commas = [place for place in range(end - 1, first, -1) if words[place] == _COMMA]
    if not commas:
        return groups
    item = start - commas[0] - 1
    mentions, others = _read_item(words, commas[0] + 1, end, ends)
    if not mentions:  # "fever, which lasted for days, resolved"
        return [one._replace(reach=min(one.reach, item)) if one.is_item else one for one in groups]
    is_joined = not _JOINING.isdisjoint(words[commas[0] + 1 : start])
    reach = item
    if others <= 1:
        for comma, before in pairwise([*commas, first - 1]):
            found, others = _read_item(words, before + 1, comma, ends)
            if found != [comma] or others > is_joined:
                break
            reach = start - before - 1
    limited = []
    for one in groups:
        is_list = not one.is_item and (is_joined or one.category == "negated")
        if is_list and reach > item and one.reach >= start - mentions[0]:
            limited.append(one._replace(reach=reach))
        else:
            limited.append(one._replace(reach=min(one.reach, item)))
    return limited


def _read_item(
    words: Sequence[int], first: int, end: int, ends: Mapping[int, int]
) -> tuple[list[int], int]:
    """The ends of the mentions in an item of a list, the last first, and how many other words."""
    found, others = [], 0
    while end > first:
        if end in ends:
            found.append(end)
            end = ends[end]
        else:
            end -= 1
            others += words[end] not in _IN_LISTS
    return found, others


@cache
def _by_direction(
    groups: tuple[_Group, ...],
) -> tuple[tuple[_Group, ...], tuple[_Group, ...], bool, bool]:
    """Groups that act forward, those that act backward; whether it is in no name, only stops."""
    acting = [group for group in groups if group.kind not in ("none", "outside", "between")]
    return (
        tuple(group for group in acting if group.forward),
        tuple(group for group in acting if group.backward),
        any(group.kind == "outside" for group in groups),
        all(group.kind == "stop" or group.category == OWN for group in groups),
    )


def _read_terms(
    groups: Mapping[str, Iterable[str]], tokenize: Callable[[str], list[str]]
) -> dict[tuple[int, ...], list[_Group]]:
    """The groups of each term, by the hashes of its words in each spelling."""

    @cache
    def spell(part: str) -> list[set[int]]:
        return [set(map(get_string_id, _spellings(word))) for word in tokenize(part)]

    read: dict[tuple[int, ...], list[_Group]] = {}
    for name, terms in groups.items():
        group = parse_group(name)
        for one in chain.from_iterable(map(expand, terms)):
            for written in _write_apostrophes(one):
                # Many terms have few parts; tokenizers divide text at white space first.
                for words in product(*chain.from_iterable(map(spell, written.split()))):
                    read.setdefault(words, []).append(group)
    return read


def _write_apostrophes(term: str) -> set[str]:
    """A term with an apostrophe in each form that a tokenizer may divide otherwise."""
    curly = term.replace("'", "’")
    return {term} if curly == term else {term, term.upper(), curly, curly.upper()}


def _spellings(word: str) -> set[str]:
    """A word in small letters, with its accents in either Unicode form, and without them."""
    word = word.lower()
    return {word, unicodedata.normalize("NFD", word), strip_accents(word, "NFKD")}


def _settle(distances: Mapping[str, int]) -> set[str]:
    """The categories, of rivals only the one with the nearest cue."""
    categories = set(distances)
    if len(categories) > 1:
        for one, other in _RIVALS:
            if one in distances and other in distances:
                categories.discard(other if distances[one] < distances[other] else one)
        if CURRENT in distances and distances.get("historical", _FAR) <= distances[CURRENT]:
            categories.remove(CURRENT)
    return categories


def _sweep(terms: Sequence[_Found], mentions: Sequence[_Place]) -> None:
    """Add the categories of cues before mentions, both in the order of the text."""
    # For each category in the sentence: the end of the nearest cue, the last word that cues reach.
    scopes: dict[str, tuple[int, int]] = {}
    current = waiting = 0
    for start, sentence, nearest in mentions:
        if sentence != current:
            scopes.clear()
            current = sentence
        while waiting < len(terms) and terms[waiting][0] <= start:
            end, number, groups = terms[waiting]
            waiting += 1
            if number == sentence:
                for group in groups:
                    _apply(group, scopes, end)
        for category, (end, last) in scopes.items():
            if start <= last:
                nearest[category] = min(start - end, nearest.get(category, _FAR))


def _apply(group: _Group, scopes: dict[str, tuple[int, int]], end: int) -> None:
    """Begin or end scopes."""
    if group.category is None:
        scopes.clear()
    elif group.kind == "stop":
        scopes.pop(group.category, None)
    else:
        _, last = scopes.get(group.category, (end, end))
        scopes[group.category] = (end, max(last, end + group.reach))
