"""The concepts of a terminology that a mention may mean, and what speaks for each."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from ...annotations.abbreviations import find_abbreviations
from ...terminologies.name_forms import list_parts, loosen, normalize
from ...terminologies.terminology import Concept, Match, Terminology

# What speaks for or against a candidate: how alike its name and the mention are, whether it is a
# parent or was seen in training, and the rest of the document.
FEATURES = (
    *("same", "normal", "loose", "abbreviated", "similar", "similarity", "part", "coverage"),
    *("preferred", "usual", "rivals", "short", "broader", "known", "known_share"),
    *("known_concept", "long_form", "genus", "contained", "initials", "adjacent", "first"),
    *("mentioned", "share", "votes", "relative", "narrower"),
)
# Where candidates are from, the best first.
_ORIGINS = ("part", "known", "normal", "loose", "abbreviated", "similar", "broader", "mentioned")

_SHORT_GENUS = re.compile(r"([A-Z][a-z]{0,2})\. ?(?=[a-z])")
_INITIALS = re.compile(r"(?=.*[A-Z].*[A-Z])[\w-]{2,10}")
_WORD = re.compile(r"\w+")
_SHORT, _LEAST_PART = 4, 4
_MOST_GENERA = 8
# Mentions of a document, the most frequent, that any other may mean. Those with a further reason
# are not counted. More would take the square of the time, and outvote what the mention itself says.
_MOST_MENTIONED = 64
# Steps up from a concept that a mention names, and how similar a name must be for one step.
_STEPS, _SIMILAR = 2, 0.6
_CACHED = 20_000


@dataclass(slots=True)
class LinkCandidate:
    """A concept that a mention may mean.

    Attributes:
        concept: its place in the terminology; None if it is known from training alone.
        type, parent: of the concept.
        values: of `FEATURES`, by name; those that are left out are 0.
    """

    id: str
    concept: int | None
    type: str = ""
    parent: int | None = None
    values: dict[str, float] = field(default_factory=dict)

    def set(self, name: str, value: float = 1.0) -> None:
        """Raise the value of a feature."""
        if value > self.values.get(name, 0.0):
            self.values[name] = value

    @property
    def kind(self) -> str:
        """Where it is from, and its type."""
        origin = next((name for name in _ORIGINS if name in self.values), "")
        return f"{origin} {self.type}"

    @property
    def is_strong(self) -> bool:
        """Whether the whole mention is one of its names."""
        return self.is_named and "part" not in self.values

    @property
    def is_named(self) -> bool:
        """Whether the mention, or a part of it, is one of its names."""
        return not self.values.keys().isdisjoint(("normal", "loose", "known"))


Candidates = dict[str, LinkCandidate]


class LinkedDocument(NamedTuple):
    """A document to learn linking from: its text, and the text of each mention, in order.

    Any of the ids of a mention is right; none if it has no concept, None if it is not annotated.
    """

    text: str
    mentions: list[tuple[str, frozenset[str] | None]]


class KnownNames:
    """The names of concepts in training: by name and id their number, by id its usual mention."""

    def __init__(self, counts: Mapping[str, Mapping[str, int]], names: Mapping[str, str]):
        self.counts = counts
        self.names = names
        self.of_concepts: Counter[str] = Counter()
        for of_name in counts.values():
            self.of_concepts.update(of_name)

    @classmethod
    def learn(cls, documents: Iterable[LinkedDocument]) -> KnownNames:
        """The names that documents have for concepts."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        texts: dict[str, Counter[str]] = defaultdict(Counter)
        for document in documents:
            for text, ids in document.mentions:
                for id in ids or ():
                    counts[normalize(text)][id] += 1
                    texts[id][text] += 1
        return cls(counts, {id: found.most_common(1)[0][0] for id, found in texts.items()})


