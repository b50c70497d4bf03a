"""The product of a head's convolution in int8."""

import pickle

import numpy as np
import onnx
import pytest
from thinc.api import Adam, Model
from thinc.types import Ragged

from spacy_biomed.errors import BiomedError
from spacy_biomed.models.int8_product import Int8Product
from spacy_biomed.models.token_classifier import TokenClassifier_v1, add_outputs
from spacy_biomed.models.window_linear import WindowLinear
from spacy_biomed.packaging.int8_heads import quantize_product

ROWS = np.random.default_rng(0).normal(size=(300, 32)).astype("float32")
BATCH = Ragged(ROWS, np.array([100, 0, 200], dtype="int32"))


@pytest.fixture
def layer():
    return WindowLinear(nO=16, nI=32).initialize()


def quantize(layer):
    layer.shims[0].from_bytes(quantize_product(layer.get_param("W")))


def test_the_product_is_that_of_rounded_numbers(layer):
    W = layer.get_param("W")
    expected = ROWS @ W.T
    quantize(layer)
    product = layer.shims[0].multiply(ROWS)
    # The rows are rounded to 256 steps, the weights of an output to 128 on both sides of zero.
    step = (ROWS.max() - ROWS.min()) / 255
    steps = np.abs(W).max(axis=1) / 63
    most = step / 2 * np.abs(W).sum(axis=1) + steps / 2 * np.abs(ROWS).sum(axis=1, keepdims=True)
    most = most + step / 2 * steps / 2 * W.shape[1]
    assert product.dtype == "float32"
    assert (np.abs(product - expected) <= most + 1e-5).all()
    assert np.abs(product - expected).max() > 1e-4


def test_the_layer_predicts_with_it_and_learns_without(layer):
    expected = layer.predict(BATCH)
    quantize(layer)
    predicted = layer.predict(BATCH)
    assert 0.0 < np.abs(predicted - expected).max() < 0.2
    output, backprop = layer.begin_update(BATCH)
    np.testing.assert_array_equal(output, expected)
    backprop(np.ones_like(output))
    layer.finish_update(Adam(0.1))
    assert layer.shims[0].is_empty
    np.testing.assert_array_equal(layer.predict(BATCH), layer.begin_update(BATCH)[0])


def test_nothing_is_multiplied_without_rows(layer):
    quantize(layer)
    empty = Ragged(np.zeros((0, 32), dtype="float32"), np.zeros(0, dtype="int32"))
    assert layer.predict(empty).shape == (0, 16)


def test_it_is_saved_with_the_layer(layer):
    quantize(layer)
    predicted = layer.predict(BATCH)
    again = WindowLinear().from_bytes(layer.to_bytes())
    np.testing.assert_array_equal(again.predict(BATCH), predicted)
    for copied in (layer.copy(), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(copied.predict(BATCH), predicted)
    plain = WindowLinear(nO=16, nI=32).initialize()
    assert again.from_bytes(plain.to_bytes()).shims[0].is_empty


def test_layers_saved_before_there_was_any_are_read(layer):
    content = layer.to_dict()
    content["shims"] = [[] for _ in content["shims"]]
    again = WindowLinear().from_dict(content)
    np.testing.assert_array_equal(again.predict(BATCH), layer.predict(BATCH))


def test_a_head_that_grows_computes_with_its_new_weights():
    rows = Model("rows", lambda model, docs, is_train: ([ROWS], lambda d: d), dims={"nO": 32})
    model = TokenClassifier_v1(rows, window_size=1, nO=4).initialize(X=["a document"])
    quantize(model.get_ref("first"))
    before = model.predict(["a document"]).dataXd
    add_outputs(model, 1, like=1, offset=-3.0)
    after = model.predict(["a document"]).dataXd
    assert after.shape == (300, 5)
    np.testing.assert_allclose(after[:, :4], before, atol=0.2)
    np.testing.assert_allclose(after[:, 4], after[:, 1] - 3.0, rtol=1e-5, atol=1e-5)


def test_damaged_weights_are_refused(layer):
    content = quantize_product(layer.get_param("W"))
    for damaged in (content[:-10], b"no model"):
        with pytest.raises(BiomedError, match="weights in int8 of a head .* are damaged"):
            Int8Product().from_bytes(damaged)


def test_weights_in_other_files_are_refused(layer, tmp_path):
    model = onnx.load_from_string(quantize_product(layer.get_param("W")))
    onnx.external_data_helper.convert_model_to_external_data(
        model, location="weights", size_threshold=0
    )
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(BiomedError, match="weights in int8 of a head"):
        Int8Product().from_bytes((tmp_path / "model.onnx").read_bytes())
