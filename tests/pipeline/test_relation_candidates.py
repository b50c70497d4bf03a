import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_biomed.annotations.marked_arguments import Argument
from spacy_biomed.pipeline.relations.candidates import find_candidates

TEXT = "Aspirin and ibuprofen block COX-1 . TNF rises ."
MENTIONS = {"Aspirin": "C", "ibuprofen": "C", "COX-1": "G", "TNF": "G"}


def make_doc(text=TEXT, sentences=None):
    words = text.split(" ")
    spaces = [True] * (len(words) - 1) + [False]
    return Doc(Vocab(), words=words, spaces=spaces, sent_starts=sentences)


def mentions_of(text=TEXT, labels=MENTIONS):
    return [
        Argument(text.index(word), text.index(word) + len(word), label)
        for word, label in labels.items()
    ]


def find(doc, mentions=None, pairs=(("C", "G"),), directed=True, max_distance=100, reference=None):
    return find_candidates(
        0,
        doc,
        mentions_of() if mentions is None else mentions,
        pairs=pairs,
        directed=directed,
        max_distance=max_distance,
        reference=reference,
    )


def names(candidates, text=TEXT):
    return [(text[slice(*one.head[:2])], text[slice(*one.tail[:2])]) for one in candidates]


def starts(*first):
    return [i in first for i in range(len(TEXT.split(" ")))]


def test_pairs_of_allowed_types_are_candidates():
    expected = [("Aspirin", "COX-1"), ("Aspirin", "TNF"), ("ibuprofen", "COX-1")]
    assert names(find(make_doc())) == [*expected, ("ibuprofen", "TNF")]
    assert names(find(make_doc(), pairs=[("G", "C")]))[0] == ("COX-1", "Aspirin")
    assert names(find(make_doc(), pairs=[("C", "X"), ("X", "X")])) == []
    assert names(find(make_doc(), pairs=())) == []


def test_two_of_one_type_are_two_candidates_only_if_directed():
    both = [("Aspirin", "ibuprofen"), ("ibuprofen", "Aspirin")]
    assert names(find(make_doc(), pairs=[("C", "C")])) == both
    assert names(find(make_doc(), pairs=[("C", "C")], directed=False)) == both[:1]


def test_without_direction_the_first_is_the_head_where_both_orders_are_allowed():
    mentions = mentions_of(labels={"COX-1": "G", "Aspirin": "C"})
    pairs = [("G", "C"), ("C", "G")]
    assert len(find(make_doc(), mentions, pairs)) == 2
    assert names(find(make_doc(), mentions, pairs, directed=False)) == [("Aspirin", "COX-1")]
    assert names(find(make_doc(), mentions, pairs[:1], directed=False)) == [("COX-1", "Aspirin")]


def test_candidates_lie_in_one_sentence():
    expected = [("Aspirin", "COX-1"), ("ibuprofen", "COX-1")]
    divided = make_doc(sentences=starts(0, 6))
    assert names(find(divided)) == expected
    assert {one.text(TEXT, "tags") for one in find(divided)} == {
        "@C$ and ibuprofen block @G$ .",
        "Aspirin and @C$ block @G$ .",
    }
    assert names(find(make_doc(), reference=divided)) == expected
    # The document's own sentences go first, since in use there are no others.
    assert len(find(make_doc(sentences=starts(0, 5)), reference=divided)) == 2
    assert names(find(make_doc(sentences=starts(0, 2)), reference=divided))[0][0] == "ibuprofen"


def test_sentences_of_a_reference_with_other_tokens_are_found_by_their_characters():
    reference = Doc(
        Vocab(),
        words=["Aspirin and ibuprofen", "block COX-1", ".", "TNF rises", "."],
        spaces=[True, True, True, True, False],
        sent_starts=[True, False, False, True, False],
    )
    assert reference.text == TEXT
    assert names(find(make_doc(), reference=reference))[-1] == ("ibuprofen", "COX-1")


@pytest.mark.parametrize(("distance", "expected"), [(0, 0), (1, 1), (2, 1), (3, 3), (5, 4)])
def test_candidates_have_so_many_tokens_between_them_at_most(distance, expected):
    """Between them are 3, 5, 1 and 3 tokens."""
    assert len(find(make_doc(), max_distance=distance)) == expected


