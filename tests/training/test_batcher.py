"""Batches by word pieces: sizes, length buckets, order, and what is counted."""

import random
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.errors import BiomedError
from spacy_biomed.training import batcher as module
from spacy_biomed.training.batcher import batch_by_sequences_v1, batch_by_word_pieces_v1

# "Aspirin" is one word piece of the tiny vocabulary's or several: only the tokenizer knows.
WORD = "Aspirin "


class WordTokenizer:
    """One piece of each word, and two special tokens; keeps how many texts there were in a call."""

    prefix = suffix = (0,)

    def __init__(self):
        self.calls = []

    def __call__(self, texts):
        self.calls.append(len(texts))
        return SimpleNamespace(lengths=np.array([len(text.split()) for text in texts]))


@pytest.fixture
def make_batcher(monkeypatch) -> Callable:
    """A batcher whose tokenizer makes one piece of each word and adds two special tokens."""
    monkeypatch.setattr(module, "load_tokenizer", lambda *_: WordTokenizer())
    return lambda size, buckets=0, **settings: batch_by_word_pieces_v1(
        "any", size, buckets, **settings
    )


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.fixture
def make_examples(nlp) -> Callable:
    """Examples of so many words each."""

    def make(*lengths: int) -> list[Example]:
        docs = [nlp.make_doc(" ".join(["w"] * length)) for length in lengths]
        return [Example(doc, doc.copy()) for doc in docs]

    return make


def word_counts(batches) -> list[list[int]]:
    return [[len(example) for example in batch] for batch in batches]


def test_a_batch_is_filled_up_to_its_size_special_tokens_included(make_batcher, make_examples):
    # 3 + 2 and 5 + 2 word pieces are 12; 2 + 2 more do not fit.
    examples = make_examples(3, 5, 2, 1)
    assert word_counts(make_batcher(12)(examples)) == [[3, 5], [2, 1]]
    assert word_counts(make_batcher(11)(examples)) == [[3], [5, 2], [1]]


def test_an_example_longer_than_a_batch_is_one_by_itself(make_batcher, make_examples):
    examples = make_examples(2, 20, 2)
    assert word_counts(make_batcher(10)(examples)) == [[2], [20], [2]]


def test_an_example_longer_than_a_batch_is_left_out_where_that_is_asked_for(
    make_batcher, make_examples
):
    examples = make_examples(2, 20, 8, 9, 2)
    batcher = make_batcher(10, discard_oversize=True)
    assert word_counts(batcher(examples)) == [[2], [8], [2]]


def test_a_size_that_leaves_no_example_is_refused(make_batcher, make_examples):
    batcher = make_batcher(3, discard_oversize=True)
    with pytest.raises(BiomedError, match="training.batcher.size is 3: all examples"):
        list(batcher(make_examples(2, 4)))


@pytest.mark.parametrize(
    ("size", "buckets", "message"),
    [(0, 0, "training.batcher.size is 0"), (9, -1, "training.batcher.buckets is -1")],
)
def test_numbers_that_cannot_be_are_refused(size, buckets, message):
    with pytest.raises(BiomedError, match=message):
        batch_by_word_pieces_v1("any", size, buckets)


def test_without_buckets_the_order_stays(make_batcher, make_examples):
    lengths = random.Random(0).choices(range(1, 30), k=200)
    batches = word_counts(make_batcher(64)(make_examples(*lengths)))
    assert sum(batches, []) == lengths
    assert all(sum(n + 2 for n in batch) <= 64 for batch in batches)


def test_buckets_put_examples_of_similar_length_together(make_batcher, make_examples):
    lengths = random.Random(0).choices(range(1, 60), k=2000)
    examples = make_examples(*lengths)

    def padding(buckets: int) -> float:
        """Padded word pieces for each one that is there."""
        batches = word_counts(make_batcher(256, buckets)(examples))
        assert sorted(sum(batches, [])) == sorted(lengths)
        assert all(sum(n + 2 for n in batch) <= 256 for batch in batches)
        padded = sum((max(batch) + 2) * len(batch) for batch in batches)
        return padded / sum(n + 2 for n in lengths)

    assert padding(0) > 1.6
    assert padding(4) < 1.4
    assert padding(20) < 1.1


def test_a_pool_is_so_many_batches_worth_of_the_examples_as_they_come(make_batcher, make_examples):
    # Two batches of 8 word pieces are a pool: the first four examples, then the others.
    examples = make_examples(2, 1, 2, 3, 5, 6, 1)
    batches = word_counts(make_batcher(8, buckets=2)(examples))
    assert sorted(batches[:2]) == [[1, 2], [2]] or sorted(batches[:3]) == [[1, 2], [2], [3]]
    assert sorted(sum(batches, [])) == [1, 1, 2, 2, 3, 5, 6]


def test_the_batches_of_a_pool_are_shuffled_by_the_seed(make_batcher, make_examples):
    examples = make_examples(*range(1, 60))

    def run(seed: int) -> list[list[int]]:
        random.seed(seed)
        return word_counts(make_batcher(80, buckets=100)(examples))

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert sorted(run(1)) == sorted(run(2))
    assert run(1) != sorted(run(1))


