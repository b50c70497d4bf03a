import numpy as np
import pytest
import spacy
from spacy.training import Example

import spacy_biomed
from spacy_biomed.annotations.pairs import PAIR_KEY
from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.pipeline.similarity import correlate, rank, score_similarity
from spacy_biomed.training.optimizer import AdamW_v1

SIMILARITY, NER, ENCODER = "biomed_similarity", "biomed_ner", "biomed_transformer"
TOY = [
    ("Aspirin reduced cancer", "Aspirin reduced the risk", 4.0),
    ("breast cancer", "ovarian tumours", 3.5),
    ("breast cancer", "fiebre de 39 °C", 0.5),
    ("paracetamol 500 mg", "Mutations of BRCA1", 0.0),
    ("vómitos", "vómitos", 5.0),
]


def make_example(nlp, first, second, cats=None):
    reference = spacy_biomed.pair(nlp, first, second)
    reference.cats = dict(cats or {})
    return Example(nlp.make_doc(reference.text), reference)


def make_examples(nlp, label="similarity", factor=1.0, documents=TOY):
    return [make_example(nlp, a, b, {label: factor * number}) for a, b, number in documents]


def trained(make_pipeline, steps=100, factor=1.0, **config):
    nlp = make_pipeline({SIMILARITY: config})
    examples = make_examples(nlp, config.get("label", "similarity"), factor)
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


def ready(make_pipeline, numbers=(1.0, 3.0), **config):
    """A sized, untrained head, initialised with these numbers."""
    nlp = make_pipeline({SIMILARITY: config})
    examples = [make_example(nlp, "a", "b", {"similarity": number}) for number in numbers]
    nlp.initialize(lambda: examples)
    return nlp, nlp.get_pipe(SIMILARITY)


def annotated(nlp, *numbers):
    """Examples with these numbers; None for a document without annotation."""
    return [
        make_example(nlp, "a", "b", {} if number is None else {"similarity": number})
        for number in numbers
    ]


# Learning


@pytest.mark.slow
def test_it_learns_the_numbers_of_a_toy_task(make_pipeline, tmp_path):
    nlp = trained(make_pipeline, steps=60)
    examples = make_examples(nlp)
    scores = nlp.evaluate(examples)
    assert scores["similarity_pearson"] > 0.99
    assert scores["similarity_spearman"] == pytest.approx(1.0)
    numbers = [doc.cats["similarity"] for doc in nlp.pipe(eg.reference.text for eg in examples)]
    np.testing.assert_allclose(numbers, [number for *_, number in TOY], atol=0.2)
    nlp.to_disk(tmp_path / "saved")
    from_bytes = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    write_compressed(nlp, tmp_path / "compressed", "fp32", False)
    for again in (
        spacy.load(tmp_path / "saved"),
        from_bytes,
        spacy.load(tmp_path / "compressed"),
    ):
        docs = again.pipe(example.reference.text for example in examples)
        actual = [doc.cats["similarity"] for doc in docs]
        np.testing.assert_allclose(actual, numbers, atol=1e-3)


def test_learning_is_the_same_in_any_unit(make_pipeline):
    """Predictions for corpora from 0 to 100 and from 0 to 5 differ only by this factor."""
    numbers = []
    for factor in (1.0, 20.0):
        nlp = trained(make_pipeline, steps=5, factor=factor)
        docs = nlp.pipe(example.reference.text for example in make_examples(nlp))
        numbers.append([doc.cats["similarity"] / factor for doc in docs])
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-3)


