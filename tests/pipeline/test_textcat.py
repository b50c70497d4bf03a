import pytest
import spacy
from spacy.training import Example

from spacy_biomed.pipeline.textcat import multilabel_scorer_v1, score_multilabel

SETTINGS = {"labels": ["A", "B"], "threshold": 0.5}


def examples(pairs):
    nlp = spacy.blank("en")
    for predicted, gold in pairs:
        example = Example(nlp("a"), nlp("a"))
        example.predicted.cats, example.reference.cats = predicted, gold
        yield example


def test_the_main_score_is_macro_f1():
    # A: precision 1, recall 1/2: F1 = 2/3. B: precision 1/3, recall 1: F1 = 1/2.
    pairs = [
        ({"A": 0.9, "B": 0.9}, {"A": 1.0, "B": 1.0}),
        ({"A": 0.1, "B": 0.8}, {"A": 1.0, "B": 0.0}),
        ({"A": 0.2, "B": 0.3}, {"A": 0.0, "B": 0.0}),
        ({"A": 0.2, "B": 0.7}, {"A": 0.0, "B": 0.0}),
    ]
    scores = score_multilabel(list(examples(pairs)), **SETTINGS)
    assert scores["cats_macro_f"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert scores["cats_score"] == scores["cats_macro_f"]
    assert scores["cats_score_desc"] == "macro F"


def test_scores_of_classes_are_spacys():
    pairs = [({"A": 0.9, "B": 0.1}, {"A": 1.0, "B": 1.0})]
    scores = multilabel_scorer_v1()(list(examples(pairs)), **SETTINGS)
    assert scores["cats_f_per_type"]["A"] == {"p": 1.0, "r": 1.0, "f": 1.0}
    assert scores["cats_f_per_type"]["B"]["f"] == 0.0
