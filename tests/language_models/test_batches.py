"""The batches of a training: order, processes, lengths."""

from collections import Counter

import numpy as np
import pytest
from pretraining_recipes import make_text

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.language_models.batches import Masking, TrainingBatches, ValidationBatches
from spacy_biomed.language_models.packed_sequences import pack_documents


@pytest.fixture(scope="module")
def tokenizer(tiny_bert):
    return load_tokenizer(str(tiny_bert))


@pytest.fixture(scope="module")
def text(tokenizer, tmp_path_factory):
    """Sequences of 2 to 30 pieces."""
    place = tmp_path_factory.mktemp("text")
    return pack_documents(make_text(70), tokenizer, place, length=32, across_documents=False)


@pytest.fixture(scope="module")
def make(text, tokenizer):
    def make(**settings):
        settings = {"batch": 16, "device_batch": 4, "steps": 20, "seed": 5, **settings}
        return TrainingBatches(text, Masking(tokenizer, seed=settings["seed"]), **settings)

    return make


def rows_of(batches, items):
    """The sequences of some micro-batches, without padding."""
    rows = Counter()
    for item in items:
        batch = batches[item]
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
            rows[tuple(ids[mask > 0].tolist())] += 1
    return rows


def test_each_sequence_comes_once_in_an_epoch(make, text):
    batches = make(batch=len(text) // 7 + 1, device_batch=1, steps=50)
    indices = [index for step in range(50) for index in batches.sequences(step)[0].tolist()]
    places = [place for step in range(50) for place in batches.sequences(step)[1].tolist()]
    in_order = [index for _, index in sorted(zip(places, indices, strict=True))]
    assert sorted(places) == list(range(len(indices)))
    epochs = [in_order[start : start + len(text)] for start in range(0, len(indices), len(text))]
    for epoch in epochs[:-1]:
        assert sorted(epoch) == list(range(len(text)))
    assert epochs[0] != epochs[1]


def test_the_seed_decides_the_order(make):
    orders = [make(seed=seed).sequences(0)[0].tolist() for seed in (5, 5, 6)]
    assert orders[0] == orders[1] != orders[2]


def test_a_batch_larger_than_the_text_is_several_epochs_of_it(make, text):
    indices, _ = make(batch=2 * len(text), device_batch=2).sequences(3)
    assert Counter(indices.tolist()) == Counter(dict.fromkeys(range(len(text)), 2))


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_the_batches_that_one_has_with_the_same_masks(make, processes):
    alone = rows_of(make(), range(4, 12))
    shared = Counter()
    per_step = 4 // processes
    for rank in range(processes):
        own = make(rank=rank, processes=processes)
        assert len(own) == 20 * per_step
        shared += rows_of(own, range(per_step, 3 * per_step))
    assert shared == alone


def test_the_size_of_micro_batches_does_not_change_the_step(make):
    assert rows_of(make(device_batch=16), [2]) == rows_of(make(device_batch=2), range(16, 24))


def test_a_micro_batch_hangs_on_none_before_it(make):
    through, direct = make(), make()
    before = [through[item] for item in range(13)]
    again = direct[12]
    assert np.array_equal(before[12]["input_ids"], again["input_ids"])
    assert before[12]["seed"] == again["seed"]
    assert len({batch["seed"] for batch in before}) == 13


def test_a_micro_batch_has_the_same_seed_on_whichever_process(make):
    alone = [make()[item]["seed"] for item in range(4)]
    shared = [make(rank=rank, processes=2)[turn]["seed"] for turn in range(2) for rank in range(2)]
    assert alone == shared


def test_sequences_of_similar_length_are_padded_together(make, text):
    batches = make(batch=64, device_batch=8)
    padded = sum(batches[item]["input_ids"].size for item in range(8))
    needed = sum(int(batches[item]["attention_mask"].sum()) for item in range(8))
    together = make(batch=64, device_batch=64)[0]["input_ids"].size
    assert padded - needed < 0.2 * (together - needed)


def test_pieces_are_those_of_the_step(make, tokenizer):
    batches = make()
    for step in (3, 0):
        attended = sum(int(batches[4 * step + i]["attention_mask"].sum()) for i in range(4))
        assert batches.pieces(step) == attended - 2 * 16


def test_validation_is_the_whole_text_with_the_same_masks_each_time(text, tokenizer):
    masking = Masking(tokenizer, seed=1)
    runs = [ValidationBatches(text, masking, device_batch=size) for size in (8, 8, 5)]
    rows = [rows_of(batches, range(len(batches))) for batches in runs]
    assert rows[0] == rows[1] == rows[2]
    assert sum(rows[0].values()) == len(text)


def test_validation_has_other_masks_than_training(text, tokenizer):
    masking = Masking(tokenizer, seed=1)
    validation = ValidationBatches(text, masking, device_batch=len(text))
    own = rows_of(validation, [0])
    indices = np.arange(len(text))
    trained = masking([text[i] for i in range(len(text))], indices)
    same = sum(
        own[tuple(ids[mask > 0].tolist())]
        for ids, mask in zip(trained["input_ids"], trained["attention_mask"], strict=True)
    )
    assert same < len(text) / 4
