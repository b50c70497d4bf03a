import itertools
import random

import numpy as np
import pytest

from spacy_biomed.models.tagging import Spans, TagScheme

SCHEMES = ["biluo", "bio"]


def valid(names, scheme):
    """Whether tag names follow the scheme, from its definition."""
    previous = "O"
    for name in [*names, "O"]:
        part, label = name[0], name[2:]
        if scheme == "bio":
            if part == "I" and (previous[0] == "O" or previous[2:] != label):
                return False
        else:
            is_open = previous[0] in "BI" and previous != "O"
            if is_open != (part in "IL") or (is_open and previous[2:] != label):
                return False
        previous = name
    return True


def random_spans(rng, length, labels):
    """Spans that do not overlap, often side by side: (start, end, label)."""
    spans, place = [], 0
    while place < length:
        if rng.random() < 0.5:
            end = min(place + rng.randint(1, 4), length)
            spans.append((place, end, rng.randrange(labels)))
            place = end
        else:
            place += 1
    return spans


def arrays(spans):
    flat = np.array(spans, dtype="int64").reshape(-1, 3)
    return Spans(flat[:, 0], flat[:, 1], flat[:, 2])


def as_tuples(spans):
    fields = (spans.start.tolist(), spans.end.tolist(), spans.label.tolist())
    return list(zip(*fields, strict=True))


def test_biluo_tags():
    scheme = TagScheme("biluo", ["D", "G"])
    assert scheme.tag_names() == ["O", "B-D", "I-D", "L-D", "U-D", "B-G", "I-G", "L-G", "U-G"]
    tags = scheme.encode(8, arrays([(0, 1, 1), (1, 4, 0), (5, 7, 1)]))
    names = [scheme.tag_names()[tag] for tag in tags]
    assert names == ["U-G", "B-D", "I-D", "L-D", "O", "B-G", "L-G", "O"]


def test_bio_tags():
    scheme = TagScheme("bio", ["D", "G"])
    assert scheme.tag_names() == ["O", "B-D", "I-D", "B-G", "I-G"]
    tags = scheme.encode(8, arrays([(0, 1, 1), (1, 4, 0), (5, 7, 1)]))
    names = [scheme.tag_names()[tag] for tag in tags]
    assert names == ["B-G", "B-D", "I-D", "I-D", "O", "B-G", "I-G", "O"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(25))
def test_spans_come_back_out_of_their_tags(scheme, seed):
    rng = random.Random(seed)
    tag_scheme = TagScheme(scheme, ["A", "B", "C"])
    lengths = [rng.randint(0, 12) for _ in range(6)]
    expected, tags, offset = [], [], 0
    for length in lengths:
        spans = random_spans(rng, length, 3)
        tags.append(tag_scheme.encode(length, arrays(spans)))
        assert valid([tag_scheme.tag_names()[tag] for tag in tags[-1]], scheme)
        expected += [(start + offset, end + offset, label) for start, end, label in spans]
        offset += length
    decoded = tag_scheme.decode(np.concatenate(tags), np.array(lengths))
    assert as_tuples(decoded) == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_span_ends_with_its_document(scheme):
    tag_scheme = TagScheme(scheme, ["A"])
    one = tag_scheme.encode(2, arrays([(0, 2, 0)]))
    decoded = tag_scheme.decode(np.concatenate([one, one, one]), np.array([2, 0, 2, 2]))
    assert as_tuples(decoded) == [(0, 2, 0), (2, 4, 0), (4, 6, 0)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_tokens_hold_no_spans(scheme):
    tag_scheme = TagScheme(scheme, ["A"])
    nothing = np.zeros(0, dtype="int64")
    assert as_tuples(tag_scheme.decode(nothing, np.array([0, 0]))) == []
    scores = np.zeros((0, tag_scheme.size))
    assert len(tag_scheme.viterbi(scores, np.array([0, 0]))) == 0
    assert len(tag_scheme.encode(0, arrays([]))) == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_transitions_are_those_of_the_scheme(scheme):
    tag_scheme = TagScheme(scheme, ["A", "B"])
    names = tag_scheme.tag_names()
    for length in (1, 2, 3):
        for tags in itertools.product(range(tag_scheme.size), repeat=length):
            allowed = (
                tag_scheme.may_start[tags[0]]
                and tag_scheme.may_end[tags[-1]]
                and all(tag_scheme.allowed[a, b] for a, b in itertools.pairwise(tags))
            )
            assert allowed == valid([names[tag] for tag in tags], scheme)


@pytest.mark.parametrize("scheme, labels", [("biluo", 1), ("bio", 1), ("bio", 2)])
@pytest.mark.parametrize("seed", range(15))
def test_viterbi_finds_the_best_of_all_valid_sequences(scheme, labels, seed):
    rng = np.random.default_rng(seed)
    tag_scheme = TagScheme(scheme, ["A", "B"][:labels])
    names = tag_scheme.tag_names()
    lengths = [4, 0, 1, 5, 2]
    scores = rng.normal(size=(sum(lengths), tag_scheme.size))
    expected, offset = [], 0
    for length in lengths:
        part = scores[offset : offset + length]
        sequences = [
            tags
            for tags in itertools.product(range(tag_scheme.size), repeat=length)
            if valid([names[tag] for tag in tags], scheme)
        ]
        expected += max(sequences, key=lambda tags: sum(part[i, tag] for i, tag in enumerate(tags)))
        offset += length
    assert tag_scheme.viterbi(scores, np.array(lengths)).tolist() == expected


def best_score(tag_scheme, scores):
    """The best of all valid sequences of a document, by dynamic programming over its tokens."""
    reached = np.where(tag_scheme.may_start, scores[0], -np.inf)
    for row in scores[1:]:
        reached = np.where(tag_scheme.allowed, reached[:, None], -np.inf).max(axis=0) + row
    return reached[tag_scheme.may_end].max()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("sureness", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("seed", range(10))
def test_viterbi_is_as_good_as_a_search_of_whole_documents(scheme, sureness, seed):
    rng = np.random.default_rng(seed)
    tag_scheme = TagScheme(scheme, ["A", "B", "C"])
    lengths = rng.integers(1, 60, size=8)
    # As of a model that is right about most tokens, and unsure of some.
    scores = rng.normal(size=(lengths.sum(), tag_scheme.size))
    scores[np.arange(len(scores)), rng.choice([0, 0, 0, 1, 2], size=len(scores))] += sureness
    scores = (scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))).astype("float32")
    tags = tag_scheme.viterbi(scores, lengths)
    names, ends = np.array(tag_scheme.tag_names()), np.cumsum(lengths)
    for start, end in zip(ends - lengths, ends, strict=True):
        own = scores[start:end]
        assert valid(names[tags[start:end]].tolist(), scheme)
        found = own[np.arange(len(own)), tags[start:end]].sum(dtype="float64")
        assert found == pytest.approx(best_score(tag_scheme, own.astype("float64")), abs=1e-4)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(15))
