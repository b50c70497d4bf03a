"""Schedules of tasks: which one each step is for, and how many steps are an epoch."""

import random
from collections import Counter

import pytest
import spacy
from spacy.training import Example
from spacy.util import minibatch

from spacy_biomed.errors import BiomedError
from spacy_biomed.training.multitask import TASK_KEY
from spacy_biomed.training.multitask_batchers import proportional_v1, round_robin_v1

SCHEDULES = [round_robin_v1, proportional_v1]


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.fixture
def make_examples(nlp):
    """So many examples of each task, shuffled; a text is its task and number."""

    def make(**counts: int) -> list[Example]:
        examples = []
        for task, count in counts.items():
            for number in range(count):
                doc = nlp.make_doc(f"{task} {number}")
                reference = doc.copy()
                reference.user_data[TASK_KEY] = task
                examples.append(Example(doc, reference))
        random.Random(0).shuffle(examples)
        return examples

    return make


def pairs(examples):
    """Two examples in a batch."""
    return minibatch(examples, 2)


def tasks(batches):
    """The task of each batch, of which it has no other."""
    of_batches = [{example.reference.user_data[TASK_KEY] for example in batch} for batch in batches]
    assert all(len(of_batch) == 1 for of_batch in of_batches)
    return [of_batch.pop() for of_batch in of_batches]


def texts(batches, task=None):
    return [
        example.text
        for batch in batches
        for example in batch
        if task in (None, example.reference.user_data[TASK_KEY])
    ]


def test_round_robin_takes_a_batch_of_each_task_in_turn_until_the_largest_is_used_up(make_examples):
    batches = list(round_robin_v1(pairs)(make_examples(b=9, c=3, a=4)))
    assert tasks(batches) == ["a", "b", "c"] * 5
    assert sorted(texts(batches, "b")) == sorted(f"b {i}" for i in range(9))


def test_smaller_corpora_are_recycled_a_whole_pass_at_a_time(make_examples):
    batches = list(round_robin_v1(pairs)(make_examples(a=12, b=4)))
    recycled = texts(batches, "b")
    passes = [recycled[start : start + 4] for start in (0, 4, 8)]
    assert all(sorted(one) == [f"b {i}" for i in range(4)] for one in passes)
    assert len({tuple(one) for one in passes}) > 1  # in another order


def test_the_first_pass_has_the_order_in_which_the_examples_come(make_examples):
    examples = make_examples(a=6, b=2)
    batches = list(round_robin_v1(pairs)(examples))
    own = [example.text for example in examples if example.text.startswith("a")]
    assert texts(batches, "a") == own


def test_proportional_gives_every_batch_of_every_task_once_shuffled_together(make_examples):
    random.seed(1)
    examples = make_examples(a=40, b=10, c=2)
    batches = list(proportional_v1(pairs)(examples))
    assert Counter(tasks(batches)) == {"a": 20, "b": 5, "c": 1}
    assert sorted(texts(batches)) == sorted(example.text for example in examples)
    order = tasks(batches)
    assert order != sorted(order)
    assert set(order[:10]) >= {"a", "b"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_order_follows_from_the_seed(make_examples, schedule):
    examples = make_examples(a=30, b=7, c=11)

    def run(seed, disturb=False):
        random.seed(seed)
        order = []
        for batch in schedule(pairs)(examples):
            order.append(texts([batch]))
            if disturb:
                random.random()
        return order

    assert run(1) == run(1) == run(1, disturb=True)
    assert run(1) != run(2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_second_epoch_is_another_order(make_examples, schedule):
    examples = make_examples(a=30, b=7)
    random.seed(0)
    batcher = schedule(pairs)
    assert [texts([b]) for b in batcher(examples)] != [texts([b]) for b in batcher(examples)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_task_is_batched_as_without_a_schedule(make_examples, schedule):
    examples = make_examples(a=9)
    batches = list(schedule(pairs)(examples))
    assert sorted(map(texts, ([b] for b in batches))) == sorted(
        map(texts, ([b] for b in pairs(examples)))
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_examples_have_no_batches(schedule):
    assert list(schedule(pairs)([])) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_examples_of_no_task_are_refused(nlp, schedule):
    doc = nlp.make_doc("a")
    with pytest.raises(BiomedError, match="use spacy_biomed.MultiTaskCorpus.v1"):
        list(schedule(pairs)([Example(doc, doc.copy())]))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_task_without_batches_is_refused(make_examples, schedule):
    def long_ones(examples):
        return pairs([example for example in examples if example.text.startswith("a")])

    with pytest.raises(BiomedError, match="no batch of the task 'b'"):
        list(schedule(long_ones)(make_examples(a=4, b=1)))


BY_WORDS = {
    "@batchers": "spacy.batch_by_words.v1",
    "size": 4,
    "tolerance": 0.0,
    "discard_oversize": False,
}
BY_WORD_PIECES = {"@batchers": "spacy_biomed.batch_by_word_pieces.v1", "size": 20, "buckets": 2}


@pytest.mark.parametrize("name", ["round_robin", "proportional"])
@pytest.mark.parametrize("inner", [BY_WORDS, BY_WORD_PIECES], ids=["words", "word pieces"])
def test_they_are_registered_around_another_batcher(make_examples, name, inner, tiny_bert):
    if inner is BY_WORD_PIECES:
        inner = {**inner, "encoder": str(tiny_bert)}
    config = {"@batchers": f"spacy_biomed.{name}.v1", "batcher": inner}
    batcher = spacy.registry.resolve({"batcher": config})["batcher"]
    batches = list(batcher(make_examples(a=8, b=3)))
    assert set(tasks(batches)) == {"a", "b"}
    assert len(batches) > 2


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_task_can_have_a_batcher_of_its_own(make_examples, schedule):
    def threes(examples):
        return minibatch(examples, 3)

    batches = list(schedule(pairs, {"b": threes})(make_examples(a=6, b=9)))
    sizes = {name: [] for name in "ab"}
    for name, batch in zip(tasks(batches), batches, strict=True):
        sizes[name].append(len(batch))
    assert sizes == {"a": [2, 2, 2], "b": [3, 3, 3]}
