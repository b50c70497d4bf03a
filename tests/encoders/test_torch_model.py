import json
import shutil

import numpy as np
import pytest
import spacy
import torch
from encoded_rows import TEXTS, spy_on_shapes
from spacy.tokens import Doc
from thinc.api import SGD, Adam, ConfigValidationError
from transformers import AutoModel, AutoTokenizer

from spacy_biomed.encoders.batching.sequences import SequenceBatch
from spacy_biomed.encoders.encoder_model import max_sequence_length
from spacy_biomed.encoders.torch.dropout import ByteDropout
from spacy_biomed.encoders.torch.precision import resolve_precision
from spacy_biomed.encoders.transformer_model import TransformerModel_v1
from spacy_biomed.errors import BiomedError
from spacy_biomed.training.optimizer import AdamW_v1


def direct(path, text):
    """Hidden rows of one text, by transformers alone: (rows, width)."""
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        return model(**inputs).last_hidden_state[0].numpy()


def words(nlp, count):
    """A document of so many word pieces of byte-level BPE."""
    return Doc(nlp.vocab, words=["a"] * count, spaces=[False] + [True] * (count - 1))


def bert_words(nlp, count):
    return Doc(nlp.vocab, words=["a"] * count)


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_rows_of_a_short_document_are_those_of_automodel(any_encoder, make_model, nlp, text):
    batch = make_model(any_encoder).predict([nlp.make_doc(text)])
    np.testing.assert_allclose(batch.hidden, direct(any_encoder, text), atol=1e-5)


def test_ids_are_those_of_autotokenizer(any_encoder, make_model, docs):
    tokenizer = AutoTokenizer.from_pretrained(any_encoder)
    batch = make_model(any_encoder).predict(docs)
    ids = [tokenizer(text)["input_ids"] if text else [] for text in TEXTS]
    assert batch.ids.tolist() == [i for own in ids for i in own]
    assert batch.row_counts.tolist() == [len(own) for own in ids]


@pytest.mark.parametrize("batch_pieces", [None, 1, 40])
def test_padding_does_not_leak_between_documents(any_encoder, make_model, docs, batch_pieces):
    model = make_model(any_encoder, batch_pieces=batch_pieces, window=24, context=4)
    together = model.predict(docs).split()
    for doc, encoding in zip(docs, together, strict=True):
        alone = model.predict([doc])
        np.testing.assert_allclose(encoding.hidden, alone.hidden, atol=1e-5)
        np.testing.assert_array_equal(encoding.indices, alone.indices)
        np.testing.assert_array_equal(encoding.piece_counts, alone.piece_counts)


def test_indices_lead_to_the_pieces_of_each_token(tiny_bert, make_model, nlp):
    doc = nlp.make_doc("Aspirin; 500 mg\nnáuseas.")
    [encoding] = make_model(tiny_bert).predict([doc]).split()
    borders = np.concatenate([[0], np.cumsum(encoding.piece_counts)])
    for token in doc:
        rows = encoding.indices[borders[token.i] : borders[token.i + 1]]
        pieces = [encoding.id_to_token(encoding.ids[row]) for row in rows.tolist()]
        assert "".join(piece.removeprefix("##") for piece in pieces) == token.text.strip()


@pytest.mark.parametrize(
    "pieces, sequences", [(0, 0), (1, 1), (509, 1), (510, 1), (511, 2), (512, 2), (513, 2)]
)
def test_a_document_within_the_window_is_encoded_once(
    tiny_bert, make_model, nlp, monkeypatch, pieces, sequences
):
    model = make_model(tiny_bert)
    shapes = spy_on_shapes(model, monkeypatch)
    batch = model.predict([bert_words(nlp, pieces)])
    assert sum(count for count, _ in shapes) == sequences
    assert all(length <= 512 for _, length in shapes)
    assert batch.hidden.shape == (pieces + 2 if pieces else 0, 16)
    assert batch.piece_counts.tolist() == [1] * pieces
    assert np.isfinite(batch.hidden).all()


