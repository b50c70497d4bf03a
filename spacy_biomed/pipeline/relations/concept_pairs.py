"""The concepts that mentions of a document mean, and their pairs that may be related."""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from spacy.attrs import IDX
from spacy.tokens import Doc, Span

from ...annotations.abbreviations import find_abbreviations
from ...annotations.document_keys import NIL, split_ids
from ...arrays import Floats2d, Ints1d, Ints2d
from ...encoders.batching.ragged import ranges
from ...notes.sentence_starts import find_sentence_starts
from .candidates import find_near

# The type of a mention, and the identifier or the simplified name of what it means.
Concept = tuple[str, str]

_NO_LETTERS = re.compile(r"[^\w]+|_+")
_DISTANCES = np.array([1, 3, 6, 11, 21, 41, 81])  # in tokens; where classes of distances begin
_SENTENCES, _COUNTS = 4, 4  # classes of distances in sentences, and of numbers of mentions


@dataclass(frozen=True, slots=True)
class ConceptPairs:
    """The pairs of concepts of a document that may be related."""

    # (pairs,) those of the head and of the tail of each.
    concepts: list[tuple[frozenset[Concept], frozenset[Concept]]]
    # (pairs,) the mentions of the two that are closest to each other.
    closest: list[tuple[Span, Span]]
    # (pairs,) how many pairs of mentions each has; they follow each other in the next.
    counts: Ints1d
    # Three arrays of (mention pairs, 2): the first token, and the one after the last, of heads, of
    # tails, and of what is between them.
    places: tuple[Ints2d, Ints2d, Ints2d]
    features: Floats2d  # (mention pairs, features) types, distances and numbers of mentions


def find_concept_pairs(
    doc: Doc,
    mentions: Sequence[Span],
    *,
    pairs: Collection[tuple[str, str]],
    max_distance: int,
    max_mentions: int,
) -> ConceptPairs:
    """Find the pairs of concepts whose types may be related and that are near enough.

    The mentions are of this or of another document with the same text. The arguments are settings
    of `BiomedDocumentRelations`.
    """
    types = sorted({type for pair in pairs for type in pair})
    mentions = sorted(mentions, key=lambda span: (span.start_char, span.end_char))
    text, starts = doc.text, doc.to_array(IDX).astype("int64")
    groups = group_mentions(choose_meant(find_concepts(text, mentions)))
    spans = _tokens_of(starts, mentions)
    found = _pair_groups(mentions, spans, list(groups.values()), pairs, max_distance)
    kept = {pair: sorted(found[pair])[:max_mentions] for pair in sorted(found)}
    members = list(groups)
    chosen = np.array([one for of_pair in kept.values() for one in of_pair], dtype="int64")
    distances, *sides = chosen.reshape(-1, 3).T
    heads, tails = (spans[side] for side in sides)
    before, after = np.minimum(heads[:, 1], tails[:, 1]), np.maximum(heads[:, 0], tails[:, 0])
    counts = np.array([len(of_pair) for of_pair in kept.values()], dtype="int64")
    sizes = np.array([[len(groups[members[one]]) for one in pair] for pair in kept], dtype="int64")
    language = "es" if doc.lang_ == "es" else "en"
    sentence_starts = np.searchsorted(starts, find_sentence_starts(text, language))
    sentences = np.searchsorted(sentence_starts, spans[:, 0], side="right")
    labels = np.array([types.index(one.label_) if one.label_ in types else -1 for one in mentions])
    features = [
        *(_one_hot(labels[side], len(types)) for side in sides),
        _one_hot(np.searchsorted(_DISTANCES, distances, side="right"), len(_DISTANCES) + 1),
        _one_hot(abs(np.subtract(*(sentences[side] for side in sides))), _SENTENCES),
        *(_one_hot(np.repeat(size, counts) - 1, _COUNTS) for size in sizes.reshape(-1, 2).T),
        heads[:, :1] < tails[:, :1],
        *(sentences[side, None] <= 1 for side in sides),
        ranges(np.zeros_like(counts), counts)[:, None] == 0,  # the closest
    ]
    return ConceptPairs(
        [(members[head], members[tail]) for head, tail in kept],
        [(mentions[of_pair[0][1]], mentions[of_pair[0][2]]) for of_pair in kept.values()],
        counts,
        (heads, tails, np.stack([before, after], axis=1)),
        np.concatenate(features, axis=1).astype("float32"),
    )


