import numpy as np
import pytest
import spacy
from spacy.ml.models.tok2vec import MultiHashEmbed
from spacy.tokens import Doc
from thinc.api import fix_random_seed

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


def test_each_distinct_word_is_embedded_once(models, docs):
    ours, _ = models
    seen = []
    embed = ours.layers[0].layers[0]
    forward = embed._func

    def record(model, words, is_train):
        seen.extend(len(one) for one in words)
        return forward(model, words, is_train)

    embed._func = record
    ours.predict(docs[:1] * 20)
    assert seen == [6]  # Aspirin , aspirin and ASPIRIN .


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