@pytest.mark.parametrize("text", ["   ", "\n", "😀", "\u0301", "\u200b"])
def test_texts_of_hardly_anything_have_rows(any_encoder, make_model, nlp, text):
    batch = make_model(any_encoder).predict([nlp.make_doc(text)])
    np.testing.assert_allclose(batch.hidden, direct(any_encoder, text), atol=1e-5)


def test_a_batch_of_empty_documents_has_no_rows(tiny_bert, make_model, nlp):
    model = make_model(tiny_bert)
    batch, backprop = model.begin_update([nlp.make_doc(""), nlp.make_doc("")])
    assert batch.hidden.shape == (0, 16)
    assert backprop(np.zeros((0, 16), dtype="float32")) == []


def test_rows_of_a_long_document_are_those_of_its_windows(any_encoder, make_model, nlp):
    text = "Aspirin reduced the risk of colorectal cancer in patients, y la fiebre de 39 grados."
    tokenizer, model = (
        AutoTokenizer.from_pretrained(any_encoder),
        make_model(any_encoder, window=20, context=4),
    )
    # As many pieces as the arithmetic below is for.
    pieces = tokenizer(text * 3, add_special_tokens=False)["input_ids"]
    offsets = tokenizer(text * 3, add_special_tokens=False, return_offsets_mapping=True)
    text = (text * 3)[: offsets["offset_mapping"][44][1]]
    pieces = pieces[:45]
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == pieces
    # Windows of 20 - 2 pieces, 9 apart; each piece from the window where it is most central.
    plan = [((0, 18), (0, 13)), ((9, 27), (13, 22)), ((18, 36), (22, 31)), ((27, 45), (31, 45))]
    encoder = AutoModel.from_pretrained(any_encoder).eval()
    rows = []
    for (start, end), (keep_start, keep_end) in plan:
        ids = [tokenizer.cls_token_id, *pieces[start:end], tokenizer.sep_token_id]
        with torch.no_grad():
            hidden = encoder(torch.tensor([ids])).last_hidden_state[0].numpy()
        first = 0 if start == 0 else 1 + keep_start - start
        last = len(ids) if end == 45 else 1 + keep_end - start
        rows.append(hidden[first:last])
    batch = model.predict([nlp.make_doc("b"), nlp.make_doc(text)])
    np.testing.assert_allclose(batch.split()[1].hidden, np.concatenate(rows), atol=1e-5)


def test_the_encoder_sees_at_most_what_its_positions_cover(
    tiny_roberta, make_model, nlp, monkeypatch
):
    model = make_model(tiny_roberta, window=10_000)
    assert model.shims[0]._model.config.max_position_embeddings == 514
    shapes = spy_on_shapes(model, monkeypatch)
    batch = model.predict([words(nlp, 1200)])
    assert 256 < max(length for _, length in shapes) <= 512
    assert np.isfinite(batch.hidden).all()


def test_positions_that_the_families_cover(tiny_bert, tiny_roberta, tiny_distilbert):
    lengths = [
        max_sequence_length(AutoModel.from_pretrained(path))
        for path in (tiny_bert, tiny_roberta, tiny_distilbert)
    ]
    assert lengths == [512, 512, 512]


def test_the_gradient_is_that_of_autograd(any_encoder, make_model, docs):
    model = make_model(any_encoder, batch_pieces=60)
    batch, backprop = model.begin_update(docs)
    weights = np.random.default_rng(0).normal(size=batch.hidden.shape).astype("float32")
    backprop(weights)

    tokenizer, encoder = (
        AutoTokenizer.from_pretrained(any_encoder),
        AutoModel.from_pretrained(any_encoder),
    )
    encoder.train()
    texts = [text for text in TEXTS if text]
    hidden = [
        encoder(
            **tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        ).last_hidden_state[0]
        for text in texts
    ]
    (torch.cat(hidden) * torch.from_numpy(weights)).sum().backward()
    ours = dict(model.shims[0]._model.named_parameters())
    compared = 0
    for name, parameter in encoder.named_parameters():
        if parameter.grad is None or name.startswith("pooler"):
            continue
        torch.testing.assert_close(ours[name].grad, parameter.grad, atol=1e-4, rtol=1e-4)
        compared += parameter.grad.abs().sum() > 0
    assert compared > 10


