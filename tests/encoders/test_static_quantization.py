"""Static int8: ranges measured on texts, and large values evened out."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from encoded_rows import cosines
from engines_here import needs_openvino
from onnx import numpy_helper
from spacy.tokens import Doc

from spacy_biomed.encoders.onnx import onnx_export, static_quantization
from spacy_biomed.encoders.onnx.onnx_export import export_encoder
from spacy_biomed.encoders.onnx.onnx_model import OnnxTransformerModel_v1
from spacy_biomed.encoders.onnx.static_quantization import quantize_statically

TEXTS = [
    "Aspirin reduced the risk of cancer.",
    "El paciente presentó náuseas,  vómitos y fiebre de 39 °C tras la quimioterapia.",
    "No metastasis.\n\n",
    "Mutations of BRCA1 and TP53 were found in breast and ovarian tumours. " * 20,
]


@pytest.fixture(scope="module")
def exported(pytorch, docs, tmp_path_factory):
    path = tmp_path_factory.mktemp("static")
    export_encoder(pytorch, path / "static", precision="int8", calibration=docs)
    export_encoder(pytorch, path / "fp32", precision="fp32")
    return path


def load(path, **settings):
    return OnnxTransformerModel_v1(str(path), **settings).initialize()


@pytest.mark.slow(least=1)
def test_rows_are_close_to_pytorchs(pytorch, exported, docs):
    rows = load(exported / "static").predict(docs).hidden
    assert cosines(rows, pytorch.predict(docs).hidden).mean() > 0.995
    assert np.abs(rows - pytorch.predict(docs).hidden).max() > 1e-3  # and it is not fp32


def test_the_settings_say_that_it_is_static(exported):
    for name, static in (("static", True), ("fp32", False)):
        settings = json.loads((exported / name / "encoder.json").read_text(encoding="utf8"))
        assert settings["static"] is static


def test_a_text_has_the_same_rows_in_any_batch(exported, docs):
    model = load(exported / "static", batch_pieces=4096)
    together = model.predict(docs).split()
    for doc, encoding in zip(docs, together, strict=True):
        np.testing.assert_allclose(model.predict([doc]).hidden, encoding.hidden, atol=1e-5)


def test_ranges_are_measured_on_texts_as_the_encoder_reads_them(
    pytorch, docs, monkeypatch, tmp_path
):
    measured = []

    def record(source, target, embeddings, calibration):
        measured.append([batch["input_ids"].tolist() for batch in calibration])
        target.write_bytes(source.read_bytes())

    monkeypatch.setattr(onnx_export, "_quantize", record)
    monkeypatch.setitem(pytorch.attrs, "normalize", True)
    for text in ("a beta-blocker", "a beta\u2010blocker"):
        texts = [Doc(docs[0].vocab, words=text.split())]
        export_encoder(pytorch, tmp_path, precision="int8", calibration=texts)
    plain, typed = measured
    assert plain and typed == plain


@needs_openvino
def test_both_engines_agree(exported, docs):
    rows = [
        load(exported / "static", engine=engine, precision="fp32").predict(docs).hidden
        for engine in ("onnxruntime", "openvino")
    ]
    assert cosines(*rows).min() > 0.999


def test_all_products_with_weights_and_no_others_are_int8(exported):
    graph = onnx.load(exported / "static" / "model.onnx").graph
    before = onnx.load(exported / "fp32" / "model.onnx").graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}

    def is_int8(node):
        makers = [made_by.get(name) for name in node.input]
        return all(maker is not None and maker.op_type == "DequantizeLinear" for maker in makers)

    count = {True: 0, False: 0}
    for node in graph.node:
        if node.op_type == "MatMul":
            count[is_int8(node)] += 1
    constants = {tensor.name for tensor in before.initializer}
    products = [node for node in before.node if node.op_type == "MatMul"]
    with_weights = sum(node.input[1] in constants for node in products)
    assert count == {True: with_weights, False: len(products) - with_weights}
    assert with_weights >= 8  # in two layers; some families join query, key and value
    # Seven bits, for processors that sum up pairs of products in 16 bits.
    matrices = [
        numpy_helper.to_array(weights[made_by[node.input[1]].input[0]])
        for node in graph.node
        if node.op_type == "MatMul" and is_int8(node)
    ]
    assert all(matrix.dtype == np.int8 for matrix in matrices)
    assert max(np.abs(matrix.astype(int)).max() for matrix in matrices) <= 64


def product_of(weights, path):
    """A model that multiplies its input by a matrix."""
    width, columns = weights.shape
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "weights"], ["y"], name="product")],
        "product",
        [onnx.helper.make_tensor_value_info("x", 1, [None, width])],
        [onnx.helper.make_tensor_value_info("y", 1, [None, columns])],
        [numpy_helper.from_array(weights, "weights")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def run(path, inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": inputs})[0]


def test_smoothing_divides_inputs_and_multiplies_weights(tmp_path):
    weights = np.array([[1.0, -2.0], [8.0, 4.0], [0.5, 0.25]], dtype="float32")
    inputs = np.array([[4.0, 0.5, 0.0], [-16.0, 1.0, 2.0]], dtype="float32")
    product_of(weights, tmp_path / "fp32.onnx")
    model = onnx.load(tmp_path / "fp32.onnx")
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    largest = static_quantization._largest_values(tmp_path / "fp32.onnx", ["x"], [{"x": inputs}])
    np.testing.assert_array_equal(largest["x"], [16.0, 1.0, 2.0])
    static_quantization._smooth(model, products, largest)
    onnx.save(model, tmp_path / "smooth.onnx")

    # max|X|^0.8 / max|W|^0.2 of each channel, relative to their geometric mean.
    factors = np.array([16**0.8 / 2**0.2, 1 / 8**0.2, 2**0.8 / 0.5**0.2])
    factors /= factors.prod() ** (1 / 3)
    named = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    np.testing.assert_allclose(named["weights"], weights * factors[:, None], rtol=1e-5)
    np.testing.assert_allclose(named["x_factors"], 1 / factors, rtol=1e-5)
    np.testing.assert_allclose(run(tmp_path / "smooth.onnx", inputs), inputs @ weights, rtol=1e-5)


def test_a_channel_of_large_values_does_not_make_the_others_coarse(tmp_path):
    random = np.random.default_rng(0)
    weights = random.normal(size=(32, 32)).astype("float32")
    inputs = random.normal(size=(200, 32)).astype("float32")
    inputs[:, 3] *= 200
    weights[3] /= 200
    product_of(weights, tmp_path / "fp32.onnx")
    quantize_statically(tmp_path / "fp32.onnx", tmp_path / "int8.onnx", [{"x": inputs}])
    error = np.abs(run(tmp_path / "int8.onnx", inputs) - inputs @ weights).mean()
    # Without smoothing, a step of the inputs would be 400 * 3 / 255, about 5.
    assert error < 0.2


def test_ranges_are_those_of_the_calibration_texts(tmp_path):
    weights = np.eye(2, dtype="float32")
    product_of(weights, tmp_path / "fp32.onnx")
    known = np.array([[1.0, 1.0], [-1.0, -1.0]], dtype="float32")
    quantize_statically(tmp_path / "fp32.onnx", tmp_path / "int8.onnx", [{"x": known}])
    inputs = np.array([[0.5, -1.0], [3.0, -7.0]], dtype="float32")
    # What lies outside is cut off.
    wanted = np.clip(inputs, -1, 1)
    np.testing.assert_allclose(run(tmp_path / "int8.onnx", inputs), wanted, atol=0.02)
