"""Initial weights from statistics of a text."""

import math

import numpy as np
import pytest
import torch
from pretraining_recipes import make_recipe, make_text
from scipy.sparse import csr_array

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models import text_start
from spacy_biomed.language_models.initialization import create_config, create_language_model
from spacy_biomed.language_models.packed_sequences import pack_documents
from spacy_biomed.language_models.pretraining import pretrain
from spacy_biomed.language_models.recipe import FreshEncoder
from spacy_biomed.language_models.text_start import (
    count_pairs,
    offsets,
    piece_vectors,
    positive_information,
    start_from_text,
)

SHAPE = {"layers": 2, "width": 32, "heads": 2, "feed_forward": 8, "positions": 64}


class Text:
    """Sequences of given pieces."""

    def __init__(self, *sequences):
        self.sequences = sequences

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, index):
        return type("Sequence", (), {"ids": np.array(self.sequences[index])})


@pytest.fixture(params=[("bert", "tiny_bert"), ("roberta", "tiny_roberta")], ids=lambda one: one[0])
def start(request, tmp_path):
    """Create models with the same seed: with random weights, and started from a text."""
    kind, name = request.param
    tokenizer = load_tokenizer(str(request.getfixturevalue(name)))
    text = pack_documents(make_text(), tokenizer, tmp_path, length=24, across_documents=True)

    def make(seed=0, **shape):
        config = create_config(tokenizer, FreshEncoder(type=kind, **{**SHAPE, **shape}))
        models = [create_language_model(config, seed=0, on_cpu=True).eval() for _ in range(2)]
        start_from_text(models[1], text, seed=seed)
        return models

    make.text, make.tokenizer = text, tokenizer
    return make


# --- Counting ---


def test_pairs_count_the_less_the_further_apart_they_are_and_not_across_sequences():
    counts = count_pairs(Text([0, 1, 2, 3, 4, 5], [5, 0]), 6).toarray()
    expected = np.zeros((6, 6))
    for one in range(6):
        for other in range(6):
            if 1 <= abs(one - other) <= 4:
                expected[one, other] = 1 / abs(one - other)
    expected[5, 0] = expected[0, 5] = 1.0
    np.testing.assert_allclose(counts, expected)


def test_counting_in_parts_changes_nothing(monkeypatch):
    sequences = [np.random.default_rng(seed).integers(0, 9, 7) for seed in range(10)]
    whole = count_pairs(Text(*sequences), 9).toarray()
    monkeypatch.setattr(text_start, "_AT_ONCE", 3)
    np.testing.assert_allclose(count_pairs(Text(*sequences), 9).toarray(), whole)
    monkeypatch.setattr(text_start, "_SEQUENCES", 5)
    every_other = count_pairs(Text(*sequences[::2]), 9).toarray()
    np.testing.assert_allclose(count_pairs(Text(*sequences), 9).toarray(), every_other)


def test_information_is_that_worked_out_by_hand():
    counts = np.array([[0.0, 6.0, 1.0], [6.0, 0.0, 1.0], [1.0, 1.0, 6.0]])
    # Pieces occur 7, 7 and 8 of 22 times; as contexts these counts have the exponent 0.75.
    powers = [7**0.75, 7**0.75, 8**0.75]
    often, rarer = (power / sum(powers) for power in (8**0.75, 7**0.75))
    together = math.log(6 / 22 / (7 / 22 * rarer))
    itself = math.log(6 / 22 / (8 / 22 * often))
    expected = [[0, together, 0], [together, 0, 0], [0, 0, itself]]  # 0: rarer than by chance
    np.testing.assert_allclose(positive_information(csr_array(counts)).toarray(), expected)


