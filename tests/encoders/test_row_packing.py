"""Several sequences in one line: where they lie, and that they do not see each other."""

import random
import shutil
from itertools import product

import numpy as np
import pytest
import torch
from small_encoders import NO_DROPOUT, SMALL
from transformers import AutoConfig, AutoModel

from spacy_biomed.annotations.pairs import pair
from spacy_biomed.encoders.batching.windows import batch_by_length, one_a_line, pack_by_length
from spacy_biomed.encoders.torch.torch_model import PACKING_ATTENTION, PACKING_MODEL_TYPES
from spacy_biomed.encoders.transformer_model import TransformerModel_v1

TEXTS = [
    "Aspirin reduced the risk of colorectal cancer in patients with diabetes.",
    "a",
    "Fiebre de 39 °C.",
    "",
    "No metastasis.\n\n",
    "Mutations of BRCA1 were found.",
    "   ",
    "Paracetamol cada 8 horas.",
]


def places(placements):
    """Padded places of all batches."""
    return sum(lines * width for lines, width in (batch.shape for batch in placements))


@pytest.mark.parametrize("budget", [16, 100, 512, 4096])
@pytest.mark.parametrize("seed", range(10))
def test_sequences_do_not_overlap_and_batches_stay_within_the_budget(seed, budget):
    rng = random.Random(seed)
    lengths = np.array([rng.choice([2, rng.randint(2, 60), 300]) for _ in range(1 + 9 * seed)])
    batches = pack_by_length(lengths, budget, longest=300)
    assert sorted(i for batch in batches for i in batch.sequences) == list(range(len(lengths)))
    longest = [int(lengths[batch.sequences].max()) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch, most in zip(batches, longest, strict=True):
        width = batch.shape[1]
        assert most <= width < most + 32 and (width % 32 == 0 or width == 300)
        taken = set()
        for sequence, line, start in zip(batch.sequences, batch.lines, batch.starts, strict=True):
            own = {(line, place) for place in range(start, start + lengths[sequence])}
            assert not own & taken
            assert start + lengths[sequence] <= width
            taken |= own
        lines = batch.shape[0]
        assert batch.shape == (lines, width)
        assert set(batch.lines) == set(range(lines))
        assert lines == 1 or lines * width <= budget


def test_sentences_leave_little_padding():
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 70, size=32)
    packed = pack_by_length(lengths, 1024, longest=512)
    alone = [one_a_line(chosen, lengths) for chosen in batch_by_length(lengths, 1024)]
    assert places(packed) < 1.2 * lengths.sum()
    assert places(packed) < 0.9 * places(alone)


def test_batches_are_about_equally_large():
    sizes = [len(batch.sequences) for batch in pack_by_length(np.full(33, 32), 1024, 512)]
    assert sizes == [19, 14]


def test_nothing_makes_no_batch():
    assert pack_by_length(np.zeros(0, dtype="int64"), 10, 512) == []


def test_one_long_sequence_may_be_larger_than_the_budget():
    batches = pack_by_length(np.array([4, 50, 3]), 10, longest=50)
    assert [batch.sequences.tolist() for batch in batches] == [[1], [0, 2]]


def test_few_shapes_recur():
    """A new shape costs time and memory in PyTorch."""
    rng = np.random.default_rng(0)
    widths = {
        batch.shape[1]
        for _ in range(200)
        for batch in pack_by_length(rng.integers(5, 120, size=20), 1024, longest=512)
    }
    assert widths <= {32, 64, 96, 128}


def test_no_line_is_longer_than_the_encoder_can_read():
    batches = pack_by_length(np.array([80, 70, 9]), 1024, longest=80)
    assert {batch.shape[1] for batch in batches} == {80}


@pytest.fixture(scope="module")
def make_family(tiny_bert, tmp_path_factory):
    """A small random encoder of a family, with the vocabulary of `tiny_bert`."""

    def make(model_type):
        path = tmp_path_factory.mktemp("encoders") / model_type
        shutil.copytree(tiny_bert, path)
        (path / "model.safetensors").unlink()
        vocabulary = AutoConfig.from_pretrained(tiny_bert)
        config = AutoConfig.for_model(
            model_type,
            vocab_size=vocabulary.vocab_size,
            pad_token_id=vocabulary.pad_token_id,
            embedding_size=16,
            max_position_embeddings=80,
            type_vocab_size=2,
            **SMALL,
            **NO_DROPOUT,
        )
        torch.manual_seed(4)
        AutoModel.from_config(config).save_pretrained(path)
        return path

    return make


def make_docs(nlp):
    docs = [nlp.make_doc(text) for text in TEXTS]
    docs.insert(2, pair(nlp, "Aspirin reduced the risk.", "No metastasis."))
    return docs


def spy_on_batches(model, monkeypatch):
    """Record the batches of sequences that are learned from."""
    seen, begin_update = [], model.shims[0].begin_update

    def record(batches):
        seen.extend(batches)
        return begin_update(batches)

    monkeypatch.setattr(model.shims[0], "begin_update", record)
    return seen


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    "model_type, attention",
    [
        (model_type, attention)
        for model_type, attention in product(PACKING_MODEL_TYPES, PACKING_ATTENTION)
        if model_type != "electra" or attention == "eager"  # it has no other
    ],
)
def test_training_sees_each_text_as_if_it_were_alone(
    make_family, nlp, monkeypatch, model_type, attention
):
    path = make_family(model_type)
    model = TransformerModel_v1(str(path), precision="fp32", window=24, context=4).initialize()
    shim = model.shims[0]
    encoder = AutoModel.from_pretrained(path, attn_implementation=attention)
    shim.set_encoder(shim.tokenizer, encoder)
    batches = spy_on_batches(model, monkeypatch)
    docs = make_docs(nlp)
    batch, backprop = model.begin_update(docs)
    assert any(one.shared is not None for one in batches)
    assert sum(len(one.ids) for one in batches) < len(docs)
    for doc, encoding in zip(docs, batch.split(), strict=True):
        np.testing.assert_allclose(encoding.hidden, model.predict([doc]).hidden, atol=1e-5)

    weights = np.random.default_rng(0).normal(size=batch.hidden.shape).astype("float32")
    backprop(weights)
    parameters = dict(shim._model.named_parameters())
    together = {name: p.grad.clone() for name, p in parameters.items() if p.grad is not None}
    shim._model.zero_grad()
    ends = np.cumsum(batch.row_counts)
    for doc, end, count in zip(docs, ends, batch.row_counts, strict=True):
        _, backprop = model.begin_update([doc])
        backprop(weights[end - count : end])
    assert len(together) > 20
    for name, gradient in together.items():
        torch.testing.assert_close(parameters[name].grad, gradient, atol=1e-4, rtol=1e-4)


def test_an_encoder_that_takes_no_positions_gets_a_line_for_each_text(
    tiny_distilbert, make_model, nlp, monkeypatch
):
    model = make_model(tiny_distilbert)
    batches = spy_on_batches(model, monkeypatch)
    model.begin_update(make_docs(nlp))
    assert [one.shared for one in batches] == [None] * len(batches)
