"""Exported encoders: what PyTorch computes, without PyTorch."""

import json
import multiprocessing
import os
import pickle
import shutil
import sys

import numpy as np
import onnx
import pytest
import torch
from encoded_rows import TEXTS as PLAIN_TEXTS
from encoded_rows import cosines, spy_on_shapes
from small_encoders import SMALL
from spacy.tokens import Doc
from transformers import AutoModel, AutoTokenizer, SqueezeBertConfig

from spacy_biomed.encoders.batching.concurrency import default_threads
from spacy_biomed.encoders.onnx.onnx_export import export_encoder
from spacy_biomed.encoders.onnx.onnx_model import OnnxTransformerModel_v1
from spacy_biomed.errors import BiomedError

TEXTS = [
    *PLAIN_TEXTS,
    "   ",
    "😀",
    # What special tokens look like: tokenizers take it for one.
    "a <pad> [PAD] </s> [SEP] b",
]


@pytest.fixture(scope="module")
def exported(pytorch, tmp_path_factory):
    """Directories of each small encoder exported in fp32 and int8."""
    folder = tmp_path_factory.mktemp("exported")
    for precision in ("fp32", "int8"):
        export_encoder(pytorch, folder / precision, precision=precision)
    return folder


@pytest.fixture
def damaged(tiny, tmp_path):
    """A copy to damage."""
    return shutil.copytree(tiny, tmp_path / "damaged")


def load(path, **settings):
    return OnnxTransformerModel_v1(str(path), **settings).initialize()


def words(nlp, count):
    return Doc(nlp.vocab, words=["a"] * count)


def initializers(path):
    graph = onnx.load(path / "model.onnx").graph
    return {value.name: onnx.numpy_helper.to_array(value) for value in graph.initializer}


@pytest.mark.slow(least=1)
def test_fp32_gives_pytorchs_rows(pytorch, exported, docs):
    expected, batch = pytorch.predict(docs), load(exported / "fp32").predict(docs)
    assert batch.hidden.dtype == np.float32
    np.testing.assert_allclose(batch.hidden, expected.hidden, atol=1e-4)


def test_an_encoder_that_always_calls_its_pooling_layer_is_trained_and_exported(
    tiny_bert, make_model, docs, tmp_path
):
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    groups = {f"{name}_groups": 2 for name in ("q", "k", "v", "intermediate", "output")}
    config = SqueezeBertConfig(vocab_size=len(tokenizer), embedding_size=16, **SMALL, **groups)
    for part in (tokenizer, AutoModel.from_config(config)):
        part.save_pretrained(tmp_path / "encoder")
    model = make_model(tmp_path / "encoder")
    rows, backprop = model.begin_update(docs)
    backprop(np.ones_like(rows.hidden))
    export_encoder(model, tmp_path / "exported", precision="fp32")
    found, expected = load(tmp_path / "exported").predict(docs), model.predict(docs)
    np.testing.assert_allclose(found.hidden, expected.hidden, atol=1e-4)


def test_pieces_and_alignment_are_pytorchs(pytorch, exported, docs):
    expected, batch = pytorch.predict(docs), load(exported / "fp32").predict(docs)
    for name in ("ids", "indices", "piece_counts", "row_counts", "token_counts"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(expected, name))
    assert [batch.id_to_token(i) for i in batch.ids[:5].tolist()] == [
        expected.id_to_token(i) for i in expected.ids[:5].tolist()
    ]


def test_int8_is_close_to_pytorchs_rows_but_not_the_same(pytorch, exported, docs):
    expected, batch = pytorch.predict(docs), load(exported / "int8").predict(docs)
    assert cosines(batch.hidden, expected.hidden).mean() > 0.99
    assert np.abs(batch.hidden - expected.hidden).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 509, 510, 511, 512, 513, 1700])
def test_documents_of_any_length_have_pytorchs_rows(pytorch, exported, nlp, count):
    doc = words(nlp, count)
    expected, batch = pytorch.predict([doc]), load(exported / "fp32").predict([doc])
    assert batch.hidden.shape == expected.hidden.shape
    assert len(batch.hidden) >= count
    np.testing.assert_allclose(batch.hidden, expected.hidden, atol=1e-4)


