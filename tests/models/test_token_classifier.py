import numpy as np
import pytest
import spacy
from thinc.api import Model
from thinc.types import Ragged

from spacy_biomed.encoders.listener import EncoderListener_v1
from spacy_biomed.errors import BiomedError
from spacy_biomed.models.token_classifiers import TokenClassifier_v1, add_outputs

WIDTH, TAGS = 3, 4


class NormalizingListener(Model):
    """Listens to an encoder that does not read the second of two spaces."""

    encoder = Model("encoder", lambda model, docs, is_train: None, attrs={"normalize": True})


def vectors(lengths, ragged, kind=Model):
    """A layer that gives documents of so many rows fixed vectors, and keeps their gradient."""
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(length, WIDTH)).astype("float32") for length in lengths]
    # With pieces: every token has two rows but the last, which has what is left.
    pieces = [[2] * (length // 2) + [length % 2] for length in lengths]
    received = []

    def forward(model, docs, is_train):
        if not ragged:
            return data, lambda d: received.extend(d) or []
        outputs = [Ragged(x, np.array(n, dtype="i")) for x, n in zip(data, pieces, strict=True)]
        return outputs, lambda d: received.extend(one.dataXd for one in d) or []

    return kind("vectors", forward, dims={"nO": WIDTH}), data, pieces, received


def neighbours(rows, window):
    """Each row with its neighbours before and after it, zeros beyond the document's ends."""
    length = len(rows)
    padded = np.concatenate([np.zeros((window, WIDTH)), rows, np.zeros((window, WIDTH))])
    return np.stack([padded[i : i + 2 * window + 1].ravel() for i in range(length)])


def by_output(W, window):
    """From a block of weights for each neighbour to a row over all neighbours for each output."""
    return np.concatenate(np.split(W, 2 * window + 1), axis=1)


def by_neighbour(W, window):
    return np.concatenate(np.split(W, 2 * window + 1, axis=1))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("window", [0, 1])
def test_scores_and_gradients_are_those_of_numpy(window, ragged):
    lengths = [3, 1, 5]
    tok2vec, data, pieces, received = vectors(lengths, ragged)
    model = TokenClassifier_v1(tok2vec, window_size=window, dropout=0.0, nO=TAGS)
    docs = ["stand-ins"] * 3
    model.initialize(X=docs)
    output = model.get_ref("output")
    rng = np.random.default_rng(1)
    W = rng.normal(size=(TAGS, WIDTH * (2 * window + 1))).astype("float32")
    b = rng.normal(size=TAGS).astype("float32")
    assert by_output(output.get_param("W"), window).shape == W.shape
    output.set_param("W", by_neighbour(W, window))
    output.set_param("b", b)

    scores, backprop = model.begin_update(docs)
    X = np.concatenate([neighbours(rows, window) for rows in data])
    np.testing.assert_allclose(scores.dataXd, X @ W.T + b, rtol=1e-4, atol=1e-5)
    expected = [n for own in pieces for n in own] if ragged else [1] * sum(lengths)
    assert scores.lengths.tolist() == expected

    d_scores = rng.normal(size=(sum(lengths), TAGS)).astype("float32")
    backprop(Ragged(d_scores.copy(), scores.lengths))
    d_W = by_output(output.get_grad("W"), window)
    np.testing.assert_allclose(d_W, d_scores.T @ X, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(output.get_grad("b"), d_scores.sum(axis=0), rtol=1e-4, atol=1e-5)
    # A row is the vector of its own place, of the place after it and of the place before it.
    offset = 0
    for length, d_rows in zip(lengths, received, strict=True):
        d_X = (d_scores[offset : offset + length] @ W).reshape(length, 2 * window + 1, WIDTH)
        d_expected = np.zeros((length, WIDTH))
        for place in range(length):
            for k in range(2 * window + 1):
                source = place + k - window
                if 0 <= source < length:
                    d_expected[source] += d_X[place, k]
        np.testing.assert_allclose(d_rows, d_expected, rtol=1e-4, atol=1e-5)
        offset += length


@pytest.mark.parametrize("lengths", [[0, 2, 0], [0], [2, 0]])
@pytest.mark.parametrize("window", [0, 1])
def test_documents_without_rows_have_no_scores(window, lengths):
    tok2vec, _, _, received = vectors(lengths, ragged=False)
    model = TokenClassifier_v1(tok2vec, window_size=window, nO=TAGS)
    model.initialize(X=lengths)
    scores, backprop = model.begin_update(lengths)
    assert scores.dataXd.shape == (sum(lengths), TAGS)
    backprop(scores)
    assert [len(d_rows) for d_rows in received] == lengths


def test_dropout_is_for_training_alone():
    tok2vec, _, _, _ = vectors([200], ragged=False)
    model = TokenClassifier_v1(tok2vec, dropout=0.5, nO=TAGS)
    model.initialize(X=["doc"])
    model.get_ref("output").set_param("W", np.ones((TAGS, WIDTH), dtype="float32"))
    first, second = model.predict(["doc"]).dataXd, model.predict(["doc"]).dataXd
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(model.begin_update(["doc"])[0].dataXd, first)


def test_a_hidden_layer_is_rectified_and_learns():
    """Against numpy, with the gradient of the first layer's weights by finite differences."""
    tok2vec, data, _, _ = vectors([3, 2], ragged=False)
    model = TokenClassifier_v1(tok2vec, window_size=1, hidden_width=5, dropout=0.0, nO=TAGS)
    model.initialize(X=["stand-ins"] * 2)
    first, output = model.get_ref("first"), model.get_ref("output")
    X = np.concatenate([neighbours(rows, 1) for rows in data]).astype("float64")
    W = by_output(first.get_param("W"), 1).astype("float64")
    V = output.get_param("W").astype("float64")

    def by_hand(W):
        return np.maximum(X @ W.T, 0.0) @ V.T

    scores, backprop = model.begin_update(["stand-ins"] * 2)
    np.testing.assert_allclose(scores.dataXd, by_hand(W), rtol=1e-4, atol=1e-5)
    d_scores = np.random.default_rng(2).normal(size=scores.dataXd.shape).astype("float32")
    backprop(Ragged(d_scores, scores.lengths))
    d_W = by_output(first.get_grad("W"), 1)
    for place in [(0, 0), (2, 4), (4, 8)]:
        step = np.zeros_like(W)
        step[place] = 1e-5
        slope = ((by_hand(W + step) - by_hand(W - step)) * d_scores).sum() / 2e-5
        assert d_W[place] == pytest.approx(slope, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("ragged", [False, True])
def test_features_of_tokens_stand_beside_the_vectors_of_their_rows(ragged):
    lengths = [3, 1, 4]
    tok2vec, data, pieces, received = vectors(lengths, ragged)
    tokens = [len(own) if ragged else length for own, length in zip(pieces, lengths, strict=True)]
    features, values, _, d_features = vectors(tokens, False)
    model = TokenClassifier_v1(tok2vec, features=features, dropout=0.0, nO=TAGS)
    docs = ["stand-ins"] * 3
    model.initialize(X=docs)
    output = model.get_ref("output")
    W = np.random.default_rng(1).normal(size=(TAGS, 2 * WIDTH)).astype("float32")
    output.set_param("W", W)

    scores, backprop = model.begin_update(docs)
    counts = np.concatenate(pieces) if ragged else np.ones(sum(lengths), dtype="i")
    repeated = np.repeat(np.concatenate(values), counts, axis=0)
    X = np.concatenate([np.concatenate(data), repeated], axis=1)
    np.testing.assert_allclose(scores.dataXd, X @ W.T, rtol=1e-4, atol=1e-5)

    d_scores = np.random.default_rng(2).normal(size=scores.dataXd.shape).astype("float32")
    backprop(Ragged(d_scores.copy(), scores.lengths))
    d_X = d_scores @ W
    np.testing.assert_allclose(np.concatenate(received), d_X[:, :WIDTH], rtol=1e-4, atol=1e-5)
    token = np.repeat(np.arange(len(counts)), counts)
    expected = np.zeros((len(counts), WIDTH))
    np.add.at(expected, token, d_X[:, WIDTH:])
    np.testing.assert_allclose(np.concatenate(d_features), expected, rtol=1e-4, atol=1e-5)


def test_gradients_of_features_stay_at_their_tokens_where_some_are_not_read():
    """What a token that is not read would shift: the gradients of all tokens after it."""
    nlp = spacy.blank("en")
    docs = [nlp("BRCA1  and  TP53 in"), nlp("aspirin  trials")]
    lengths = [len(doc) for doc in docs]
    read = np.array([not token.is_space for doc in docs for token in doc])
    tok2vec, data, _, received = vectors(lengths, False, NormalizingListener)
    features, values, _, d_features = vectors(lengths, False)
    model = TokenClassifier_v1(tok2vec, features=features, dropout=0.0, nO=TAGS)
    model.initialize(X=docs)
    W = np.random.default_rng(1).normal(size=(TAGS, 2 * WIDTH)).astype("float32")
    model.get_ref("output").set_param("W", W)

    scores, backprop = model.begin_update(docs)
    X = np.concatenate([np.concatenate(data), np.concatenate(values)], axis=1)[read]
    assert scores.lengths.tolist() == read.astype(int).tolist() and not read.all()
    np.testing.assert_allclose(scores.dataXd, X @ W.T, rtol=1e-4, atol=1e-5)

    d_scores = np.random.default_rng(2).normal(size=scores.dataXd.shape).astype("float32")
    backprop(Ragged(d_scores.copy(), scores.lengths))
    expected = np.zeros((len(read), 2 * WIDTH))
    expected[read] = d_scores @ W
    np.testing.assert_allclose(np.concatenate(received), expected[:, :WIDTH], rtol=1e-4, atol=1e-5)
    found = np.concatenate(d_features)
    np.testing.assert_allclose(found, expected[:, WIDTH:], rtol=1e-4, atol=1e-5)


def test_a_listener_with_one_row_for_the_document_is_refused():
    with pytest.raises(BiomedError, match="pooling = 'cls'.*use first, mean or pieces"):
        TokenClassifier_v1(EncoderListener_v1(pooling="cls"))


@pytest.mark.parametrize("hidden", [0, TAGS, 7])
@pytest.mark.parametrize("window", [0, 1])
def test_further_outputs_score_as_one_of_those_there_and_learn(window, hidden):
    docs, lengths = ["a", "b"], [3, 1]

    def make(tags):
        tok2vec, *_ = vectors(lengths, False)
        return TokenClassifier_v1(
            tok2vec, window_size=window, hidden_width=hidden, dropout=0.0, nO=tags
        )

    model = make(TAGS).initialize(X=docs)
    output, rng = model.get_ref("output"), np.random.default_rng(1)
    for name in ("W", "b"):
        output.set_param(name, rng.normal(size=output.get_param(name).shape).astype("float32"))
    before = model.predict(docs).dataXd
    scores, backprop = model.begin_update(docs)
    backprop(scores)
    add_outputs(model, 2, like=1, offset=-3.0)
    after = model.predict(docs).dataXd
    assert model.get_dim("nO") == output.get_dim("nO") == TAGS + 2
    np.testing.assert_allclose(after[:, :TAGS], before, rtol=1e-5, atol=1e-6)
    for new in (TAGS, TAGS + 1):
        np.testing.assert_allclose(after[:, new], before[:, 1] - 3.0, rtol=1e-5, atol=1e-6)
    scores, backprop = model.begin_update(docs)
    backprop(scores)
    assert output.get_grad("W").shape == output.get_param("W").shape
    loaded = make(None).from_bytes(model.to_bytes())
    np.testing.assert_allclose(loaded.predict(docs).dataXd, after)
