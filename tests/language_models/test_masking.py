"""Masking: shares of masked pieces, whole words, and reproducibility."""

import numpy as np
import pytest

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.language_models.batches import Masking
from spacy_biomed.language_models.packed_sequences import Sequence

SEQUENCES, LENGTH = 400, 100


@pytest.fixture(scope="module", params=["tiny_bert", "tiny_roberta"])
def tokenizer(request):
    return load_tokenizer(str(request.getfixturevalue(request.param)))


def special_ids(tokenizer):
    return {*tokenizer.prefix, *tokenizer.suffix, tokenizer.pad, tokenizer.mask}


@pytest.fixture(scope="module")
def sequences(tokenizer):
    """Random pieces in random words, with a separator in the middle."""
    draw = np.random.default_rng(0)
    ordinary = [
        i for i in range(tokenizer.tokenizer.get_vocab_size()) if i not in special_ids(tokenizer)
    ][10:]
    made = []
    for _ in range(SEQUENCES):
        ids = draw.choice(ordinary, LENGTH)
        ids[LENGTH // 2] = tokenizer.suffix[-1]
        starts = draw.random(LENGTH) < 0.5
        starts[LENGTH // 2 : LENGTH // 2 + 2] = True
        made.append(Sequence(ids, starts))
    return made


def originals(tokenizer, batch):
    """The input ids with the labels put back."""
    ids = batch["input_ids"].copy()
    ids.ravel()[batch["positions"]] = batch["labels"]
    return ids


def places(sequences):
    return np.arange(len(sequences))


@pytest.mark.parametrize("whole_words", [False, True])
def test_the_share_that_was_asked_for_is_chosen(tokenizer, sequences, whole_words):
    for probability in (0.15, 0.4):
        masking = Masking(tokenizer, probability=probability, whole_words=whole_words)
        batch = masking(sequences, places(sequences))
        share = len(batch["labels"]) / (SEQUENCES * (LENGTH - 1))
        # 39,600 pieces in words of two: the standard deviation is at most 0.0035.
        assert share == pytest.approx(probability, abs=0.0125)


@pytest.mark.parametrize("whole_words", [False, True])
def test_of_those_80_percent_are_hidden_10_are_others_and_10_stay(
    tokenizer, sequences, whole_words
):
    batch = Masking(tokenizer, probability=0.5, whole_words=whole_words)(
        sequences, places(sequences)
    )
    seen = batch["input_ids"].ravel()[batch["positions"]]
    hidden, same = seen == tokenizer.mask, seen == batch["labels"]
    # 19,800 pieces: the standard deviation is 0.0028. 1 of 180 random pieces is the original.
    assert hidden.mean() == pytest.approx(0.8, abs=0.01)
    assert same.mean() == pytest.approx(0.1, abs=0.01)
    others = seen[~hidden & ~same]
    assert not special_ids(tokenizer) & set(others.tolist())
    assert len(set(others.tolist())) > 100


def test_what_is_not_chosen_stays_and_special_tokens_are_never_chosen(tokenizer, sequences):
    batch = Masking(tokenizer, probability=0.9)(sequences, places(sequences))
    ids = originals(tokenizer, batch)
    before, after = len(tokenizer.prefix), len(tokenizer.suffix)
    assert ids[:, :before].tolist() == [tokenizer.prefix] * SEQUENCES
    assert ids[:, -after:].tolist() == [tokenizer.suffix] * SEQUENCES
    assert np.array_equal(ids[:, before:-after], np.stack([one.ids for one in sequences]))
    assert not special_ids(tokenizer) & set(batch["labels"].tolist())


def test_short_sequences_are_padded_and_padding_is_never_chosen(tokenizer, sequences):
    short = [
        Sequence(one.ids[:n], one.word_starts[:n])
        for n, one in zip((5, 40, 1), sequences, strict=False)
    ]
    batch = Masking(tokenizer, probability=0.9)(short, places(short))
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    assert batch["attention_mask"].sum(axis=1).tolist() == [5 + around, 40 + around, 1 + around]
    assert batch["input_ids"].shape == (3, 40 + around)
    is_padding = batch["attention_mask"] == 0
    assert set(batch["input_ids"][is_padding].tolist()) == {tokenizer.pad}
    assert not is_padding.ravel()[batch["positions"]].any()


def test_each_sequence_has_something_to_predict(tokenizer, sequences):
    for whole_words in (False, True):
        masking = Masking(tokenizer, probability=1e-6, whole_words=whole_words)
        batch = masking(sequences, places(sequences))
        rows = batch["positions"] // batch["input_ids"].shape[1]
        assert set(rows.tolist()) == set(range(SEQUENCES))


def test_words_are_chosen_whole_or_not_at_all(tokenizer, sequences):
    batch = Masking(tokenizer, whole_words=True)(sequences, places(sequences))
    chosen = np.zeros(batch["input_ids"].shape, dtype=bool)
    chosen.ravel()[batch["positions"]] = True
    before = len(tokenizer.prefix)
    several = 0
    for row, sequence in zip(chosen, sequences, strict=True):
        starts = np.flatnonzero(sequence.word_starts | (np.arange(LENGTH) == 0))
        for word in np.split(row[before : before + LENGTH], starts[1:]):
            assert word.all() or not word.any()
            several += len(word) > 1 and word.all()
    assert several > 500


def test_without_whole_words_parts_of_words_are_chosen(tokenizer, sequences):
    batch = Masking(tokenizer)(sequences, places(sequences))
    chosen = np.zeros(batch["input_ids"].shape, dtype=bool)
    chosen.ravel()[batch["positions"]] = True
    before = len(tokenizer.prefix)
    inside = np.stack([~one.word_starts for one in sequences])
    row = chosen[:, before : before + LENGTH]
    differ = inside[:, 1:] & (row[:, 1:] != row[:, :-1])
    assert differ.sum() > 1000


def test_masks_follow_from_seed_and_place_whatever_else_is_in_the_batch(tokenizer, sequences):
    masking = Masking(tokenizer, seed=3)
    together = masking(sequences[:6], np.arange(6) + 1000)
    longer = Sequence(np.tile(sequences[0].ids, 2), np.tile(sequences[0].word_starts, 2))
    apart = masking([longer, sequences[4]], np.array([7, 1004]))
    width = together["input_ids"].shape[1] - len(tokenizer.suffix)
    assert np.array_equal(together["input_ids"][4, :width], apart["input_ids"][1, :width])
    again = Masking(tokenizer, seed=3)(sequences[:6], np.arange(6) + 1000)
    assert np.array_equal(again["input_ids"], together["input_ids"])


def test_another_place_seed_or_stream_gives_other_masks(tokenizer, sequences):
    one = sequences[:1]
    first = Masking(tokenizer, seed=3)(one, np.array([0]))["positions"].tolist()
    others = [
        Masking(tokenizer, seed=3)(one, np.array([1])),
        Masking(tokenizer, seed=4)(one, np.array([0])),
        Masking(tokenizer, seed=3)(one, np.array([0]), stream=1),
    ]
    different = {tuple(other["positions"].tolist()) for other in others}
    assert len({tuple(first), *different}) == 4