def test_a_batch_of_nothing_has_no_rows(exported, nlp):
    model = load(exported / "fp32")
    assert model.predict([]).hidden.shape == (0, 16)
    assert model.predict([nlp.make_doc(""), nlp.make_doc("")]).hidden.shape == (0, 16)


@pytest.mark.parametrize("batch_pieces", [1, 40, 4096])
def test_padding_does_not_leak_between_documents(exported, docs, batch_pieces):
    model = load(exported / "fp32", batch_pieces=batch_pieces, window=24, context=4)
    for doc, encoding in zip(docs, model.predict(docs).split(), strict=True):
        alone = model.predict([doc])
        np.testing.assert_allclose(encoding.hidden, alone.hidden, atol=1e-5)
        np.testing.assert_array_equal(encoding.indices, alone.indices)


@pytest.mark.parametrize("setting, number", [("context", -3), ("batch_pieces", 0), ("threads", -1)])
def test_a_number_out_of_range_is_one_line(tiny, setting, number):
    with pytest.raises(BiomedError, match=f"^{setting} = {number} of an encoder: use . or more$"):
        load(tiny, **{setting: number})


@pytest.mark.parametrize("batch_pieces", [40, 80])
def test_a_batch_holds_at_most_batch_pieces(tiny, nlp, monkeypatch, batch_pieces):
    model = load(tiny, batch_pieces=batch_pieces)
    shapes = spy_on_shapes(model, monkeypatch)
    model.predict([words(nlp, count) for count in (8, 18, 3, 18, 8, 3, 18)])
    sizes = [sequences * length for sequences, length in shapes]
    assert max(sizes) <= batch_pieces < sum(sizes)
    assert max(sequences for sequences, _ in shapes) > 1


@pytest.mark.parametrize("window, longest", [(20, 20), (512, 512), (10_000, 512)])
def test_a_sequence_is_as_long_as_the_window_and_the_positions_allow(
    tiny, nlp, monkeypatch, window, longest
):
    model = load(tiny, window=window, context=4)
    shapes = spy_on_shapes(model, monkeypatch)
    batch = model.predict([words(nlp, 1012)])  # two full windows of 512
    assert max(length for _, length in shapes) == longest
    assert batch.hidden.shape == (1014, 16)


def test_windows_are_pytorchs(tiny_bert, tiny, make_model, nlp):
    settings = {"window": 20, "context": 3}
    doc = nlp.make_doc(" ".join(TEXTS) * 3)
    expected = make_model(tiny_bert, **settings).predict([doc])
    np.testing.assert_allclose(
        load(tiny, **settings).predict([doc]).hidden, expected.hidden, atol=1e-4
    )


def test_a_window_without_room_for_a_piece_is_refused(tiny, docs):
    with pytest.raises(BiomedError, match="window = 2"):
        load(tiny, window=2).predict(docs)


@pytest.mark.parametrize("embeddings", [True, False])
def test_int8_quantises_the_products_and_if_told_the_embeddings(
    tiny_bert, make_model, tmp_path, embeddings
):
    model = make_model(tiny_bert)
    export_encoder(model, tmp_path, precision="int8", quantize_embeddings=embeddings)
    table = model.shims[0]._model.get_input_embeddings().weight.detach().numpy()
    named = initializers(tmp_path)
    [stored] = [a for a in named.values() if a.shape == table.shape]
    assert (stored.dtype.itemsize == 1) is embeddings
    if embeddings:
        [scales] = [a for name, a in named.items() if a.shape == (len(table), 1)]
        np.testing.assert_allclose(scales[:, 0], np.abs(table).max(axis=1) / 127, rtol=1e-6)
        assert (np.abs(stored * scales - table) <= scales * 0.501).all()
    # Query, key and value together, output, and two of the feed-forward network, in two layers.
    products = [
        a
        for name, a in named.items()
        if a.dtype == np.int8 and a.ndim == 2 and 16 in a.shape and not name.endswith("_codes")
    ]
    assert sum(a.shape in {(16, 48), (16, 16), (16, 64), (64, 16)} for a in products) == 8
    # Seven bits, for processors that sum up pairs of products in 16 bits.
    assert all(np.abs(a.astype(int)).max() <= 64 for a in products)
    settings = json.loads((tmp_path / "encoder.json").read_text(encoding="utf8"))
    assert settings["precision"] == "int8"
    assert settings["quantized_embeddings"] is embeddings