def test_only_kept_rows_of_overlapping_windows_send_gradients(tiny_bert, make_model, nlp):
    """A row's gradient reaches the encoder once, from the window that the row is kept from."""
    doc = bert_words(nlp, 40)
    model = make_model(tiny_bert, window=20, context=4)
    batch, backprop = model.begin_update([doc])
    backprop(np.ones_like(batch.hidden))
    # The last layer's normalisation bias is added to every row: its gradient counts the rows.
    bias = model.shims[0]._model.encoder.layer[-1].output.LayerNorm.bias
    np.testing.assert_allclose(bias.grad.numpy(), np.full(16, 42.0), rtol=1e-5)


def test_gradients_add_up_until_the_step(tiny_bert, make_model, docs):
    model = make_model(tiny_bert)
    parameter = model.shims[0]._model.embeddings.word_embeddings.weight
    batch, backprop = model.begin_update(docs)
    backprop(np.ones_like(batch.hidden) * np.arange(16, dtype="float32"))
    once = parameter.grad.clone()
    batch, backprop = model.begin_update(docs)
    backprop(np.ones_like(batch.hidden) * np.arange(16, dtype="float32"))
    torch.testing.assert_close(parameter.grad, 2 * once)
    model.finish_update(AdamW_v1(1e-3))
    assert parameter.grad is None


@pytest.mark.parametrize("optimizer", [AdamW_v1, Adam])
def test_a_step_moves_the_encoder_against_the_gradient(tiny_bert, make_model, docs, optimizer):
    """Under any optimizer, stepped in PyTorch or through thinc."""
    model = make_model(tiny_bert)
    target = np.zeros_like(model.predict(docs).hidden)
    sgd = optimizer(1e-3)
    errors = []
    for _ in range(5):
        batch, backprop = model.begin_update(docs)
        errors.append(float(((batch.hidden - target) ** 2).sum()))
        backprop(2 * (batch.hidden - target))
        model.finish_update(sgd)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0]


def test_gradient_checkpointing_gives_the_same_gradient(tiny_bert, make_model, docs):
    gradients = []
    for checkpointing in (False, True):
        model = make_model(tiny_bert, gradient_checkpointing=checkpointing)
        batch, backprop = model.begin_update(docs)
        backprop(np.ones_like(batch.hidden) * np.arange(16, dtype="float32"))
        gradients.append(model.shims[0]._model.embeddings.word_embeddings.weight.grad)
    assert gradients[0].abs().sum() > 0
    torch.testing.assert_close(gradients[0], gradients[1])


def test_prediction_keeps_no_graph_and_switches_dropout_off(tiny_bert, make_model, docs, tmp_path):
    path = tmp_path / "dropout"
    shutil.copytree(tiny_bert, path)
    config = json.loads((path / "config.json").read_text(encoding="utf8"))
    config["hidden_dropout_prob"] = 0.5
    (path / "config.json").write_text(json.dumps(config), encoding="utf8")
    model = make_model(path)
    plain = make_model(tiny_bert).predict(docs).hidden
    np.testing.assert_allclose(model.predict(docs).hidden, plain, atol=1e-6)  # as loaded
    assert not np.allclose(model.begin_update(docs)[0].hidden, plain, atol=1e-2)
    np.testing.assert_allclose(model.predict(docs).hidden, plain, atol=1e-6)