def test_vectors_of_pieces_in_like_company_are_alike_and_none_is_longer_than_usual():
    # 0 and 1 occur before 4 and 5, 2 and 3 before 6 and 7; 8 is rare and 9 does not occur.
    sequences = [[one, 4 + i % 2] for i in range(40) for one in (0, 1)]
    sequences += [[one, 6 + i % 2] for i in range(40) for one in (2, 3)]
    vectors = piece_vectors(count_pairs(Text(*sequences, [8, 0]), 10), 4)
    lengths = np.linalg.norm(vectors, axis=1)
    cosine = vectors @ vectors.T / np.maximum(np.outer(lengths, lengths), 1e-9)
    assert cosine[0, 1] > 0.9 and cosine[2, 3] > 0.9
    assert abs(cosine[0, 2]) < 0.2
    assert not vectors[9].any()
    root_mean_squares = np.sqrt((vectors**2).mean(axis=1))
    assert np.median(root_mean_squares[:9]) == pytest.approx(1)
    assert root_mean_squares.max() == pytest.approx(1)


# --- Weights ---


def test_heads_look_at_their_offsets(start):
    _, model = start(width=128, heads=4)
    ids = torch.full((1, 40), start.tokenizer.mask)  # only positions are different
    first, second = model.base_model(ids, output_attentions=True).attentions
    places = torch.arange(10, 30)
    for head, offset in enumerate(offsets(4)):
        seen = first[0, head, places].argmax(dim=1) - places
        assert ((seen - offset).abs() <= 0.5).all()
    near = [second[0, head, places, places + 1].mean() for head in range(4)]
    assert near[1] > 4 / 40 and max(near[2:]) < 1.5 / 40


def test_offsets_are_on_both_sides_and_grow():
    assert offsets(5) == [-1.0, 1.0, -2.5, 2.5, -4.0]


def test_only_embeddings_queries_keys_and_the_last_bias_change(start):
    random, started = (model.state_dict() for model in start())
    changed = {name for name in random if not torch.equal(random[name], started[name])}
    endings = ("word_embeddings.weight", "position_embeddings.weight", "query.weight")
    endings += ("key.weight", "decoder.weight", "decoder.bias", "predictions.bias", "lm_head.bias")
    assert all(name.endswith(endings) for name in changed)
    assert all(any(name.endswith(ending) for name in changed) for ending in endings[:6])
    [embeddings] = [name for name in changed if name.endswith("word_embeddings.weight")]
    seen = np.unique(np.concatenate([start.text[i].ids for i in range(len(start.text))]))
    rows = (random[embeddings] != started[embeddings]).any(dim=1).nonzero()[:, 0].tolist()
    assert rows == seen.tolist()


def test_the_model_expects_pieces_as_often_as_they_are_in_the_text(start):
    _, model = start()
    bias = model.get_output_embeddings().bias.detach()
    ids = np.concatenate([start.text[i].ids for i in range(len(start.text))])
    frequency = np.bincount(ids, minlength=len(bias))
    usual = frequency >= 10
    expected = np.log(frequency[usual])
    found = bias.numpy()[usual]
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=0.3)


def test_the_seed_decides(start):
    first, same, other = (start(seed=seed)[1].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_vocabulary_smaller_than_the_width_is_bad_input(start):
    size = start.tokenizer.tokenizer.get_vocab_size()
    with pytest.raises(BiomedError, match=f"vocabulary of {size} word pieces is too small"):
        start(width=size + size % 2, heads=1)


# --- Training ---


def test_a_run_learns_sooner_from_a_text_than_from_chance(tmp_path):
    losses = {}
    for kind in ("random", "text"):
        folder = tmp_path / kind
        folder.mkdir()
        settings = {"encoder__start": kind, "encoder__width": 32, "encoder__dropout": 0.0}
        losses[kind] = pretrain(make_recipe(folder, training__steps=12, **settings)).loss
    assert losses["text"] < losses["random"] - 0.1


def test_a_start_that_cannot_be_is_told_with_its_place_in_the_recipe(tmp_path):
    recipe = make_recipe(tmp_path, encoder__start="text", encoder__width=150)
    with pytest.raises(BiomedError, match=r"recipe\.cfg:\d+: encoder\.start.* is too small"):
        pretrain(recipe)
    assert not recipe.output.directory.exists()