def test_what_draws_random_numbers_between_batches_does_not_change_them(
    make_batcher, make_examples
):
    examples = make_examples(*range(1, 60))
    random.seed(1)
    undisturbed = word_counts(make_batcher(80, buckets=3)(examples))
    random.seed(1)
    disturbed = []
    for batch in make_batcher(80, buckets=3)(examples):
        disturbed.append([len(example) for example in batch])
        random.random()
    assert disturbed == undisturbed


def test_many_texts_are_tokenized_at_a_time(monkeypatch, make_examples):
    tokenizer = WordTokenizer()
    monkeypatch.setattr(module, "load_tokenizer", lambda *_: tokenizer)
    monkeypatch.setattr(module, "_TEXTS_AT_A_TIME", 8)
    batcher = batch_by_word_pieces_v1("any", 20, 2)
    examples = make_examples(*range(1, 11), 3)
    list(batcher(examples))
    assert tokenizer.calls == [8, 3]


def test_a_stream_is_not_read_to_its_end_for_the_first_batch(make_batcher, make_examples):
    read = []

    def stream():
        for example in make_examples(*([1] * 5000)):
            read.append(1)
            yield example

    next(iter(make_batcher(12, buckets=2)(stream())))
    assert len(read) < 2000


def test_documents_are_batched_as_examples_are(make_batcher, make_examples):
    docs: list[Doc] = [example.predicted for example in make_examples(3, 5, 2, 1)]
    assert word_counts(make_batcher(12)(docs)) == [[3, 5], [2, 1]]


def test_the_registered_name_batches_by_the_text_of_the_prediction(tiny_bert, nlp):
    config = {
        "@batchers": "spacy_biomed.batch_by_word_pieces.v1",
        "encoder": str(tiny_bert),
        "size": 16,
        "buckets": 0,
    }
    batcher = spacy.registry.resolve({"batcher": config})["batcher"]
    doc = nlp.make_doc(WORD)
    tokenizer = load_tokenizer(str(tiny_bert)).tokenizer
    pieces = len(tokenizer.encode(WORD, add_special_tokens=True).ids)
    batches = list(batcher([Example(doc, doc.copy())] * 20))
    assert [len(batch) for batch in batches[:-1]] == [16 // pieces] * (len(batches) - 1)
    assert sum(len(batch) for batch in batches) == 20


def test_an_encoder_that_is_not_there_is_named_when_the_first_batch_is_asked_for(make_examples):
    batcher = batch_by_word_pieces_v1("./encoders/of/none", 16, 0)
    with pytest.raises(BiomedError, match="encoders/of/none: no such encoder directory"):
        next(iter(batcher(make_examples(1))))


@pytest.fixture
def make_sequence_batcher(make_batcher) -> Callable:
    """A batcher of sequences with the tokenizer of `make_batcher`."""
    return lambda size, **settings: batch_by_sequences_v1("any", size, **settings)


def test_a_document_within_the_window_is_one_sequence(make_sequence_batcher, make_examples):
    batcher = make_sequence_batcher(2, window=12, context=0)
    # A window has 10 word pieces beside the special tokens.
    assert word_counts(batcher(make_examples(10, 1, 3, 9, 2))) == [[10, 1], [3, 9], [2]]


def test_a_longer_document_is_as_many_sequences_as_it_has_windows(
    make_sequence_batcher, make_examples
):
    batcher = make_sequence_batcher(3, window=12, context=0)
    # 11 and 20 word pieces have two windows, 21 have three, 41 five.
    examples = make_examples(11, 1, 20, 2, 21, 41, 3)
    assert word_counts(batcher(examples)) == [[11, 1], [20, 2], [21], [41], [3]]


def test_windows_that_overlap_are_counted_as_the_encoder_makes_them(
    make_sequence_batcher, make_examples
):
    # Each window after the first brings 10 - 2 * 1 new word pieces: 18 are two windows, 19 three.
    batcher = make_sequence_batcher(2, window=12, context=1)
    assert word_counts(batcher(make_examples(18, 1, 1))) == [[18], [1, 1]]
    batcher = make_sequence_batcher(3, window=12, context=1)
    assert word_counts(batcher(make_examples(18, 1, 19, 1))) == [[18, 1], [19], [1]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size is 0: a batch takes at least 1 sequence"),
        ({"size": 1, "window": 100, "context": 50}, "window is 100: .*twice the context, 50"),
    ],
)
def test_sizes_of_sequences_that_cannot_be_are_bad_input(settings, message):
    with pytest.raises(BiomedError, match=message):
        batch_by_sequences_v1("any", **settings)


def test_sequences_are_counted_with_the_tokenizer_of_the_encoder(tiny_bert, nlp):
    config = {"@batchers": "spacy_biomed.batch_by_sequences.v1", "encoder": str(tiny_bert)}
    batcher = spacy.registry.resolve({"b": {**config, "size": 2, "window": 32, "context": 4}})["b"]
    doc = nlp.make_doc(WORD * 100)
    lengths = load_tokenizer(str(tiny_bert), None)([doc.text]).lengths
    assert lengths[0] >= 100
    assert [len(batch) for batch in batcher([nlp.make_doc("a")] * 2 + [doc])] == [2, 1]