def test_bf16_roughly_agrees_with_fp32(any_encoder, make_model, docs):
    fp32 = make_model(any_encoder).predict(docs).hidden
    bf16 = make_model(any_encoder, precision="bf16").predict(docs).hidden
    assert bf16.dtype == np.float32
    assert not np.array_equal(bf16, fp32)
    np.testing.assert_allclose(bf16, fp32, atol=0.1)


def test_bf16_keeps_the_weights_and_their_gradients_in_fp32(tiny_bert, make_model, docs):
    model = make_model(tiny_bert, precision="bf16")
    batch, backprop = model.begin_update(docs)
    backprop(np.ones_like(batch.hidden))
    parameters = list(model.shims[0]._model.parameters())
    assert {parameter.dtype for parameter in parameters} == {torch.float32}
    assert {p.grad.dtype for p in parameters if p.grad is not None} == {torch.float32}


def autocast_rows(model, docs):
    """What the encoder of fp32 weights gives under autocast, without the copy."""
    shim = model.shims[0]
    cast, shim._encoder = shim._encoder, lambda is_train: shim._model.train(is_train)
    rows = model.predict(docs).hidden
    shim._encoder = cast
    return rows


def test_weights_cast_once_predict_what_autocast_predicts(any_encoder, make_model, docs):
    model = make_model(any_encoder, precision="bf16")
    np.testing.assert_array_equal(model.predict(docs).hidden, autocast_rows(model, docs))
    assert model.shims[0]._encoder(False) is model.shims[0]._encoder(False)


@pytest.mark.parametrize("change", ["step", "averages"])
def test_weights_are_cast_again_after_they_changed(tiny_bert, make_model, docs, change):
    model = make_model(tiny_bert, precision="bf16")
    shim = model.shims[0]
    before = model.predict(docs).hidden
    if change == "step":
        batch, backprop = model.begin_update(docs)
        backprop(np.ones_like(batch.hidden))
        model.finish_update(AdamW_v1(0.1))
        after = model.predict(docs).hidden
        expected = autocast_rows(model, docs)
    else:
        params = {
            (shim.id, name): 2 * value.detach().numpy()
            for name, value in shim._model.named_parameters()
        }
        with model.use_params(params):
            after = model.predict(docs).hidden
            expected = autocast_rows(model, docs)
        np.testing.assert_array_equal(model.predict(docs).hidden, before)
    np.testing.assert_array_equal(after, expected)
    assert not np.allclose(after, before, atol=1e-2)


def test_batches_at_the_same_time_give_what_one_thread_gives(any_encoder, make_model, docs):
    model = make_model(any_encoder, precision="fp32", batch_pieces=16)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = model.predict(docs * 5).hidden
        torch.set_num_threads(2)
        np.testing.assert_allclose(model.predict(docs * 5).hidden, expected, atol=1e-6)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.fixture
def threads():
    """Sets PyTorch's threads, for a test."""
    told = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(told)


def gradients(model, docs):
    batch, backprop = model.begin_update(docs)
    weights = np.random.default_rng(0).normal(size=batch.hidden.shape).astype("float32")
    backprop(weights)
    named = model.shims[0]._model.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_threads_do_not_change_what_is_learned(tiny_bert, make_model, docs, threads, precision):
    """Each batch has random numbers of its own, whichever thread computes it."""
    found = []
    for count in (1, 2, 2):
        threads(count)
        model = make_model(tiny_bert, precision=precision, batch_pieces=16)
        for module in model.shims[0]._model.modules():
            if isinstance(module, ByteDropout):
                module.threshold = 64
        torch.manual_seed(0)
        found.append(gradients(model, docs * 3))
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[1].items():
        assert torch.equal(gradient, found[2][name])
        coarse = {"fp32": 1e-4, "bf16": 0.05}[precision]
        scale = float(gradient.abs().max()) + 1e-3
        torch.testing.assert_close(found[0][name] / scale, gradient / scale, atol=coarse, rtol=0)