def test_viterbi_never_gives_an_invalid_sequence(scheme, seed):
    rng = np.random.default_rng(seed)
    tag_scheme = TagScheme(scheme, ["A", "B", "C"])
    names = np.array(tag_scheme.tag_names())
    lengths = rng.integers(0, 40, size=12)
    # Large and small differences, and rows of nothing but ties, as tokens without pieces have.
    scores = rng.normal(size=(lengths.sum(), tag_scheme.size)) * rng.choice([0, 1e-3, 50])
    scores[rng.random(len(scores)) < 0.2] = 0.0
    tags = tag_scheme.viterbi(scores.astype("float32"), lengths)
    for part in np.split(names[tags], np.cumsum(lengths)[:-1]):
        assert valid(part.tolist(), scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_document_without_numbers_leaves_the_others_valid(scheme):
    rng = np.random.default_rng(0)
    tag_scheme = TagScheme(scheme, ["A", "B"])
    names = np.array(tag_scheme.tag_names())
    scores = rng.normal(size=(60, tag_scheme.size))
    scores[20:40] = np.nan
    tags = tag_scheme.viterbi(scores, np.array([20, 20, 20]))
    for part in (tags[:20], tags[40:]):
        assert valid(names[part].tolist(), scheme)


def test_documents_are_decoded_apart():
    """The first document ends inside an entity by its best tags; the second starts in one."""
    scheme = TagScheme("biluo", ["A"])
    scores = np.full((2, 5), -10.0)
    scores[0, 1], scores[0, 4] = 0.0, -1.0  # B, then U
    scores[1, 3], scores[1, 0] = 0.0, -1.0  # L, then O
    assert scheme.viterbi(scores, np.array([2])).tolist() == [1, 3]
    assert scheme.viterbi(scores, np.array([1, 1])).tolist() == [4, 0]


@pytest.mark.parametrize(
    ("scheme", "names", "expected"),
    [
        ("bio", "I-D I-D O I-G I-D B-D I-D", [(0, 2, 0), (3, 4, 1), (4, 5, 0), (5, 7, 0)]),
        ("bio", "O I-G", [(1, 2, 1)]),
        (
            "biluo",
            "I-D L-D I-D O L-G U-D I-D",
            [(0, 2, 0), (2, 3, 0), (4, 5, 1), (5, 6, 0), (6, 7, 0)],
        ),
    ],
)
def test_an_invalid_sequence_begins_a_span_where_none_continues(scheme, names, expected):
    tag_scheme = TagScheme(scheme, ["D", "G"])
    tags = np.array([tag_scheme.tag_names().index(name) for name in names.split()])
    spans = tag_scheme.decode(tags, np.array([len(tags)]))
    assert as_tuples(spans) == expected


def test_an_invalid_sequence_does_not_reach_into_the_next_document():
    tag_scheme = TagScheme("bio", ["D"])
    spans = tag_scheme.decode(np.array([1, 2, 2, 2]), np.array([2, 0, 2]))
    assert as_tuples(spans) == [(0, 2, 0), (2, 4, 0)]