def test_so_many_tokens_are_read_at_most_on_each_side():
    (candidate,) = find(make_doc(), max_distance=1)
    assert candidate.text(TEXT, "marks") == "and << ibuprofen >> block [[ COX-1 ]] ."
    assert candidate.words == 5
    assert candidate.window == (TEXT.index("and"), TEXT.index(" TNF"))


def test_mentions_that_share_characters_are_no_candidates_and_one_given_twice_is_one():
    inner, outer = Argument(0, 7, "C"), Argument(0, 21, "C")
    mentions = [inner, outer, outer, *mentions_of(labels={"COX-1": "G"})]
    pairs = [("C", "G"), ("C", "C")]
    expected = [("Aspirin", "COX-1"), ("Aspirin and ibuprofen", "COX-1")]
    assert names(find(make_doc(), mentions, pairs)) == expected


def test_mentions_within_one_token_are_candidates():
    text = "(aspirin/COX-1) , no"
    mentions = [Argument(1, 8, "C"), Argument(9, 14, "G")]
    (candidate,) = find(make_doc(text), mentions)
    assert candidate.text(text, "tags") == "(@C$/@G$) , no"


@pytest.mark.parametrize("text", ["<< COX-1 >> by [[ Aspirin ]]", "@G$ with @C$"])
def test_a_text_that_shows_its_arguments_is_its_own_candidate(text):
    doc = make_doc(text)
    (candidate,) = find(doc, mentions_of(text, {"by": "C"} if "by" in text else {"with": "C"}))
    assert candidate.window is None
    assert candidate.words == len(doc)
    assert candidate.head.start < candidate.tail.start


def test_a_pair_of_texts_is_read_as_one():
    text = "Aspirin .\x1eNo COX-1 ."
    doc = make_doc(text)
    (candidate,) = find(doc, mentions_of(text, {"Aspirin": "C", "COX-1": "G"}))
    assert candidate.text(text, "marks") == "<< Aspirin >> . No [[ COX-1 ]] ."


@pytest.mark.parametrize("text", ["", " ", "a"])
def test_texts_of_hardly_anything_have_no_candidates(text):
    assert find(spacy.blank("en").make_doc(text), []) == []


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("divided", [True, False])
def test_the_arrays_say_what_loops_over_all_pairs_say(directed, divided):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    first = sorted({0, *rng.integers(60, size=6).tolist()})
    sentences = [i in first for i in range(60)] if divided else None
    doc = Doc(Vocab(), words=words, sent_starts=sentences)
    mentions = []
    for _ in range(30):
        start = int(rng.integers(57))
        span = doc[start : start + int(rng.integers(1, 4))]
        mentions.append(Argument(span.start_char, span.end_char, "ABC"[rng.integers(3)]))
    pairs = {("A", "B"), ("B", "A"), ("A", "A"), ("C", "B")}
    expected = set()
    for head in mentions:
        for tail in mentions:
            (left, right) = sorted([head, tail])
            spans = [doc.char_span(*one[:2]) for one in (left, right)]
            near = 0 <= spans[1].start - spans[0].end <= 4
            one_sentence = not divided or not any(
                sentences[spans[0].start + 1 : spans[1].start + 1]
            )
            reverse = not directed and head > tail and (tail.label, head.label) in pairs
            if near and one_sentence and (head.label, tail.label) in pairs and not reverse:
                expected.add((head, tail))
    found = find(doc, mentions, pairs, directed=directed, max_distance=4)
    assert len(expected) > 20
    assert {(one.head, one.tail) for one in found} == expected
    assert len(found) == len(expected)


def test_a_hundred_thousand_words_have_the_candidates_of_their_neighbourhoods():
    words = ["a", "b", "c", "d"] * 25_000
    doc = Doc(Vocab(), words=words)
    mentions = [Argument(8 * i, 8 * i + 1, "C" if i % 2 else "G") for i in range(25_000)]
    found = find(doc, mentions, max_distance=3)
    assert len(found) == 24_999
    assert max(one.words for one in found) == 11