def test_rows_of_the_table_are_clear_again_after_a_step(tiny_bert, make_model, docs):
    """Whatever was in the last batch: the memory of the table's gradient is kept."""
    model, fresh = make_model(tiny_bert), make_model(tiny_bert)
    gradients(model, docs)
    model.finish_update(AdamW_v1(0.0, L2=0.0))
    name = "embeddings.word_embeddings.weight"
    torch.testing.assert_close(
        gradients(model, docs[:2])[name], gradients(fresh, docs[:2])[name], atol=1e-6, rtol=1e-5
    )


def test_the_padding_piece_has_no_gradient(tiny_bert, make_model, docs):
    model = make_model(tiny_bert)
    table = model.shims[0]._model.get_input_embeddings()
    gradient = gradients(model, docs)["embeddings.word_embeddings.weight"]
    assert gradient[table.padding_idx].abs().sum() == 0
    assert gradient.abs().sum() > 0


def test_frozen_parameters_get_no_gradient(tiny_bert, make_model, docs):
    model = make_model(tiny_bert)
    model.shims[0]._model.embeddings.requires_grad_(False)
    model.shims[0]._model.encoder.layer[0].requires_grad_(False)
    learned = gradients(model, docs)
    assert learned
    assert all(name.startswith("encoder.layer.1.") for name in learned)
    model.shims[0]._model.requires_grad_(False)
    model.finish_update(AdamW_v1(0.0))
    assert not gradients(model, docs)


def test_an_unknown_precision_in_a_config_is_refused():
    model = {"@architectures": "spacy_biomed.TransformerModel.v1", "name": "bert"}
    with pytest.raises(ConfigValidationError, match="'half'.*fp32"):
        spacy.registry.resolve({"model": {**model, "precision": "half"}})


def test_fp16_on_a_cpu_is_what_auto_is():
    cpu = torch.device("cpu")
    assert resolve_precision("fp16", cpu) == resolve_precision("auto", cpu) != "fp16"
    assert resolve_precision("fp16", torch.device("cuda")) == "fp16"
    assert resolve_precision("bf16", cpu) == "bf16"


class ScalerOnCpu:
    """Does what thinc's gradient scaler does on a GPU, which refuses to work on a CPU."""

    _enabled = True
    found_inf = False

    def scale(self, tensor):
        return tensor * 1024.0

    def unscale(self, tensors):
        for tensor in tensors:
            tensor /= 1024.0

    def update(self):
        pass


