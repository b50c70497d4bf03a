import numpy as np
import spacy
from spacy.tokens import Doc

from spacy_biomed.pipeline.orthography import Orthography_v1
from spacy_biomed.pipeline.token_classifier import TokenClassifier_v1


def test_capitals_digits_signs_and_length_are_told_apart():
    vocab = spacy.blank("en").vocab
    docs = [
        Doc(vocab, words=["at", "AT", "At", "mRNA", "p53", "12", "-"]),
        Doc(vocab, words=[]),
        Doc(vocab, words=["adenocarcinoma"]),
    ]
    outputs = Orthography_v1().predict(docs)
    assert [len(output) for output in outputs] == [7, 0, 1]
    written = [tuple(np.flatnonzero(row[:8]).tolist()) for row in outputs[0]]
    # lower 0, upper 1, title 2, mixed 3, letters 4, digits 5, letters and digits 6, sign 7
    assert written == [(0, 4), (1, 4), (2, 4), (3, 4), (0, 6), (5,), (7,)]
    assert outputs[0][:, 8:].sum(axis=1).tolist() == [1, 1, 1, 3, 2, 1, 0]
    assert outputs[2][0, 8:].tolist() == [1] * 6


def test_the_classifier_sees_the_features_beside_the_vectors():
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=["at", "AT"]), Doc(vocab, words=["At"])]
    features = Orthography_v1()
    model = TokenClassifier_v1(Orthography_v1(), features=features, nO=3)
    model.initialize(X=docs)
    output = model.get_ref("output")
    assert output.get_dim("nI") == 2 * features.get_dim("nO")
    scores, backprop = model.begin_update(docs)
    assert scores.dataXd.shape == (3, 3)
    backprop(scores)
    assert np.abs(output.get_grad("W")).sum() > 0
