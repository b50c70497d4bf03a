"""The layers of a token classifier in int8."""

import pickle

import numpy as np
import onnx
import pytest
from thinc.api import Adam, Model
from thinc.types import Ragged

from spacy_biomed.errors import BiomedError
from spacy_biomed.models.exported_layers import ExportedLayers
from spacy_biomed.models.token_classifier import TokenClassifier_v1, add_outputs
from spacy_biomed.packaging.int8_heads import export_layers

WIDTH, TAGS = 32, 5
LENGTHS = [100, 0, 1, 2, 199]
VECTORS = np.random.default_rng(0).normal(size=(sum(LENGTHS), WIDTH)).astype("float32")
DOCS = ["stand-ins"] * len(LENGTHS)


def make(window_size=1, hidden_width=16, nO=TAGS):
    """A classifier of fixed vectors."""
    rows = np.split(VECTORS, np.cumsum(LENGTHS)[:-1])
    vectors = Model("vectors", lambda model, docs, is_train: (rows, list), dims={"nO": WIDTH})
    return TokenClassifier_v1(
        vectors, window_size=window_size, hidden_width=hidden_width, dropout=0.0, nO=nO
    )


@pytest.fixture
def model():
    return make().initialize(X=DOCS)


def export(model):
    model.shims[0].from_bytes(export_layers(model))


def predict(model):
    return model.predict(DOCS).dataXd


@pytest.mark.parametrize("window_size", [0, 1, 2])
@pytest.mark.parametrize("hidden_width", [0, 16])
def test_scores_are_those_of_rounded_rows_and_weights(window_size, hidden_width):
    model = make(window_size, hidden_width).initialize(X=DOCS)
    rng = np.random.default_rng(1)
    for layer in (model.get_ref("first"), model.get_ref("output")):
        layer.set_param("b", rng.normal(size=layer.get_param("b").shape).astype("float32"))
    model.shims[0].from_bytes(export_layers(model))
    scores = predict(model)
    assert scores.shape == (len(VECTORS), TAGS)
    assert np.abs(scores - model.begin_update(DOCS)[0].dataXd).max() > 1e-4
    # The same layers with rows in 256 steps, and weights in 64 for each sign and output.
    low, high = min(VECTORS.min(), 0.0), max(VECTORS.max(), 0.0)
    step = (high - low) / 255
    zero = np.rint(-low / step)
    rows = (np.clip(np.rint(VECTORS / step) + zero, 0, 255) - zero) * step
    first = model.get_ref("first")
    steps = np.abs(first.get_param("W")).max(axis=1, keepdims=True) / 64
    first.set_param("W", np.rint(first.get_param("W") / steps) * steps)
    classify = model.layers[1]
    expected = classify.predict(Ragged(rows, np.array(LENGTHS, dtype="int32")))
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=2e-3)


def test_they_predict_and_do_not_learn(model):
    expected = predict(model)
    export(model)
    predicted = predict(model)
    assert 0.0 < np.abs(predicted - expected).max() < 0.2
    scores, backprop = model.begin_update(DOCS)
    np.testing.assert_allclose(scores.dataXd, expected, atol=1e-5)
    backprop(Ragged(np.ones_like(scores.dataXd), scores.lengths))
    model.finish_update(Adam(0.1))
    assert not model.shims[0].can_predict(VECTORS)
    np.testing.assert_allclose(predict(model), model.begin_update(DOCS)[0].dataXd, atol=1e-5)


@pytest.mark.parametrize("count, expected", [(0, False), (2, False), (3, True)])
def test_they_need_more_rows_than_neighbours(count, expected):
    model = make(window_size=2).initialize(X=DOCS)
    export(model)
    assert model.shims[0].can_predict(VECTORS[:count]) == expected
    if expected:
        assert model.shims[0].predict(VECTORS[:3], np.array([2, 1])).shape == (3, TAGS)


def test_they_are_saved_with_the_model(model):
    export(model)
    predicted = predict(model)
    again = make(nO=None).from_bytes(model.to_bytes())
    np.testing.assert_array_equal(predict(again), predicted)
    copied = model.shims[0].copy(), pickle.loads(pickle.dumps(model.shims[0]))
    lengths = np.array(LENGTHS)
    for shim in copied:
        np.testing.assert_array_equal(shim.predict(VECTORS, lengths), predicted)
    plain = make().initialize(X=DOCS)
    again.from_bytes(plain.to_bytes())
    assert not again.shims[0].can_predict(VECTORS)


def test_models_saved_before_there_were_any_are_read(model):
    content = model.to_dict()
    content["shims"] = [[] for _ in content["shims"]]
    again = make(nO=None).from_dict(content)
    np.testing.assert_array_equal(predict(again), predict(model))


@pytest.mark.parametrize("hidden_width", [0, 16])
def test_a_head_that_grows_computes_with_its_new_weights(hidden_width):
    model = make(hidden_width=hidden_width).initialize(X=DOCS)
    export(model)
    before = predict(model)
    add_outputs(model, 1, like=1, offset=-3.0)
    after = predict(model)
    assert after.shape == (len(VECTORS), TAGS + 1)
    np.testing.assert_allclose(after[:, :TAGS], before, atol=0.2)
    np.testing.assert_allclose(after[:, TAGS], after[:, 1] - 3.0, rtol=1e-5, atol=1e-5)


def test_damaged_layers_are_refused(model):
    content = export_layers(model)
    for damaged in (content[:-10], b"no model"):
        with pytest.raises(BiomedError, match="layers in int8 of a head .* are damaged"):
            ExportedLayers(1).from_bytes(damaged)


def test_weights_in_other_files_are_refused(model, tmp_path):
    exported = onnx.load_from_string(export_layers(model))
    onnx.external_data_helper.convert_model_to_external_data(
        exported, location="weights", size_threshold=0
    )
    onnx.save(exported, tmp_path / "model.onnx")
    with pytest.raises(BiomedError, match="layers in int8 of a head"):
        ExportedLayers(1).from_bytes((tmp_path / "model.onnx").read_bytes())