def test_settings_tell_what_was_exported(tiny_roberta, make_model, tmp_path):
    export_encoder(make_model(tiny_roberta), tmp_path, precision="fp32")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "encoder.json",
        "model.onnx",
        "tokenizer.json",
    ]
    assert json.loads((tmp_path / "encoder.json").read_text(encoding="utf8")) == {
        "name": str(tiny_roberta),
        "precision": "fp32",
        "static": False,
        "quantized_embeddings": False,
        "width": 16,
        "max_length": 512,
        "pad": 1,
        "segments": False,
        "engines": ["onnxruntime", "openvino"],
    }
    assert {a.dtype.name for a in initializers(tmp_path).values()} <= {"float32", "int64"}


@pytest.mark.parametrize("training", [True, False])
def test_export_leaves_the_model_as_it_was(tiny_bert, make_model, docs, tmp_path, training):
    model = make_model(tiny_bert)
    shim = model.shims[0]
    # The fused kernel, as on a GPU, which the export must do without.
    shim._model = AutoModel.from_pretrained(
        tiny_bert, attn_implementation="sdpa", add_pooling_layer=False
    )
    before = model.predict(docs).hidden
    weights = {name: value.clone() for name, value in shim._model.state_dict().items()}
    encoder = shim._model.train(training)
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    for precision in ("fp32", "int8"):
        export_encoder(model, tmp_path, precision=precision)
    assert torch.equal(torch.rand(1), expected)
    assert shim._model is encoder
    assert encoder.training is training
    assert encoder.config._attn_implementation == "sdpa"
    assert all(parameter.requires_grad for parameter in encoder.parameters())
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, weights[name]), name
    np.testing.assert_array_equal(model.predict(docs).hidden, before)
    batch, backprop = model.begin_update(docs)
    backprop(np.ones_like(batch.hidden) * np.arange(16, dtype="float32"))
    assert encoder.get_input_embeddings().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "encoder.json"])
def test_an_incomplete_directory_is_one_line(damaged, name):
    (damaged / name).unlink()
    with pytest.raises(BiomedError) as error:
        load(damaged)
    assert str(error.value) == (
        f"{damaged}: no exported encoder there ({name} is missing); "
        "`python -m spacy biomed compress` writes one"
    )


def test_a_directory_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(BiomedError, match="no exported encoder there") as error:
        load(tmp_path / "none")
    assert str(error.value).startswith(f"{tmp_path}/none: ")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.onnx", b""),
        ("model.onnx", b"no protobuf at all"),
        ("model.onnx", 2000),
        ("tokenizer.json", b""),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"\xff\xfe"),
        ("encoder.json", b""),
        ("encoder.json", b"[]"),
        ("encoder.json", b"{}"),
        ("encoder.json", b'{"pad": 0, "width": 16}'),
        ("encoder.json", b'{"pad": 0, "width": 32, "max_length": 512}'),
        ("encoder.json", b'{"pad": "0", "width": "16", "max_length": null}'),
    ],
)
def test_a_damaged_directory_is_one_line(damaged, name, content):
    path = damaged / name
    # A number is how many bytes are left.
    path.write_bytes(path.read_bytes()[:content] if isinstance(content, int) else content)
    with pytest.raises(BiomedError) as error:
        load(damaged)
    line = str(error.value)
    assert line.startswith(f"{damaged}: not a readable exported encoder (")
    assert line.endswith("); export it again with `python -m spacy biomed compress`")
    assert "\n" not in line


def test_a_model_that_is_no_encoder_is_one_line(damaged):
    """An ONNX file like any other, which takes other inputs."""
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([node], "other", [value], [result])
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.save(model, damaged / "model.onnx")
    with pytest.raises(BiomedError, match="not a readable exported encoder"):
        load(damaged)


def test_a_damaged_encoder_leaves_the_one_before(tiny, damaged, docs):
    model = load(tiny)
    expected = model.predict(docs).hidden
    (damaged / "model.onnx").write_bytes(b"")
    with pytest.raises(BiomedError):
        model.shims[0].load(damaged)
    np.testing.assert_array_equal(model.predict(docs).hidden, expected)