def test_scaled_gradients_of_several_batches_are_unscaled_once(tiny_bert, make_model, docs):
    steps = []
    for scaler in (None, ScalerOnCpu()):
        model = make_model(tiny_bert)
        shim = model.shims[0]
        shim._grad_scaler = scaler or shim._grad_scaler
        for _ in range(3):
            batch, backprop = model.begin_update(docs)
            backprop(np.ones_like(batch.hidden) * np.arange(16, dtype="float32"))
        model.finish_update(SGD(1e-4))
        steps.append(shim._model.embeddings.word_embeddings.weight.detach())
    assert not torch.equal(
        steps[0], make_model(tiny_bert).shims[0]._model.get_input_embeddings().weight
    )
    torch.testing.assert_close(steps[0], steps[1], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("window", [0, 2])
def test_a_window_without_room_for_a_piece_is_refused(tiny_bert, make_model, docs, window):
    with pytest.raises(BiomedError, match="window = "):
        make_model(tiny_bert, window=window).predict(docs)


def test_an_uninitialised_model_says_so(docs):
    with pytest.raises(ValueError, match="initialize"):
        TransformerModel_v1("bert").predict(docs)


def test_bytes_give_the_same_outputs(any_encoder, make_model, docs):
    model = make_model(any_encoder)
    again = TransformerModel_v1("not/there", precision="fp32").from_bytes(model.to_bytes())
    expected, batch = model.predict(docs), again.predict(docs)
    np.testing.assert_array_equal(batch.hidden, expected.hidden)
    np.testing.assert_array_equal(batch.ids, expected.ids)
    assert again.get_dim("nO") == 16


def test_an_uninitialised_model_survives_bytes(tiny_bert, docs):
    model = TransformerModel_v1(str(tiny_bert))
    again = TransformerModel_v1("not/there").from_bytes(model.to_bytes())
    assert again.attrs["name"] == str(tiny_bert)
    assert again.initialize().predict(docs).hidden.shape[1] == 16


def test_an_optimizer_goes_on_with_weights_that_are_loaded(tiny_bert, make_model, docs):
    model, sgd, moves = make_model(tiny_bert), AdamW_v1(1e-3), []
    for _ in range(2):
        model.from_bytes(model.to_bytes())
        before = model.shims[0]._model.get_input_embeddings().weight.detach().clone()
        batch, backprop = model.begin_update(docs)
        backprop(np.ones_like(batch.hidden) * np.arange(16, dtype="float32"))
        model.finish_update(sgd)
        after = model.shims[0]._model.get_input_embeddings().weight.detach()
        moves.append(float((after - before).abs().max()))
    assert moves == pytest.approx([1e-3, 1e-3], rel=0.05)  # Adam's first step is the learning rate


def test_word_piece_dropout_masks_a_share_of_the_pieces_in_training(tiny_bert, make_model, nlp):
    shim = make_model(tiny_bert, word_piece_dropout=0.25).shims[0]
    seen = []
    drop = shim._drop_word_pieces
    shim._drop_word_pieces = lambda ids: seen.append(drop(ids)) or seen[-1]
    tokenizer = shim.tokenizer
    ids = np.full((100, 50), 20)
    ids[:, 0], ids[:, 48], ids[:, 49] = tokenizer.prefix[0], tokenizer.suffix[0], tokenizer.pad
    nothing = np.zeros(0, dtype="int64")
    batch = SequenceBatch(ids, np.ones_like(ids), nothing, nothing)
    torch.manual_seed(0)
    shim.begin_update([batch])
    shim.encode([batch])
    [trained] = (given.view(100, 50) for given in seen)
    masked = trained == tokenizer.mask
    assert masked[:, 1:48].float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert torch.equal(trained[~masked], torch.from_numpy(ids)[~masked])
    assert not masked[:, [0, 48, 49]].any()


def test_dropout_is_set_in_all_layers_of_the_encoder(tiny_bert, make_model, docs):
    def probabilities(model):
        return {layer.p for layer in model.shims[0]._model.modules() if hasattr(layer, "p")}

    own = AutoModel.from_pretrained(tiny_bert).modules()
    expected = {layer.p for layer in own if isinstance(layer, torch.nn.Dropout)}
    assert 0.25 not in expected
    assert probabilities(make_model(tiny_bert)) == expected
    assert probabilities(make_model(tiny_bert, dropout=0.25)) == {0.25}
    model = make_model(tiny_bert, dropout=0.0)
    trained, _ = model.begin_update(docs)
    np.testing.assert_allclose(trained.hidden, model.predict(docs).hidden, atol=1e-5)
    again = TransformerModel_v1(str(tiny_bert)).from_bytes(model.to_bytes())  # it is saved so
    assert probabilities(again) == {0.0}


@pytest.mark.parametrize("setting, number", [("context", -3), ("batch_pieces", -1)])
def test_a_number_out_of_range_is_refused(tiny_bert, setting, number):
    with pytest.raises(BiomedError, match=f"^{setting} = {number} of an encoder: use . or more$"):
        TransformerModel_v1(str(tiny_bert), **{setting: number})


@pytest.mark.parametrize("setting", ["dropout", "word_piece_dropout"])
@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_out_of_range_is_refused(tiny_bert, setting, share):
    with pytest.raises(BiomedError, match=rf"^{setting} .* {share}: use 0.0 to less than 1.0"):
        TransformerModel_v1(str(tiny_bert), **{setting: share})
