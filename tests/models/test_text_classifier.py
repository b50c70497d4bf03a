import numpy as np
import pytest
from thinc.api import Model, set_dropout_rate

from spacy_biomed.encoders.listener import EncoderListener_v1
from spacy_biomed.errors import BiomedError
from spacy_biomed.models.text_classifiers import TextClassifier_v1, forward_mean

WIDTH, CLASSES, DOCS = 3, 4, 5


@pytest.fixture
def vectors():
    """A layer that gives each document a fixed row, the rows, and the gradients it received."""
    rows = np.random.default_rng(0).normal(size=(DOCS, WIDTH)).astype("float32")
    received = []

    def forward(model, docs, is_train):
        return [row[None] for row in rows], lambda d: received.extend(d) or []

    return Model("vectors", forward, dims={"nO": WIDTH}), rows, received


def create(vectors, **settings):
    model = TextClassifier_v1(vectors[0], **settings)
    sample = np.zeros((DOCS, CLASSES), dtype="float32")
    model.initialize(X=["stand-ins"] * DOCS, Y=None if "nO" in settings else sample)
    return model, [node for node in model.walk() if node.name == "linear"]


def test_scores_and_gradients_are_those_of_numpy(vectors):
    model, [output] = create(vectors, dropout=0.0)
    _, X, received = vectors
    rng = np.random.default_rng(1)
    W = rng.normal(size=(CLASSES, WIDTH)).astype("float32")
    b = rng.normal(size=CLASSES).astype("float32")
    output.set_param("W", W)
    output.set_param("b", b)
    scores, backprop = model.begin_update(["stand-ins"] * DOCS)
    np.testing.assert_allclose(scores, X @ W.T + b, rtol=1e-5, atol=1e-6)
    d_scores = rng.normal(size=scores.shape).astype("float32")
    backprop(d_scores)
    np.testing.assert_allclose(output.get_grad("W"), d_scores.T @ X, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output.get_grad("b"), d_scores.sum(axis=0), rtol=1e-5, atol=1e-6)
    assert [row.shape for row in received] == [(1, WIDTH)] * DOCS
    np.testing.assert_allclose(np.concatenate(received), d_scores @ W, rtol=1e-5, atol=1e-6)


def test_a_hidden_layer_has_tanh_and_learns(vectors):
    """Against numpy, with the gradient of the first layer's weights by finite differences."""
    model, [first, output] = create(vectors, hidden_width=6, dropout=0.0)
    X = vectors[1].astype("float64")
    W, V = (layer.get_param("W").astype("float64") for layer in (first, output))

    def by_hand(W):
        return np.tanh(X @ W.T) @ V.T

    scores, backprop = model.begin_update(["stand-ins"] * DOCS)
    np.testing.assert_allclose(scores, by_hand(W), rtol=1e-4, atol=1e-5)
    d_scores = np.random.default_rng(2).normal(size=scores.shape).astype("float32")
    backprop(d_scores)
    for place in np.ndindex(*W.shape):
        step = np.zeros_like(W)
        step[place] = 1e-5
        slope = ((by_hand(W + step) - by_hand(W - step)) * d_scores).sum() / 2e-5
        assert first.get_grad("W")[place] == pytest.approx(slope, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("hidden_width", [0, 50])
def test_dropout_is_for_training_alone(vectors, hidden_width):
    model, _ = create(vectors, hidden_width=hidden_width, dropout=0.5)
    docs = ["stand-ins"] * DOCS
    expected = model.predict(docs)
    np.testing.assert_array_equal(model.predict(docs), expected)
    assert not np.allclose(model.begin_update(docs)[0], expected)
    set_dropout_rate(model, 0.0)
    np.testing.assert_array_equal(model.begin_update(docs)[0], expected)


def test_the_number_of_classes_can_be_given(vectors):
    model, _ = create(vectors, nO=7)
    assert model.get_dim("nO") == 7
    assert model.predict(["stand-ins"] * DOCS).shape == (DOCS, 7)


def test_the_mean_of_rows_and_its_gradient_are_those_of_numpy():
    X = [np.arange(6, dtype="float32").reshape(3, 2), np.zeros((0, 2), "float32")]
    X.append(np.array([[4.0, -2.0]], dtype="float32"))
    means, backprop = Model("mean_rows", forward_mean).initialize(X).begin_update(X)
    np.testing.assert_allclose(means, [[2, 3], [0, 0], [4, -2]])
    d_X = backprop(np.array([[3, 6], [7, 7], [1, 2]], dtype="float32"))
    np.testing.assert_allclose(d_X[0], [[1, 2]] * 3)
    assert d_X[1].shape == (0, 2)
    np.testing.assert_allclose(d_X[2], [[1, 2]])


def test_documents_without_rows_alone_have_zeros():
    X = [np.zeros((0, 2), dtype="float32")] * 2
    means, backprop = Model("mean_rows", forward_mean).begin_update(X)
    np.testing.assert_array_equal(means, np.zeros((2, 2)))
    assert [d_rows.shape for d_rows in backprop(means)] == [(0, 2)] * 2


def test_a_listener_that_keeps_word_pieces_apart_is_refused():
    with pytest.raises(BiomedError, match="pooling = 'pieces'.*use cls, first or mean"):
        TextClassifier_v1(EncoderListener_v1("pieces"))
