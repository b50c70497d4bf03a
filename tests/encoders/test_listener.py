import numpy as np
import pytest
import spacy
from thinc.api import ConfigValidationError, Model, NumpyOps, chain
from thinc.types import Ragged

from spacy_biomed.encoders.batching.encoded import EncodedBatch, get_encoding, set_encoding
from spacy_biomed.encoders.listener import EncoderListener_v1, sizing
from spacy_biomed.errors import BiomedError

OPS = NumpyOps()


@pytest.fixture
def docs():
    nlp = spacy.blank("en")
    return [nlp("ab  c"), nlp(""), nlp(" "), nlp("d")]


@pytest.fixture
def batch():
    """In the documents above "ab" has 2 pieces, " " none, "c" 1 and "d" 3."""
    hidden = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    return EncodedBatch(
        hidden=hidden,
        ids=np.arange(12),
        indices=np.array([1, 2, 3, 1, 2, 3]),
        piece_counts=np.array([2, 0, 1, 0, 3]),
        row_counts=np.array([5, 0, 2, 5]),
        token_counts=np.array([3, 0, 1, 1]),
        id_to_token=str,
    )


def listen(batch, docs, pooling, grad_factor=1.0):
    """Feed a listener as the encoder does in training: outputs, backprop, gradients received."""
    listener, received = EncoderListener_v1(pooling, grad_factor), []
    listener.receive(docs, batch, received.append)
    outputs, backprop = listener.begin_update(docs)
    return outputs, backprop, received


def expected_vectors(hidden, pooling):
    none = np.zeros(3)
    if pooling == "first":
        return [np.stack([hidden[1], none, hidden[3]]), [], [none], [hidden[8]]]
    means = (hidden[1] + hidden[2]) / 2, (hidden[8] + hidden[9] + hidden[10]) / 3
    return [np.stack([means[0], none, hidden[3]]), [], [none], [means[1]]]


@pytest.mark.parametrize("pooling", ["first", "mean", "pieces", "cls"])
def test_prediction_pools_like_training(docs, batch, pooling):
    for doc, encoding in zip(docs, batch.split(listeners=1), strict=True):
        set_encoding(doc, encoding)
    found = EncoderListener_v1(pooling).predict(docs)
    trained, _, _ = listen(batch, docs, pooling)
    for one, expected in zip(found, trained, strict=True):
        one, expected = (getattr(rows, "dataXd", rows) for rows in (one, expected))
        np.testing.assert_array_equal(one, expected)


def test_a_batch_has_been_received_until_it_is_taken(docs, batch):
    listener = EncoderListener_v1("cls")
    assert not listener.has_received(docs)
    listener.receive(docs, batch, lambda d_hidden: None)
    assert listener.has_received(docs)
    assert not listener.has_received(docs[:2])
    listener.begin_update(docs)
    assert not listener.has_received(docs)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_tokens_get_the_first_or_the_mean_of_their_pieces(docs, batch, pooling):
    outputs, _, _ = listen(batch, docs, pooling)
    assert [output.shape for output in outputs] == [(3, 3), (0, 3), (1, 3), (1, 3)]
    for output, expected in zip(outputs, expected_vectors(batch.hidden, pooling), strict=True):
        np.testing.assert_allclose(output, np.reshape(expected, (-1, 3)), rtol=1e-6)


def test_pieces_are_kept_apart(docs, batch):
    outputs, _, _ = listen(batch, docs, "pieces")
    assert [output.lengths.tolist() for output in outputs] == [[2, 0, 1], [], [0], [3]]
    np.testing.assert_array_equal(outputs[0].dataXd, batch.hidden[[1, 2, 3]])
    assert outputs[1].dataXd.shape == outputs[2].dataXd.shape == (0, 3)
    np.testing.assert_array_equal(outputs[3].dataXd, batch.hidden[[8, 9, 10]])


def test_cls_is_the_vector_of_each_documents_first_position(docs, batch):
    outputs, _, _ = listen(batch, docs, "cls")
    assert [output.shape for output in outputs] == [(1, 3)] * 4
    expected = [batch.hidden[0], np.zeros(3), batch.hidden[5], batch.hidden[7]]
    np.testing.assert_array_equal(np.concatenate(outputs), expected)


def test_documents_without_tokens_alone_have_a_row_of_zeros(batch):
    docs = [spacy.blank("en")("")] * 2
    empty = EncodedBatch.from_docs([batch.split()[1]] * 2)
    outputs, backprop, received = listen(empty, docs, "cls")
    assert [output.tolist() for output in outputs] == [[[0.0] * 3]] * 2
    backprop(outputs)
    assert received[0].shape == (0, 3)


def flat(outputs):
    return np.concatenate([o.dataXd if isinstance(o, Ragged) else o for o in outputs])