def test_without_an_encoder_the_model_says_what_to_give():
    with pytest.raises(BiomedError, match="has no encoder: give `path`.*compress") as error:
        OnnxTransformerModel_v1().initialize()
    assert "\n" not in str(error.value)


def test_an_uninitialised_model_says_so(tiny, docs):
    with pytest.raises(ValueError, match="initialize"):
        OnnxTransformerModel_v1(str(tiny)).predict(docs)


def test_without_onnx_runtime_the_line_says_what_to_install(tiny, monkeypatch):
    monkeypatch.delitem(sys.modules, "spacy_biomed.encoders.onnx.onnxruntime_engine", False)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(BiomedError) as error:
        load(tiny)
    line = str(error.value)
    assert line.startswith("'spacy_biomed.OnnxTransformerModel.v1' needs onnxruntime (")
    assert line.endswith(": pip install onnxruntime")


def test_threads_are_those_of_openmp_by_default(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads() == 3


@pytest.mark.parametrize("told", [None, "", "0", "-1", "many", "2,1"])
def test_threads_are_the_usable_processors_where_openmp_is_told_nothing(monkeypatch, told):
    if told is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 4, 6, 8}, raising=False)
    assert default_threads() == 5


@pytest.mark.parametrize("threads, used", [(None, 3), (2, 2)])
def test_the_session_has_the_threads_of_the_setting(tiny, monkeypatch, threads, used):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    shim = load(tiny, threads=threads).shims[0]
    assert shim.usable_threads() == used
    session = shim.engine(used)
    assert session.session.get_session_options().intra_op_num_threads == used
    assert session.session.get_providers() == ["CPUExecutionProvider"]


def test_a_shim_can_be_pickled(tiny, docs):
    model = load(tiny, threads=2)
    expected = model.predict(docs).hidden
    shim = pickle.loads(pickle.dumps(model.shims[0]))
    assert shim.settings == model.shims[0].settings
    assert shim.usable_threads() == 2
    model.shims[0] = shim
    np.testing.assert_array_equal(model.predict(docs).hidden, expected)


def test_a_forked_process_has_a_session_of_its_own_with_one_thread(tiny, docs):
    """Threads do not fork, and processes of `nlp.pipe` are not to take each other's processor."""
    model = load(tiny, threads=2)
    expected, session = model.predict(docs).hidden, model.shims[0].engine(1)
    model.shims[0].engine(2)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def predict():
        shim = model.shims[0]
        threads, own = shim.usable_threads(), shim.engine(1)
        there.send((own is session, threads, model.predict(docs).hidden))

    process = context.Process(target=predict)
    process.start()
    assert here.poll(60)
    is_the_same, threads, hidden = here.recv()
    process.join()
    assert (is_the_same, threads) == (False, 1)
    np.testing.assert_allclose(hidden, expected, atol=1e-6)
    assert model.shims[0].engine(1) is session
    assert model.shims[0].usable_threads() == 2


def test_a_model_can_be_copied(tiny, docs):
    model = load(tiny)
    np.testing.assert_array_equal(model.copy().predict(docs).hidden, model.predict(docs).hidden)


def test_bytes_give_the_same_outputs(exported, docs):
    model = load(exported / "int8")
    again = OnnxTransformerModel_v1("not/there").from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.predict(docs).hidden, model.predict(docs).hidden)
    assert again.get_dim("nO") == 16
    assert again.initialize().attrs["path"] == str(exported / "int8")


def test_an_uninitialised_model_survives_bytes(tiny, docs):
    model = OnnxTransformerModel_v1(str(tiny))
    again = OnnxTransformerModel_v1("not/there").from_bytes(model.to_bytes())
    assert again.initialize().predict(docs).hidden.shape[1] == 16


def test_what_is_saved_is_what_was_loaded(tiny, tmp_path):
    load(tiny).shims[0].save(tmp_path / "new" / "saved")
    for path in tiny.iterdir():
        assert (tmp_path / "new" / "saved" / path.name).read_bytes() == path.read_bytes()


def test_prediction_in_training_sends_nothing_back(tiny, docs):
    model = load(tiny)
    batch, backprop = model.begin_update(docs)
    np.testing.assert_array_equal(batch.hidden, model.predict(docs).hidden)
    assert backprop(np.ones_like(batch.hidden)) == []
