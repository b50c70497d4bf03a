import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from spacy.ml.models.tok2vec import MultiHashEmbed
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Adam, fix_random_seed

from spacy_biomed.models import word_embed
from spacy_biomed.models.word_embed import WordEmbed_v1

ATTRS, ROWS = ["NORM", "PREFIX", "SUFFIX", "SHAPE"], [50, 20, 30, 30]


@pytest.fixture
def docs():
    nlp = spacy.blank("en")
    texts = ["Aspirin, aspirin and ASPIRIN.", "", "aspirin  can't", "It can. I can't can aspirin"]
    return [nlp.make_doc(text) for text in texts]


@pytest.fixture
def models(docs):
    """Ours and spaCy's with the same weights."""
    fix_random_seed(0)
    ours = WordEmbed_v1(8, ATTRS, ROWS).initialize(X=docs)
    stock = MultiHashEmbed(8, ATTRS, ROWS, include_static_vectors=False).initialize(X=docs)
    stock.from_bytes(ours.layers[0].to_bytes())
    return ours, stock


@pytest.mark.parametrize("times", [1, 20])
def test_prediction_gives_the_vectors_of_spacys_layer(models, docs, times):
    ours, stock = models
    docs *= times
    for found, expected in zip(ours.predict(docs), stock.predict(docs), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_tokens_of_one_form_with_different_norms_stay_apart(models, docs):
    """The "ca" of "can't" has the norm "can"."""
    ours, stock = models
    part = docs[2]
    plain = Doc(part.vocab, words=["ca", "ca"])
    assert part[2].text == "ca" and part[2].norm_ == "can" and plain[0].norm_ == "ca"
    together = ours.predict([part, plain] * 20)
    np.testing.assert_allclose(together[1], stock.predict([plain])[0], rtol=1e-5, atol=1e-6)
    assert np.abs(together[0][2] - together[1][0]).max() > 1e-3


@pytest.fixture
def embedded(models):
    """How many words each call of spaCy's layer in ours is given."""
    numbers = []
    embed = models[0].layers[0].layers[0]
    forward = embed._func

    def record(model, words, is_train):
        numbers.extend(len(one) for one in words)
        return forward(model, words, is_train)

    embed._func = record
    return numbers


def test_each_distinct_word_is_embedded_once(models, docs, embedded):
    ours, _ = models
    ours.predict(docs[:1] * 20)
    assert embedded == [6]  # Aspirin , aspirin and ASPIRIN .
    ours.predict(docs[:1])
    ours.predict(docs[2:3])
    assert embedded == [6, 3]  # white space, ca, n't


def test_vectors_are_computed_again_when_there_is_no_room(models, docs, embedded, monkeypatch):
    ours, stock = models
    monkeypatch.setattr(word_embed, "MOST_WORDS", 7)
    expected = stock.predict(docs)
    for i in (0, 2, 0, 0):
        [found] = ours.predict([docs[i]])
        np.testing.assert_allclose(found, expected[i], rtol=1e-5, atol=1e-6)
    assert embedded == [6, 4, 6]


@pytest.mark.parametrize("change", ["an optimizer", "other bytes", "set_param"])
def test_new_weights_give_new_vectors(models, docs, change):
    ours, stock = models
    before = ours.predict(docs)
    if change == "an optimizer":
        vectors, backprop = ours.begin_update(docs)
        backprop([np.ones_like(one) * (1.0 + np.arange(8, dtype="float32")) for one in vectors])
        ours.predict(docs)  # as an annotating component does, before the update
        ours.finish_update(Adam(0.1))
    elif change == "other bytes":
        fix_random_seed(1)
        ours.from_bytes(WordEmbed_v1(8, ATTRS, ROWS).initialize(X=docs).to_bytes())
    else:
        table = next(node for node in ours.walk() if node.name == "hashembed")
        table.set_param("E", table.get_param("E") * 2)
    stock.from_bytes(ours.layers[0].to_bytes())
    after = ours.predict(docs)
    assert np.abs(after[0] - before[0]).max() > 1e-3
    for found, expected in zip(after, stock.predict(docs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_averaged_weights_have_vectors_of_their_own(models, docs):
    ours, _ = models
    before = ours.predict(docs)
    averages = {
        (node.id, name): node.get_param(name) * 2
        for node in ours.walk()
        for name in node.param_names
    }
    with ours.use_params(averages):
        assert np.abs(ours.predict(docs)[0] - before[0]).max() > 1e-3
    for one, other in zip(ours.predict(docs), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_words_vector_does_not_depend_on_the_words_beside_it(models, docs):
    """Else a document's annotation could depend on what was annotated before it."""
    ours, _ = models
    together = ours.predict(docs)
    for doc, expected in zip(docs, together, strict=True):
        [found] = pickle.loads(pickle.dumps(ours.copy())).predict([doc])
        np.testing.assert_array_equal(found, expected)


def test_threads_share_the_vectors(models):
    ours, stock = models
    vocab = Vocab()
    docs = [Doc(vocab, words=[f"w{i * j % 97}" for j in range(50)]) for i in range(200)]
    expected = stock.predict(docs)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda doc: ours.predict([doc])[0], docs))
    for found, one in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-5, atol=1e-6)


def test_further_heads_find_equal_words_as_the_first_one_did(models, docs):
    """Also where the words are others in between, or the same with another norm."""
    ours, stock = models
    changed = Doc(docs[0].vocab, words=[token.text for token in docs[0]])
    changed[0].norm_ = "acid"
    for batch in ([docs[0]] * 20, [docs[3]] * 20, [docs[0]] * 20, [changed] * 20):
        for model in (ours, ours.copy()):
            for found, expected in zip(model.predict(batch), stock.predict(batch), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_training_is_that_of_spacys_layer(models, docs):
    ours, stock = models
    gradients = [np.ones((len(doc), 8), dtype="float32") for doc in docs]
    for model in models:
        vectors, backprop = model.begin_update(docs)
        backprop(gradients)
    for one, other in zip(ours.walk(), [ours, *stock.walk()], strict=True):
        for name in one.param_names:
            np.testing.assert_array_equal(one.get_grad(name), other.get_grad(name))


@pytest.mark.parametrize("attrs", [["NORM"], ATTRS])
def test_it_predicts_where_there_are_no_words(attrs):
    doc = spacy.blank("en").make_doc("")
    model = WordEmbed_v1(4, attrs, [10] * len(attrs)).initialize()
    assert [vectors.shape for vectors in model.predict([doc])] == [(0, 4)]
    assert model.predict([]) == []


def test_one_attribute_is_enough(docs):
    model = WordEmbed_v1(4, ["NORM"], [10]).initialize(X=docs)
    assert [vectors.shape for vectors in model.predict(docs)] == [(len(doc), 4) for doc in docs]