@pytest.mark.parametrize("pooling", ["first", "mean", "pieces", "cls"])
def test_gradients_are_those_of_finite_differences(docs, batch, pooling):
    outputs, backprop, received = listen(batch, docs, pooling)
    weights = np.random.default_rng(1).normal(size=flat(outputs).shape).astype("float32")
    borders = np.cumsum([len(o.dataXd) if isinstance(o, Ragged) else len(o) for o in outputs])[:-1]
    d_outputs = [
        Ragged(part, output.lengths) if isinstance(output, Ragged) else part
        for part, output in zip(np.split(weights.copy(), borders), outputs, strict=True)
    ]
    backprop(d_outputs)
    [d_hidden] = received

    hidden = batch.hidden.copy()
    numeric = np.zeros_like(hidden)
    for place in np.ndindex(*hidden.shape):
        values = []
        for step in (0.5, -0.5):  # the pooling is linear: any step is exact
            batch.hidden = hidden.copy()
            batch.hidden[place] += step
            values.append(float((flat(listen(batch, docs, pooling)[0]) * weights).sum()))
        numeric[place] = values[0] - values[1]
    np.testing.assert_allclose(d_hidden, numeric, atol=1e-4)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_the_gradient_of_a_piece_that_tokens_share_adds_up(pooling):
    """Byte-level BPE: one piece in two tokens."""
    docs = [spacy.blank("en")("don't")]
    batch = EncodedBatch(
        hidden=np.ones((1, 2), dtype="float32"),
        ids=np.arange(1),
        indices=np.array([0, 0]),
        piece_counts=np.array([1, 1]),
        row_counts=np.array([1]),
        token_counts=np.array([2]),
        id_to_token=str,
    )
    _, backprop, received = listen(batch, docs, pooling)
    backprop([np.array([[1.0, 2.0], [10.0, 20.0]], dtype="float32")])
    assert received[0].tolist() == [[11.0, 22.0]]


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("pooling", ["first", "mean", "pieces", "cls"])
@pytest.mark.parametrize("factor", [0.0, 0.25])
def test_the_factor_multiplies_the_gradient(docs, batch, pooling, factor):
    gradients = []
    for grad_factor in (1.0, factor):
        outputs, backprop, received = listen(batch, docs, pooling, grad_factor)
        backprop([o if isinstance(o, Ragged) else o.copy() for o in outputs])
        gradients.append(received[0])
    assert np.abs(gradients[0]).sum() > 0
    np.testing.assert_allclose(gradients[1], factor * gradients[0], rtol=1e-6)


@pytest.mark.parametrize("pooling", ["first", "mean", "pieces", "cls"])
def test_backprop_leaves_the_heads_gradient_as_it_was(docs, batch, pooling):
    outputs, backprop, _ = listen(batch, docs, pooling)
    d_outputs = [
        Ragged(np.ones_like(o.dataXd), o.lengths) if isinstance(o, Ragged) else np.ones_like(o)
        for o in outputs
    ]
    backprop(d_outputs)
    assert (flat(d_outputs) == 1.0).all()


@pytest.mark.parametrize("pooling", ["first", "mean", "pieces", "cls"])
def test_prediction_reads_off_the_documents_what_training_receives(docs, batch, pooling):
    expected, _, _ = listen(batch, docs, pooling)
    for doc, encoding in zip(docs, batch.split(listeners=1), strict=True):
        set_encoding(doc, encoding)
    np.testing.assert_array_equal(flat(EncoderListener_v1(pooling).predict(docs)), flat(expected))


@pytest.mark.parametrize("pooling", ["first", "mean", "pieces"])
def test_documents_of_white_space_alone_can_be_pooled(batch, pooling):
    docs = [spacy.blank("en")("  ")]
    blank = EncodedBatch.from_docs([batch.split()[2]])
    outputs, backprop, received = listen(blank, docs, pooling)
    assert flat(outputs).tolist() == ([] if pooling == "pieces" else [[0.0, 0.0, 0.0]])
    backprop(outputs)
    assert received[0].tolist() == [[0.0] * 3] * 2


def test_encodings_are_let_go_after_the_last_reader(docs, batch):
    listeners = [EncoderListener_v1(), EncoderListener_v1("mean")]
    for doc, encoding in zip(docs, batch.split(listeners=2), strict=True):
        set_encoding(doc, encoding)
    listeners[0].predict(docs)
    assert all(get_encoding(doc) is not None for doc in docs)
    listeners[1].predict(docs)
    assert all(get_encoding(doc) is None for doc in docs)


def test_a_frozen_encoder_is_read_off_the_documents_in_training(docs, batch):
    for doc, encoding in zip(docs, batch.split(listeners=1), strict=True):
        set_encoding(doc, encoding)
    outputs, backprop = EncoderListener_v1().begin_update(docs)
    assert len(outputs[0]) == 3
    assert backprop(outputs) == []