def _pair_groups(
    mentions: Sequence[Span],
    spans: Ints2d,
    groups: Sequence[Sequence[int]],
    allowed: Collection[tuple[str, str]],
    max_distance: int,
) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """For two groups, head and tail, the distance, head and tail of each pair of mentions."""
    group_of = {place: number for number, places in enumerate(groups) for place in places}
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    near = find_near(spans[:, 0], spans[:, 1], max_distance)
    for one, other in np.stack(near, axis=1).tolist():
        distance = int(spans[other, 0] - spans[one, 1])
        pair = group_of.get(one, -1), group_of.get(other, -1)
        if distance < 0 or min(pair) < 0 or pair[0] == pair[1]:  # below 0 they share a token
            continue
        types = mentions[one].label_, mentions[other].label_
        is_forward, is_backward = types in allowed, types[::-1] in allowed
        # The head of two that may be either is the concept that is mentioned first.
        if is_forward and (not is_backward or pair[0] < pair[1]):
            found[pair].append((distance, one, other))
        elif is_backward:
            found[pair[::-1]].append((distance, other, one))
    return found


def _tokens_of(starts: Ints1d, mentions: Sequence[Span]) -> Ints2d:
    """The first token of each mention and the one after the last: (mentions, 2)."""
    first = np.searchsorted(starts, [one.start_char for one in mentions], side="right") - 1
    end = np.searchsorted(starts, [one.end_char for one in mentions], side="left")
    return np.stack([np.maximum(first, 0), np.maximum(end, first + 1)], axis=1).reshape(-1, 2)


def _one_hot(classes: Ints1d, count: int) -> Floats2d:
    """(classes,) to (classes, count); the last class has all that are larger."""
    return np.minimum(classes, count - 1)[:, None] == np.arange(count)


def find_concepts(text: str, mentions: Sequence[Span]) -> list[frozenset[Concept]]:
    """Find the concepts of each mention of a document: the identifiers in `span.kb_id_`.

    A mention without one means what its name, or the long form that the text defines for it, says,
    whatever its case, plural and hyphens. Mentions of different types never mean the same.
    """
    long_forms: dict[str, str] = {}
    for found in find_abbreviations(text):
        short = _simplify(text[found.short_start : found.short_end])
        long_forms.setdefault(short, _simplify(text[found.long_start : found.long_end]))
    concepts = []
    for mention in mentions:
        name = _simplify(mention.text)
        has_ids = mention.kb_id_ and mention.kb_id_ != NIL
        own = split_ids(mention.kb_id_) if has_ids else [long_forms.get(name, name)]
        concepts.append(frozenset((mention.label_, id) for id in own))
    return concepts


def _simplify(name: str) -> str:
    simple = _NO_LETTERS.sub("", name.lower()) or name
    return simple[:-1] if len(simple) > 4 and simple.endswith("s") else simple


def choose_meant(concepts: Sequence[frozenset[Concept]]) -> list[frozenset[Concept]]:
    """What each mention counts for: of several concepts, those that no mention has for itself.

    So "HNF1 and 4" counts for neither if both are mentioned elsewhere.
    """
    own = frozenset().union(*(found for found in concepts if len(found) == 1))
    return [found if len(found) == 1 else found - own for found in concepts]


def group_mentions(meant: Sequence[frozenset[Concept]]) -> dict[frozenset[Concept], list[int]]:
    """The places of mentions that mean the same; not of those for which nothing is meant."""
    groups: dict[frozenset[Concept], list[int]] = defaultdict(list)
    for place, found in enumerate(meant):
        if found:
            groups[found].append(place)
    return dict(groups)