def test_numbers_are_in_the_units_of_the_corpus(make_pipeline):
    nlp, head = ready(make_pipeline, numbers=(1.0, 2.0, 6.0))
    assert head.cfg["mean"] == pytest.approx(3.0)
    assert head.cfg["deviation"] == pytest.approx(np.sqrt((4 + 1 + 9) / 3))
    docs = [spacy_biomed.pair(nlp, "a", "b"), spacy_biomed.pair(nlp, "Aspirin", "cancer")]
    encoder = nlp.get_pipe(ENCODER)
    encoder.set_annotations(docs, encoder.predict(docs))
    expected = 3.0 + head.cfg["deviation"] * head.model.predict(docs)[:, 0]
    actual = [doc.cats["similarity"] for doc in nlp.pipe(["a\x1eb", "Aspirin\x1ecancer"])]
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_predicted_documents_have_the_pair_and_other_components_classes(make_pipeline):
    nlp, _ = ready(make_pipeline)
    doc = nlp.make_doc("a\x1eb")
    doc.cats["entailment"] = 0.25
    nlp.get_pipe(SIMILARITY).set_annotations([nlp.get_pipe(ENCODER)(doc)], np.array([2.5]))
    assert doc.cats == {"entailment": 0.25, "similarity": 2.5}
    assert [span.text for span in doc.spans[PAIR_KEY]] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "   ", "😀", "\x1e", "one text alone"])
def test_hardly_any_text_and_single_texts_have_a_number(make_pipeline, text):
    nlp, _ = ready(make_pipeline)
    assert np.isfinite(nlp(text).cats["similarity"])


# The loss


def test_numbers_can_be_learned_as_they_are_annotated(make_pipeline):
    nlp, head = ready(make_pipeline, numbers=(0.0, 5.0), standardize=False)
    assert (head.cfg["mean"], head.cfg["deviation"]) == (0.0, 1.0)
    scores = np.array([[1.0], [4.0]], dtype="float32")
    loss, d_scores = head.get_loss(annotated(nlp, 0.0, 5.0), scores)
    assert loss == pytest.approx((1 + 1) / 2)
    np.testing.assert_allclose(d_scores, [[1.0], [-1.0]])


def test_the_loss_is_the_mean_squared_error_in_standard_deviations(make_pipeline):
    nlp, head = ready(make_pipeline, numbers=(1.0, 3.0))  # mean 2, deviation 1
    head.cfg["deviation"] = 2.0
    scores = np.array([[0.5], [1.0], [-1.0]], dtype="float32")
    loss, d_scores = head.get_loss(annotated(nlp, 4.0, None, 1.0), scores)
    # Targets are (4 - 2) / 2 = 1 and (1 - 2) / 2 = -0.5.
    assert loss == pytest.approx(((0.5 - 1.0) ** 2 + (-1.0 + 0.5) ** 2) / 2)
    np.testing.assert_allclose(d_scores, [[2 * -0.5 / 2], [0.0], [2 * -0.5 / 2]])
    assert d_scores.dtype == "float32"