def test_training_without_an_encoder_upstream_is_refused(docs):
    with pytest.raises(BiomedError, match="put biomed_transformer first"):
        EncoderListener_v1().begin_update(docs)


def test_a_frozen_encoder_is_read_although_a_batch_was_left_over(docs, batch):
    """As after training with this head frozen."""
    listener = EncoderListener_v1()
    listener.receive(docs[1:], batch, lambda d_hidden: None)
    for doc, encoding in zip(docs, batch.split(listeners=1), strict=True):
        set_encoding(doc, encoding)
    outputs, _ = listener.begin_update(docs)
    assert [len(output) for output in outputs] == [3, 0, 1, 1]


@pytest.mark.parametrize(("upstream", "expected"), [("first", 0.0), ("second", 1.0), ("*", 1.0)])
def test_each_layer_reads_the_encoder_that_it_names_or_the_last(docs, batch, upstream, expected):
    for number, name in enumerate(("first", "second")):
        for doc, encoding in zip(docs, batch.split(listeners=1), strict=True):
            encoding.hidden = np.full_like(encoding.hidden, number)
            set_encoding(doc, encoding, name)
    listener = EncoderListener_v1(upstream=upstream)
    assert flat(listener.predict(docs))[0].tolist() == [expected] * 3
    others = {"first", "second"} - {upstream} if upstream != "*" else set()
    assert all(get_encoding(doc, name) for doc in docs for name in others)


def test_other_documents_than_the_encoder_had_are_refused(docs, batch):
    listener = EncoderListener_v1()
    listener.receive(docs, batch, lambda d_hidden: None)
    with pytest.raises(ValueError, match="other documents"):
        listener.begin_update(docs[1:])


def test_a_batch_is_handed_out_once(docs, batch):
    listener = EncoderListener_v1()
    listener.receive(docs, batch, lambda d_hidden: None)
    listener.begin_update(docs)
    with pytest.raises(BiomedError, match="put biomed_transformer first"):
        listener.begin_update(docs)


@pytest.mark.parametrize(
    ("pooling", "lengths"),
    [("first", [3, 0, 1, 1]), ("pieces", [3, 0, 1, 1]), ("cls", [1, 1, 1, 1])],
)
def test_a_head_is_sized_with_zeros_of_the_right_shape(docs, pooling, lengths):
    listener = EncoderListener_v1(pooling)
    listener.set_dim("nO", 3)
    with sizing(chain(listener, Model("after", None))):
        outputs = listener.predict(docs)
    assert flat(outputs).tolist() == [[0.0] * 3] * sum(lengths)
    assert [len(o.lengths if isinstance(o, Ragged) else o) for o in outputs] == lengths
    assert not listener.is_sizing


def test_documents_without_an_encoding_are_encoded_among_the_others(docs, batch):
    expected, _, _ = listen(batch, docs, "mean")
    parts, encoded = batch.split(listeners=1), []
    for i in (0, 3):
        set_encoding(docs[i], parts[i])

    def encode(model, given, is_train):
        encoded.extend(given)
        return EncodedBatch.from_docs([batch.split()[docs.index(doc)] for doc in given]), None

    listener = EncoderListener_v1("mean")
    listener.encoder = Model("encoder", encode, dims={"nO": 3})
    np.testing.assert_array_equal(flat(listener.predict(docs)), flat(expected))
    assert encoded == docs[1:3]
    assert all(get_encoding(doc) is None for doc in docs)


@pytest.mark.parametrize("encoder", [None, Model("encoder", None, dims={"nO": None})])
def test_prediction_without_an_encoder_that_could_is_one_line(docs, encoder):
    listener = EncoderListener_v1()
    listener.set_dim("nO", 3)
    listener.encoder = encoder
    with pytest.raises(BiomedError, match="has no encoding.*put biomed_transformer first") as e:
        listener.predict(docs)
    assert "\n" not in str(e.value)
    assert "ab" not in str(e.value)


def test_an_unknown_pooling_in_a_config_is_refused():
    layer = {"@architectures": "spacy_biomed.EncoderListener.v1", "pooling": "last"}
    with pytest.raises(ConfigValidationError, match="'last'.*first"):
        spacy.registry.resolve({"layer": layer})


def test_a_batch_that_is_skipped_sends_no_gradient_and_is_gone(docs, batch):
    listener, received = EncoderListener_v1(), []
    listener.receive(docs, batch, received.append)
    listener.skip(docs)
    assert received == [None]
    assert not listener.has_received(docs)


def test_skipped_documents_let_go_of_the_encodings_of_a_frozen_encoder(docs, batch):
    for doc, encoding in zip(docs, batch.split(listeners=2), strict=True):
        set_encoding(doc, encoding)
    first, second = EncoderListener_v1(), EncoderListener_v1()
    first.skip(docs)
    assert all(get_encoding(doc) is not None for doc in docs)
    second.skip(docs)
    assert all(get_encoding(doc) is None for doc in docs)