class CandidateFinder:
    """Finds the concepts that mentions may mean, also by names and concepts known from training."""

    def __init__(self, terminology: Terminology, known: KnownNames):
        self.terminology = terminology
        self.known = known
        self._cache: dict[tuple[str, bool], Candidates] = {}
        self._describe: Callable[[int], Concept] = lru_cache(_CACHED)(terminology.describe)

    def __reduce__(self) -> tuple[type[CandidateFinder], tuple[Terminology, KnownNames]]:
        return CandidateFinder, (self.terminology, self.known)

    def find(self, mentions: Sequence[str], document: str) -> dict[str, Candidates]:
        """The candidates of each text of a document's mentions, in their order."""
        found = {text: self._copy(self._look_up(text)) for text in dict.fromkeys(mentions)}
        self._expand(found, document)
        named = {
            text: {id: one for id, one in own.items() if one.is_named}
            for text, own in found.items()
        }
        self._refer(mentions, found, named)
        self._vote(found, named)
        return found

    def forget_words(self) -> None:
        """Let go of the mentions that were looked up, which make the next ones faster."""
        self._cache.clear()

    def get_name(self, id: str) -> str:
        """The preferred name of a concept, or its most frequent in training."""
        place = self.terminology.get_place(id)
        return self.known.names[id] if place is None else self.terminology.get_name(place)

    def _expand(self, found: dict[str, Candidates], document: str) -> None:
        """Add the candidates of long forms, and of genera that the document has."""
        long_forms = {
            document[one.short_start : one.short_end]: document[one.long_start : one.long_end]
            for one in find_abbreviations(document)
        }
        genera: dict[str, list[str]] = {}
        for text, own in found.items():
            long = _WORD.sub(lambda word: long_forms.get(word[0], word[0]), text)
            if text in long_forms or long != text:
                self._merge(own, self._look_up(long_forms.get(text, long)), "long_form")
            short = _SHORT_GENUS.match(text)
            if short is None:
                continue
            if short[1] not in genera:
                of_text = re.findall(rf"\b{short[1]}[a-z]{{2,}}(?= [a-z]{{2,}})", document)
                genera[short[1]] = list(dict.fromkeys(of_text))[:_MOST_GENERA]
            rest = text[short.end() :]
            for genus in genera[short[1]]:
                for epithet in dict.fromkeys((rest, rest.split()[0])):
                    full = self._look_up(f"{genus} {epithet}", deep=False)
                    self._merge(own, full, "genus")

    def _refer(
        self, mentions: Sequence[str], found: dict[str, Candidates], named: dict[str, Candidates]
    ) -> None:
        """Add the concepts of other mentions to the mentions that do not name a concept."""
        places = [place for place, text in enumerate(mentions) if named[text]]
        if not places:
            return
        keys = {text: f" {normalize(text)} " for text in found}
        count = Counter(id for place in places for id in named[mentions[place]])
        frequent = Counter(mentions[place] for place in places).most_common(_MOST_MENTIONED)
        first = mentions[places[0]]
        usual = {first, *(text for text, _ in frequent)}
        below = self._list_below(named)
        for text, own in found.items():
            if any(one.is_strong for one in own.values()):
                self._narrow(own, below)
                continue
            adjacent = self._find_adjacent(mentions, text, places)
            near = usual | adjacent.keys()
            letters = text.replace("-", "").lower() if _INITIALS.fullmatch(text) else ""
            key = keys[text]
            for other, candidates in named.items():
                is_contained = key in keys[other]
                is_long = bool(letters) and _are_initials(letters, keys[other].strip())
                if not (is_contained or is_long or other in near):
                    continue
                reasons = {
                    "contained": float(is_contained),
                    "initials": float(is_long),
                    "adjacent": adjacent[other],
                    "first": float(other == first),
                    "mentioned": 1.0,
                }
                for one in candidates.values():
                    same = self._add_id(own, one.id, one.concept)
                    same.set("share", count[one.id] / len(places))
                    for reason, value in reasons.items():
                        same.set(reason, value)

    @staticmethod
    def _find_adjacent(
        mentions: Sequence[str], text: str, places: Sequence[int]
    ) -> defaultdict[str, float]:
        """The share of the mentions of a text that each other text is next to."""
        adjacent: defaultdict[str, float] = defaultdict(float)
        own = [place for place, other in enumerate(mentions) if other == text]
        places = [place for place in places if mentions[place] != text]
        for place in own if places else ():
            after = bisect(places, place)
            nearest = min(abs(other - place) for other in places[max(after - 1, 0) : after + 1])
            for other in (place - nearest, place + nearest):
                if 0 <= other < len(mentions):
                    adjacent[mentions[other]] += 1 / len(own)
        return adjacent

    def _list_below(self, named: dict[str, Candidates]) -> dict[int | None, Candidates]:
        """The concepts that mentions name, by their parents."""
        below: dict[int | None, Candidates] = defaultdict(dict)
        for candidates in named.values():
            for id, one in candidates.items():
                below[one.parent].setdefault(id, one)
        return below

    def _narrow(self, own: Candidates, below: dict[int | None, Candidates]) -> None:
        """Add the concepts of other mentions that are narrower: a species for its genus."""
        broad = {one.concept for one in own.values() if one.is_strong} - {None}
        for concept in broad:
            for one in below.get(concept, {}).values():
                self._add_id(own, one.id, one.concept).set("narrower")

    def _vote(self, found: dict[str, Candidates], named: dict[str, Candidates]) -> None:
        """Count for each candidate the other mentions that are names of it, or of a relative."""
        votes = Counter(id for own in named.values() for id in own)
        concepts = {one.concept for own in named.values() for one in own.values()} - {None}
        parents = {one.parent for own in named.values() for one in own.values()} - {None}
        for text, own in found.items():
            for one in own.values():
                one.set("votes", min(votes[one.id] - (one.id in named[text]), 3))
                one.set("relative", float(one.concept in parents or one.parent in concepts))

    def _look_up(self, text: str, *, deep: bool = True) -> Candidates:
        """The candidates of a mention alone; if no name is its, and `deep`, by parts, trigrams."""
        cached = self._cache.get((text, deep))
        if cached is not None:
            return cached
        key = normalize(text)
        found: Candidates = {}
        self._add_names(found, key, text)
        if deep and not any(one.is_strong for one in found.values()):
            self._add_parts(found, key)
            for match in self.terminology.search(key):
                one = self._add(found, match, text)
                one.set("similar")
                one.set("similarity", match.similarity)
        for one in list(found.values()):
            if one.is_named or one.values.get("similarity", 0.0) >= _SIMILAR:
                self._add_broader(found, one)
        if len(self._cache) >= _CACHED:
            self._cache.clear()
        self._cache[text, deep] = found
        return found

    def _add_names(self, found: Candidates, key: str, text: str) -> None:
        """Add the concepts that have a name, in the terminology or from training."""
        matches = self.terminology.find(key)
        if not any(match.form == "normal" for match in matches):
            matches += self.terminology.find(loosen(key))
        for match in matches:
            self._add(found, match, text).set(match.form)
        counts = self.known.counts.get(key, {})
        total = sum(counts.values())
        for id, count in counts.items():
            id = self.terminology.find_present_id(id)  # learned with an older terminology
            one = self._add_id(found, id, self.terminology.get_place(id))
            one.set("known")
            one.set("known_share", count / (total + 1))
        rivals = sum(one.is_strong for one in found.values())
        for one in found.values():
            one.set("rivals", min(rivals - one.is_strong, 5))
            one.set("short", float(len(key) < _SHORT))

    def _add_parts(self, found: Candidates, key: str) -> None:
        """Add the concepts whose names are the longest parts of a mention with a name."""
        words = key.split()
        longest = 0
        for first, last in list_parts(words):
            if last - first < longest:
                return
            part = " ".join(words[first:last])
            parts: Candidates = {}
            if len(part) >= _LEAST_PART:
                self._add_names(parts, part, part)
            for id, one in parts.items():
                if one.is_strong or "abbreviated" in one.values:
                    longest = last - first
                    one.set("part")
                    one.set("coverage", len(part) / len(key))
                    found.setdefault(id, one)

    def _add_broader(self, found: Candidates, one: LinkCandidate) -> None:
        """Add the parent of a concept, and the parent's."""
        for step in range(_STEPS if one.is_named else 1):
            if one.parent is None:
                return
            one = self._add_id(found, self._describe(one.parent).id, one.parent)
            one.set("broader", 1.0 / (step + 1))

    def _add(self, found: Candidates, match: Match, text: str) -> LinkCandidate:
        one = self._add_id(found, self._describe(match.concept).id, match.concept)
        one.set("same", float(match.name == text))
        one.set("preferred", float(match.is_preferred))
        return one

    def _add_id(self, found: Candidates, id: str, concept: int | None) -> LinkCandidate:
        own = found.get(id)
        if own is None:
            own = found[id] = LinkCandidate(id, concept)
            if concept is not None:
                _, own.type, own.parent, usualness = self._describe(concept)
                own.set("usual", usualness)
            own.set("known_concept", min(self.known.of_concepts[id], 20) ** 0.5)
        return own

    @staticmethod
    def _copy(candidates: Candidates) -> Candidates:
        return {id: replace(one, values=dict(one.values)) for id, one in candidates.items()}

    def _merge(self, own: Candidates, others: Candidates, feature: str) -> None:
        """Add candidates that a mention has for a reason."""
        for id, one in self._copy(others).items():
            merged = own.setdefault(id, one)
            for name, value in one.values.items():
                merged.set(name, value)
            merged.set(feature)


def _are_initials(letters: str, name: str) -> bool:
    """Whether letters are in a longer name in this order, the first at its beginning."""
    if len(name) <= 2 * len(letters) or letters[0] != name[0]:
        return False
    rest = iter(name)
    return all(letter in rest for letter in letters)