def test_the_gradient_of_the_loss_is_that_of_finite_differences(make_pipeline):
    nlp, head = ready(make_pipeline, numbers=(0.5, 2.0, 4.5))
    examples = annotated(nlp, 4.0, 0.25, None, 3.0)
    scores = np.random.default_rng(0).normal(size=(4, 1))
    _, d_scores = head.get_loss(examples, scores)
    for i in range(4):
        step = np.zeros((4, 1))
        step[i] = 1e-5
        above, below = (head.get_loss(examples, scores + sign * step)[0] for sign in (1, -1))
        assert d_scores[i, 0] == pytest.approx((above - below) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("number", [3.0, 0.1])  # of 0.1, rounding leaves a deviation
def test_numbers_that_are_all_the_same_can_be_learned(make_pipeline, number):
    nlp, head = ready(make_pipeline, numbers=(number,) * 3)
    assert (head.cfg["mean"], head.cfg["deviation"]) == (pytest.approx(number), 1.0)


# What is not annotated


def test_documents_without_annotation_leave_the_head_as_it_is(make_pipeline, learns_nothing_from):
    nlp, _ = ready(make_pipeline)
    absent = [make_example(nlp, "a", "b", {"entailment": 1.0}), *annotated(nlp, None)]
    absent.append(make_example(nlp, "", "", {}))
    learns_nothing_from(nlp, SIMILARITY, annotated(nlp, 1.0, 3.0), absent)


# Settings and bad input


def test_a_label_of_its_own_and_a_name_of_its_own(make_pipeline):
    nlp = make_pipeline({"biomed_similarity-b": {"label": "relatedness"}, SIMILARITY: {}})
    examples = [make_example(nlp, a, b, {"similarity": n, "relatedness": -n}) for a, b, n in TOY]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(40):
        nlp.update(examples, sgd=optimizer)
    scores = nlp.evaluate(examples)
    assert set(nlp("a\x1eb").cats) == {"similarity", "relatedness"}
    assert scores["similarity_biomed_similarity-b_pearson"] > 0.5
    assert scores["similarity_pearson"] > 0.5
    assert {"similarity_spearman", "similarity_biomed_similarity-b_spearman"} <= set(scores)


def test_another_label_is_refused(make_pipeline):
    head = make_pipeline({SIMILARITY: {}}).get_pipe(SIMILARITY)
    assert head.add_label("similarity") == 0
    with pytest.raises(BiomedError, match="one label, 'similarity'.*\\] label"):
        head.add_label("relatedness")


def test_a_corpus_without_the_number_is_one_line(make_pipeline):
    nlp = make_pipeline({SIMILARITY: {"label": "relatedness"}})
    with pytest.raises(BiomedError) as error:
        nlp.initialize(lambda: make_examples(nlp))
    assert str(error.value) == (
        "no document of the training corpus has the number 'relatedness' of 'biomed_similarity' "
        "(doc.cats): check the corpus, or set [components.biomed_similarity] label"
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(make_pipeline, number):
    nlp = make_pipeline({SIMILARITY: {}})
    with pytest.raises(BiomedError, match="'similarity' of 'a b' is (nan|inf): use a finite"):
        nlp.initialize(lambda: annotated(nlp, 1.0, number))


# Scores


def scored(numbers):
    """Scores of pairs of predicted and gold numbers; None for a missing number."""
    nlp = spacy.blank("en")
    examples = []
    for predicted, gold in numbers:
        [example] = annotated(nlp, gold)
        example.predicted.cats = {} if predicted is None else {"similarity": predicted}
        examples.append(example)
    return score_similarity(examples, labels=["similarity"])


def test_correlations_are_those_by_hand():
    scores = scored([(1.0, 1.0), (2.0, 3.0), (6.0, 2.0)])
    # Deviations from the means: (-2, -1, 3) and (-1, 1, 0). Deviations of ranks: the same for gold,
    # and (-1, 0, 1) for the predictions.
    assert scores["similarity_pearson"] == pytest.approx((2 - 1 + 0) / np.sqrt(14 * 2))
    assert scores["similarity_spearman"] == pytest.approx(1 / 2)


def test_correlations_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 11, size=60) / 2  # with ties
    predicted = np.round(gold + rng.normal(size=60), 1)
    scores = scored(list(zip(predicted.tolist(), gold.tolist(), strict=True)))
    expected = stats.pearsonr(predicted, gold)[0]
    assert scores["similarity_pearson"] == pytest.approx(expected)
    assert scores["similarity_spearman"] == pytest.approx(stats.spearmanr(predicted, gold)[0])
    np.testing.assert_array_equal(rank(predicted), stats.rankdata(predicted))


def test_only_documents_with_both_numbers_are_scored():
    numbers = [(1.0, 1.0), (None, 5.0), (2.0, 3.0), (9.0, None), (6.0, 2.0)]
    assert scored(numbers) == scored([numbers[0], numbers[2], numbers[4]])


@pytest.mark.parametrize("numbers", [[], [(1.0, 2.0)], [(1.0, None), (2.0, 3.0), (None, 1.0)]])
def test_fewer_than_two_documents_have_no_score(numbers):
    assert scored(numbers) == {"similarity_pearson": None, "similarity_spearman": None}


def test_equal_gold_numbers_have_no_score_and_equal_predictions_none_above_chance():
    assert correlate(np.array([1.0, 2.0]), np.array([3.0, 3.0])) is None
    assert correlate(np.array([1.0, 1.0]), np.array([3.0, 4.0])) == 0.0
    assert correlate(np.array([1.0, np.nan]), np.array([3.0, 4.0])) == 0.0
