import numpy as np
import pytest
import spacy
import torch
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from transformers import AutoModel

from spacy_biomed.annotations.document_keys import PART_OF
from spacy_biomed.annotations.soft_labels import Teacher, set_soft_labels
from spacy_biomed.encoders.batching.encoded import get_encoding
from spacy_biomed.encoders.batching.windows import make_windows
from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.pipeline.textcat import scores as textcat_scores
from spacy_biomed.pipeline.textcat.scores import (
    classification_scorer_v1,
    gold_probabilities,
    score_classes,
)
from spacy_biomed.training.optimizer import AdamW_v1

TEXTCAT, NER, ENCODER = "biomed_textcat", "biomed_ner", "biomed_transformer"
ONNX = "biomed_onnx_transformer"
EXCLUSIVE = [
    ("Aspirin reduced the risk", {"DISEASE": 0.0, "DRUG": 1.0, "GENE": 0.0}),
    ("paracetamol 500 mg", {"DISEASE": 0.0, "DRUG": 1.0, "GENE": 0.0}),
    ("breast cancer", {"DISEASE": 1.0, "DRUG": 0.0, "GENE": 0.0}),
    ("metástasis, náuseas y fiebre", {"DISEASE": 1.0, "DRUG": 0.0, "GENE": 0.0}),
    ("Mutations of BRCA1", {"DISEASE": 0.0, "DRUG": 0.0, "GENE": 1.0}),
]
MULTILABEL = [
    ("Aspirin reduced cancer", {"DISEASE": 1.0, "DRUG": 1.0}),
    ("paracetamol 500 mg", {"DISEASE": 0.0, "DRUG": 1.0}),
    ("breast cancer", {"DISEASE": 1.0, "DRUG": 0.0}),
    ("patients were found", {"DISEASE": 0.0, "DRUG": 0.0}),
]


def make_example(nlp, text, cats=None):
    """An example with these classes; None for a document without annotation."""
    example = Example(nlp.make_doc(text), nlp.make_doc(text))
    example.reference.cats = dict(cats or {})
    return example


def make_examples(nlp, documents):
    return [make_example(nlp, text, cats) for text, cats in documents]


def toy(exclusive):
    return EXCLUSIVE if exclusive else MULTILABEL


def trained(make_pipeline, steps=60, documents=None, **config):
    nlp = make_pipeline({TEXTCAT: config})
    examples = make_examples(nlp, documents or toy(config.get("exclusive")))
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


def ready(make_pipeline, labels=("A", "B", "C"), **config):
    """A sized, untrained head with these labels."""
    nlp = make_pipeline({TEXTCAT: config})
    cats = {label: float(i == 0) for i, label in enumerate(labels)}
    nlp.initialize(lambda: [make_example(nlp, "a", cats)])
    return nlp, nlp.get_pipe(TEXTCAT)


def softmax(scores):
    exp = np.exp(scores.astype("float64"))
    return exp / exp.sum(axis=1, keepdims=True)


def sigmoid(scores):
    return 1 / (1 + np.exp(-scores.astype("float64")))


def positive(doc):
    return {label for label, value in doc.cats.items() if value > 0.5}


# Learning


@pytest.mark.parametrize(
    "config",
    [
        {"exclusive": True},
        {"exclusive": False},
        {"exclusive": True, "model": {"hidden_width": 16}},
    ],
    ids=["exclusive", "multi-label", "hidden layer"],
)
def test_it_learns_a_toy_task(make_pipeline, config, tmp_path):
    nlp = trained(make_pipeline, **config)
    documents = toy(config["exclusive"])
    assert nlp.evaluate(make_examples(nlp, documents))["cats_score"] == 1.0
    expected = [nlp(text).cats for text, _ in documents]
    nlp.to_disk(tmp_path)
    from_bytes = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for again in (spacy.load(tmp_path), from_bytes):
        assert again.get_pipe(TEXTCAT).labels == nlp.get_pipe(TEXTCAT).labels
        for (text, _), cats in zip(documents, expected, strict=True):
            assert again(text).cats == pytest.approx(cats, abs=1e-5)


def test_exclusive_classes_have_probabilities_that_add_up_to_1(make_pipeline):
    nlp = trained(make_pipeline, steps=10, exclusive=True)
    docs = list(nlp.pipe([text for text, _ in EXCLUSIVE]))
    for doc, (_, gold) in zip(docs, EXCLUSIVE, strict=True):
        assert list(doc.cats) == list(gold)
        assert sum(doc.cats.values()) == pytest.approx(1.0, abs=1e-5)
    encoder, head = nlp.get_pipe(ENCODER), nlp.get_pipe(TEXTCAT)
    encoder.set_annotations(docs, encoder.predict(docs))
    expected = softmax(head.model.predict(docs))
    np.testing.assert_allclose([list(doc.cats.values()) for doc in docs], expected, rtol=1e-4)


def test_other_classes_have_a_sigmoid_each(make_pipeline):
    nlp = trained(make_pipeline, steps=10)
    docs = list(nlp.pipe([text for text, _ in MULTILABEL]))
    encoder, head = nlp.get_pipe(ENCODER), nlp.get_pipe(TEXTCAT)
    encoder.set_annotations(docs, encoder.predict(docs))
    expected = sigmoid(head.model.predict(docs))
    np.testing.assert_allclose([list(doc.cats.values()) for doc in docs], expected, rtol=1e-4)


@pytest.mark.parametrize("exclusive", [True, False])
def test_scores_of_any_size_have_probabilities(make_pipeline, exclusive):
    nlp, head = ready(make_pipeline, exclusive=exclusive)
    output = head.model.layers[-1]
    output.set_param("b", np.array([1e4, -1e4, 0.0], dtype="float32"))
    with np.errstate(all="raise", under="ignore"):
        cats = nlp("a").cats
    assert (cats["A"], cats["B"]) == (1.0, 0.0)
    assert (cats["C"] == 0.0) == exclusive


def test_the_head_sees_the_encoders_first_position_of_the_first_window(make_pipeline, any_encoder):
    """Compared with transformers, for documents of one window and of several windows."""
    nlp = make_pipeline(
        {TEXTCAT: {}},
        encoder=any_encoder,
        model={"name": str(any_encoder), "precision": "fp32", "window": 20, "context": 3},
    )
    examples = make_examples(nlp, MULTILABEL)
    nlp.initialize(lambda: examples)
    encoder = nlp.get_pipe(ENCODER)
    docs = [nlp.make_doc("breast cancer"), nlp.make_doc("Aspirin reduced the risk. " * 20)]
    encoder.set_annotations(docs, encoder.predict(docs))
    vectors = nlp.get_pipe(TEXTCAT).model.layers[0].predict(docs)
    tokenizer = encoder.model.shims[0].tokenizer
    original = AutoModel.from_pretrained(any_encoder).eval()
    windows = []
    for doc, vector in zip(docs, vectors, strict=True):
        pieces = tokenizer([doc.text])
        window = make_windows(pieces.lengths, 18, 3)
        windows.append(len(window.doc))
        ids = [*tokenizer.prefix, *pieces.ids[: window.end[0]].tolist(), *tokenizer.suffix]
        with torch.no_grad():
            expected = original(torch.tensor([ids])).last_hidden_state[0, :1]
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert windows[0] == 1 and windows[1] > 2


# The loss


def annotated(nlp, *cats):
    return [make_example(nlp, f"text {i}", one) for i, one in enumerate(cats)]


def test_exclusive_loss_is_the_mean_cross_entropy_of_annotated_documents(make_pipeline):
    nlp, head = ready(make_pipeline, exclusive=True)
    examples = annotated(
        nlp,
        {"A": 0.0, "B": 1.0, "C": 0.0},
        {"A": 0.25, "B": 0.0, "C": 0.75},
        None,
        {"A": 1.0, "B": 0.0},  # C is missing: not annotated
        {"A": 0.0, "B": 1.0, "C": 0.0, "X": 1.0},  # X is a label of another component
    )
    scores = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    loss, d_scores = head.get_loss(examples, scores)
    p = softmax(scores)
    by_hand = -np.log(p[0, 1]) - 0.25 * np.log(p[1, 0]) - 0.75 * np.log(p[1, 2]) - np.log(p[4, 1])
    assert loss == pytest.approx(by_hand / 3, rel=1e-5)
    expected = np.zeros((5, 3))
    for row, target in ((0, [0, 1, 0]), (1, [0.25, 0, 0.75]), (4, [0, 1, 0])):
        expected[row] = (p[row] - target) / 3
    np.testing.assert_allclose(d_scores, expected, atol=1e-6)
    assert d_scores.dtype == "float32"


def test_multilabel_loss_is_the_mean_binary_cross_entropy_of_annotated_labels(make_pipeline):
    nlp, head = ready(make_pipeline)
    examples = annotated(nlp, {"A": 1.0, "B": 0.0, "C": 1.0}, {"A": 0.0, "C": 0.75}, None, {"B": 1})
    scores = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    loss, d_scores = head.get_loss(examples, scores)
    p = sigmoid(scores)
    targets = {(0, 0): 1, (0, 1): 0, (0, 2): 1, (1, 0): 0, (1, 2): 0.75, (3, 1): 1}
    by_hand, expected = 0.0, np.zeros((4, 3))
    for place, target in targets.items():
        by_hand -= target * np.log(p[place]) + (1 - target) * np.log(1 - p[place])
        expected[place] = (p[place] - target) / 6
    assert loss == pytest.approx(by_hand / 6, rel=1e-5)
    np.testing.assert_allclose(d_scores, expected, atol=1e-6)
    assert d_scores.dtype == "float32"


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_loss_is_that_of_pytorch(make_pipeline, exclusive):
    nlp, head = ready(make_pipeline, exclusive=exclusive)
    rows = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]] if exclusive else [[1.0, 1.0, 0.0], [0.0, 0.0, 0.5]]
    examples = annotated(nlp, *(dict(zip("ABC", row, strict=True)) for row in rows))
    scores = np.array([[1e4, -50.0, 3.0], [0.0, 80.0, -1e4]], dtype="float32")
    given = torch.tensor(scores, requires_grad=True)
    name = "cross_entropy" if exclusive else "binary_cross_entropy_with_logits"
    expected = getattr(torch.nn.functional, name)(given, torch.tensor(rows))
    expected.backward()
    expected = expected.item()
    with np.errstate(all="raise", under="ignore"):
        loss, d_scores = head.get_loss(examples, scores)
    assert loss == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(d_scores, given.grad, atol=1e-6)


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_gradient_of_the_loss_is_that_of_finite_differences(make_pipeline, exclusive):
    nlp, head = ready(make_pipeline, exclusive=exclusive)
    examples = annotated(
        nlp, {"A": 0.5, "B": 0.25, "C": 0.25}, {"A": 1.0}, {"A": 0, "B": 1, "C": 0}
    )
    scores = np.random.default_rng(2).normal(size=(3, 3))
    _, d_scores = head.get_loss(examples, scores)
    for place in np.ndindex(*scores.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = scores.copy()
            moved[place] += step
            values.append(head.get_loss(examples, moved)[0])
        assert d_scores[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def test_rounded_values_of_exclusive_classes_are_learned_as_probabilities(make_pipeline):
    nlp, head = ready(make_pipeline, exclusive=True)
    [example] = annotated(nlp, {"A": 0.33, "B": 0.33, "C": 0.33})
    _, d_scores = head.get_loss([example], np.zeros((1, 3), dtype="float32"))
    np.testing.assert_allclose(d_scores, np.zeros((1, 3)), atol=1e-7)


@pytest.mark.parametrize("exclusive", [True, False])
def test_targets_are_mixed_of_gold_and_what_a_teacher_finds_probable(make_pipeline, exclusive):
    nlp, head = ready(make_pipeline, exclusive=exclusive, teacher_share=0.25)
    gold = {"A": 0.0, "B": 1.0, "C": 0.0}
    both, unlabelled, nothing = annotated(nlp, gold, None, None)
    taught = np.array([[0.125, 0.25, 0.625]])  # of C, A, B
    for example in (both, unlabelled):
        set_soft_labels(example.reference, TEXTCAT, ["C", "A", "B"], taught)
    scores = np.random.default_rng(1).normal(size=(3, 3)).astype("float32")
    _, d_scores = head.get_loss([both, unlabelled, nothing], scores)
    own = np.array([0.25, 0.625, 0.125])
    targets = np.stack([0.25 * own + 0.75 * np.array([0, 1, 0]), own])
    p = softmax(scores) if exclusive else sigmoid(scores)
    count = 2 if exclusive else 6
    np.testing.assert_allclose(d_scores[:2], (p[:2] - targets) / count, atol=1e-6)
    assert not d_scores[2].any()


def test_a_teacher_fills_in_for_labels_that_are_missing(make_pipeline):
    nlp, head = ready(make_pipeline, teacher_share=0.0)
    [example] = annotated(nlp, {"A": 1.0})
    set_soft_labels(example.reference, TEXTCAT, ["A", "B", "C"], np.array([[0.0, 0.25, 0.5]]))
    _, d_scores = head.get_loss([example], np.zeros((1, 3), dtype="float32"))
    np.testing.assert_allclose(3 * d_scores, [[0.5 - 1.0, 0.5 - 0.25, 0.0]], atol=1e-6)


def test_a_teacher_whose_classes_do_not_exclude_each_other_is_refused(make_pipeline):
    nlp, head = ready(make_pipeline, exclusive=True)
    [example] = annotated(nlp, None)
    set_soft_labels(example.reference, TEXTCAT, ["A", "B", "C"], np.array([[0.75, 0.75, 0.0]]))
    with pytest.raises(BiomedError, match="biomed_textcat.*same setting `exclusive`"):
        head.get_loss([example], np.zeros((1, 3), dtype="float32"))


# What is not annotated


@pytest.mark.parametrize("exclusive", [True, False])
def test_documents_without_annotation_leave_the_head_as_it_is(
    make_pipeline, learns_nothing_from, exclusive
):
    nlp = trained(make_pipeline, steps=3, exclusive=exclusive)
    absent = make_examples(nlp, [("Aspirin risk", None), ("cancer", {"another": 1.0})])
    learns_nothing_from(nlp, TEXTCAT, make_examples(nlp, toy(exclusive)), absent)


def test_a_missing_label_is_learned_from_the_documents_that_have_it(make_pipeline):
    documents = [
        ("Aspirin reduced cancer", {"DRUG": 1.0}),
        ("paracetamol 500 mg", {"DISEASE": 0.0}),
        ("breast cancer", {"DISEASE": 1.0, "DRUG": 0.0}),
    ]
    nlp = trained(make_pipeline, documents=documents)
    assert nlp("breast cancer").cats["DRUG"] < 0.2
    assert nlp("breast cancer").cats["DISEASE"] > 0.8
    assert nlp("Aspirin reduced cancer").cats["DRUG"] > 0.8
    assert nlp("paracetamol 500 mg").cats["DISEASE"] < 0.2


def test_documents_without_text_teach_nothing(make_pipeline):
    nlp, head = ready(make_pipeline)
    gold = {"A": 1.0, "B": 0.0, "C": 1.0}
    empty, other = make_example(nlp, "", gold), make_example(nlp, "a", gold)
    scores = np.ones((2, 3), dtype="float32")
    loss, d_scores = head.get_loss([empty, other], scores)
    assert not d_scores[0].any()
    assert loss == pytest.approx(head.get_loss([other], scores[1:])[0])
    assert nlp.update([empty], sgd=AdamW_v1(1e-3), losses={})[TEXTCAT] == 0.0


# Several components


@pytest.mark.parametrize("other", ["biomed_textcat-b", "biomed_similarity"])
def test_two_components_with_the_same_label_are_refused(make_pipeline, other):
    config = {"label": "B"} if other == "biomed_similarity" else {}
    nlp = make_pipeline({TEXTCAT: {}, other: config})
    examples = [make_example(nlp, "a", {"A": 1.0, "B": 0.0})]
    with pytest.raises(BiomedError, match=f"'{TEXTCAT}'.* both have the label '[AB]'"):
        nlp.initialize(lambda: examples)


def side_by_side(make_pipeline):
    nlp = make_pipeline({"biomed_textcat-kind": {"exclusive": True}, TEXTCAT: {}, NER: {}})
    nlp.config["initialize"]["components"] = {
        "biomed_textcat-kind": {"labels": ["DISEASE", "DRUG", "GENE"]},
        TEXTCAT: {"labels": ["long", "short"]},
        NER: {"labels": ["X"]},
    }
    examples = [
        make_example(nlp, text, {**cats, "long": float(i < 2), "short": float(i >= 2), "other": 1})
        for i, (text, cats) in enumerate(EXCLUSIVE)
    ]
    nlp.initialize(lambda: examples)
    return nlp, examples


def test_components_side_by_side_learn_their_own_labels(make_pipeline):
    nlp, examples = side_by_side(make_pipeline)
    optimizer = AdamW_v1(5e-3)
    for _ in range(60):
        nlp.update(examples, sgd=optimizer)
    for i, (text, gold) in enumerate(EXCLUSIVE):
        doc = nlp(text)
        assert set(doc.cats) == {"DISEASE", "DRUG", "GENE", "long", "short"}
        kind = next(label for label, value in gold.items() if value)
        assert positive(doc) == {kind, "long" if i < 2 else "short"}
        assert get_encoding(doc) is None


def test_components_side_by_side_have_scores_of_their_own(make_pipeline):
    nlp, examples = side_by_side(make_pipeline)
    alone = {
        name: score_classes(
            [Example(nlp(one.text), one.reference) for one in examples], **nlp.get_pipe(name).cfg
        )
        for name in (TEXTCAT, "biomed_textcat-kind")
    }
    scores = nlp.evaluate(examples)
    assert set(scores["cats_f_per_type"]) == {"long", "short"}
    assert set(scores["cats_biomed_textcat-kind_f_per_type"]) == {"DISEASE", "DRUG", "GENE"}
    for name, score in alone[TEXTCAT].items():
        assert scores[name] == score
    for name, score in alone["biomed_textcat-kind"].items():
        assert scores[name.replace("cats", "cats_biomed_textcat-kind", 1)] == score


def test_the_classes_of_others_stay_on_the_document(make_pipeline):
    nlp, _ = ready(make_pipeline)
    doc = nlp.make_doc("a")
    doc.cats = {"A": 5.0, "theirs": 0.25}
    doc = nlp(doc)
    assert list(doc.cats) == ["A", "theirs", "B", "C"]
    assert doc.cats["theirs"] == 0.25 and 0.0 < doc.cats["A"] < 1.0


# Teaching


def test_it_can_teach(make_pipeline):
    nlp = trained(make_pipeline, steps=5, exclusive=True)
    head, encoder = nlp.get_pipe(TEXTCAT), nlp.get_pipe(ENCODER)
    assert isinstance(head, Teacher)
    assert head.classes() == ["DISEASE", "DRUG", "GENE"]
    docs = [nlp.make_doc(text) for text in ("breast cancer", "", "BRCA1")]
    encoder.set_annotations(docs, encoder.predict(docs))
    rows = head.probabilities(docs)
    assert [row.shape for row in rows] == [(1, 3)] * 3
    for doc, row in zip(docs, rows, strict=True):
        assert doc.cats == {}
        assert nlp(doc.text).cats == pytest.approx(
            dict(zip(head.classes(), row[0].tolist(), strict=True)), abs=1e-5
        )


def test_a_student_of_unlabelled_text_has_its_teachers_labels(make_pipeline):
    nlp = make_pipeline({TEXTCAT: {"exclusive": True}})
    example = make_example(nlp, "a")
    set_soft_labels(example.reference, TEXTCAT, ["X", "W"], np.array([[0.25, 0.75]]))
    nlp.initialize(lambda: [example])
    assert nlp.get_pipe(TEXTCAT).labels == ("W", "X")
    optimizer = AdamW_v1(1e-2)
    for _ in range(60):
        nlp.update([example], sgd=optimizer)
    assert nlp("a").cats == pytest.approx({"W": 0.75, "X": 0.25}, abs=0.02)


# Labels and settings


def test_labels_come_from_all_examples_or_from_the_config(make_pipeline):
    nlp = make_pipeline({TEXTCAT: {}})
    examples = make_examples(nlp, [("a", {"Z": 1}), ("b", None), ("c", {"B": 0, "Z": 1})])
    nlp.initialize(lambda: examples)
    assert nlp.get_pipe(TEXTCAT).labels == ("B", "Z")
    nlp = make_pipeline({TEXTCAT: {}})
    nlp.config["initialize"]["components"] = {TEXTCAT: {"labels": ["Z"]}}
    nlp.initialize(lambda: examples)
    assert nlp.get_pipe(TEXTCAT).label_data == ["Z"]
    assert nlp.get_pipe(TEXTCAT).model.get_dim("nO") == 1
    assert list(nlp("a").cats) == ["Z"]


@pytest.mark.parametrize(
    ("exclusive", "documents", "shares"),
    [
        (True, EXCLUSIVE, {"DISEASE": 7 / 18, "DRUG": 7 / 18, "GENE": 4 / 18}),
        (
            False,
            [("a", {"A": 1.0, "B": 0.0}), ("b", {"B": 0.0}), ("c", {"B": 0.25}), ("d", None)],
            {"A": 1.5 / 2, "B": 0.75 / 4},
        ),
    ],
    ids=["exclusive", "multi-label"],
)
def test_learning_begins_with_how_often_labels_apply(make_pipeline, exclusive, documents, shares):
    """Shares include a document with equal probabilities; an empty document shows the biases."""
    nlp = initialize(make_pipeline, documents, exclusive=exclusive)
    assert nlp("").cats == pytest.approx(shares, rel=1e-5)


def test_an_output_layer_without_biases_of_its_own_gets_none(make_pipeline):
    listener = {"@architectures": "spacy_biomed.EncoderListener.v1", "pooling": "first"}
    attention = {
        "@architectures": "spacy.TextCatParametricAttention.v1",
        "tok2vec": listener,
        "exclusive_classes": False,
    }
    nlp = initialize(make_pipeline, [("a", {"A": 1.0, "B": 0.0})], model=attention)
    output = nlp.get_pipe(TEXTCAT).model.get_ref("output_layer")
    assert output.name == "linear>>logistic" and output.param_names == ()
    assert set(nlp("a").cats) == {"A", "B"}


def test_a_head_with_labels_can_be_initialised_without_a_corpus(make_pipeline):
    nlp = make_pipeline({TEXTCAT: {"exclusive": True}})
    for label in ("A", "B"):
        nlp.get_pipe(TEXTCAT).add_label(label)
    nlp.initialize()
    assert sum(nlp("a").cats.values()) == pytest.approx(1.0, abs=1e-5)


def initialize(make_pipeline, documents, settings=None, **config):
    nlp = make_pipeline({TEXTCAT: config})
    nlp.config["initialize"]["components"] = {TEXTCAT: settings or {}}
    examples = make_examples(nlp, documents)
    nlp.initialize(lambda: examples)
    return nlp


@pytest.mark.parametrize(
    ("documents", "settings", "exclusive", "message"),
    [
        ([("a b", None)], {}, False, "no class for 'biomed_textcat' to learn"),
        ([("a b", {"A": 1})], {}, True, "only the label 'A'.*set exclusive = false"),
        (
            [("a  b\nc", {"A": 1, "B": 1, "C": 0})],
            {},
            True,
            "of 3 labels that exclude each other, 'a b c' has 'A' 1 and 'B' 1:",
        ),
        ([("a b", {"A": 0, "B": 0})], {}, True, "of 2 labels .* 'a b' has none:"),
        (
            [("a b", {"A": 0, "B": 0, "C": 1})],
            {"labels": ["A", "B"]},
            True,
            "of 2 labels .* 'a b' has none of them, but 'C':",
        ),
        ([("a b", {"A": 0.5, "B": 0.2})], {}, True, "'a b' has 'A' 0.5 and 'B' 0.2:"),
        ([("a b", {"A": 1.5})], {}, False, "'A' of 'a b' is 1.5: use a number from 0 to 1"),
        ([("a b", {"A": 1, "B": -1})], {}, True, "'B' of 'a b' is -1: use a number from 0"),
        (
            [("a b", {"A": 1}), ("c d", {"B": 1})],
            {},
            True,
            "no document .* has a value in doc.cats for each of the labels A, B of",
        ),
        (
            [("a b", {"A": 1, "B": 0})],
            {"labels": ["A", "b"]},
            False,
            "no document .* has a value in doc.cats for the labels b of 'biomed_textcat'",
        ),
        (
            [("a b", {"A": 1, "B": 0})],
            {"positive_label": "C"},
            True,
            "initialize.components.biomed_textcat.positive_label = 'C': .* has A, B",
        ),
        ([("a b", {"A": 1, "B": 0})], {"positive_label": "A"}, False, "positive_label = 'A'"),
        (
            [("a b", {"A": 1, "B": 0, "C": 0})],
            {"positive_label": "A"},
            True,
            "positive_label = 'A': it has to be one of two labels",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused_in_one_line(
    make_pipeline, documents, settings, exclusive, message
):
    with pytest.raises(BiomedError, match=message) as error:
        initialize(make_pipeline, documents, settings, exclusive=exclusive)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("documents", "exclusive", "labels"),
    [
        ([("a", {"A": 1, "B": 0}), ("b", {"A": 1, "B": 1}), ("c", {"C": 0})], False, "A"),
        ([("a", {"A": 1}), ("b", {"B": 1}), ("c", {})], False, "A, B"),
        ([("a", {"A": 1, "B": 0}), ("b", {"A": 1, "B": 0})], True, "A"),
    ],
)
def test_a_class_of_every_text_is_a_warning(make_pipeline, documents, exclusive, labels):
    with pytest.warns(UserWarning, match=f"for {labels} of 'biomed_textcat' are 1.0: give 0.0"):
        initialize(make_pipeline, documents, exclusive=exclusive)


def test_classes_of_some_texts_are_no_warning(make_pipeline, recwarn):
    initialize(make_pipeline, [("a", {"A": 1, "B": 0.5}), ("b", {"A": 0, "C": 0})])
    assert not any("are 1.0" in str(one.message) for one in recwarn)


def test_two_positive_exclusive_classes_are_refused_in_training_too(make_pipeline):
    nlp, _ = ready(make_pipeline, exclusive=True)
    with pytest.raises(BiomedError, match="'A' 1 and 'B' 1"):
        nlp.update(annotated(nlp, {"A": 1.0, "B": 1.0, "C": 0.0}))


@pytest.mark.parametrize("setting", ["threshold", "teacher_share"])
@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_a_share_outside_0_to_1_is_refused(make_pipeline, setting, value):
    with pytest.raises(BiomedError, match=rf"\[components.biomed_textcat\] {setting} = "):
        make_pipeline({TEXTCAT: {setting: value}})


# Documents of every kind


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "😀", "\u0301", "a"])
def test_texts_of_hardly_anything_are_classified(make_pipeline, text):
    nlp, _ = ready(make_pipeline, exclusive=True)
    alone = nlp(text)
    assert alone.text == text and list(alone.cats) == ["A", "B", "C"]
    assert all(0.0 < value < 1.0 for value in alone.cats.values())
    for doc in nlp.pipe([text, "Aspirin reduced the risk", text]):
        assert get_encoding(doc) is None
        if doc.text == text:
            assert doc.cats == pytest.approx(alone.cats, abs=1e-5)
    examples = annotated(nlp, {"A": 1.0, "B": 0.0, "C": 0.0})
    nlp.update([*examples, make_example(nlp, text)], sgd=AdamW_v1(1e-3))


def test_no_documents_have_no_probabilities(make_pipeline):
    _, head = ready(make_pipeline)
    assert head.predict([]).shape == (0, 3)
    assert head.probabilities([]) == []


@pytest.mark.slow
def test_a_hundred_thousand_words_are_classified(make_pipeline):
    nlp = trained(make_pipeline, exclusive=True)
    words = ["breast", "cancer"] * 50_001
    cats = nlp(Doc(nlp.vocab, words=words)).cats
    assert sum(cats.values()) == pytest.approx(1.0, abs=1e-5)


# On the exported encoder


def test_it_predicts_the_same_on_the_exported_encoder(make_pipeline, tmp_path):
    nlp, examples = side_by_side(make_pipeline)
    optimizer = AdamW_v1(5e-3)
    for _ in range(10):
        nlp.update(examples, sgd=optimizer)
    write_compressed(nlp, tmp_path, "fp32", False)
    compressed = spacy.load(tmp_path)
    assert compressed.get_pipe_meta(ENCODER).factory == ONNX
    texts = [*(text for text, _ in EXCLUSIVE), "", " ", "Aspirin for cancer. " * 200]
    for doc, expected in zip(compressed.pipe(texts), nlp.pipe(texts), strict=True):
        assert doc.cats == pytest.approx(expected.cats, abs=1e-4)
        assert len(doc.cats) == 5


def test_it_learns_on_the_exported_encoder_which_stays_as_it_was(make_pipeline, tmp_path):
    write_compressed(trained(make_pipeline, steps=30), tmp_path, "fp32", False)
    source = spacy.load(tmp_path)
    student = spacy.blank("en")
    student.add_pipe(ENCODER, ONNX, source=source)
    student.add_pipe(TEXTCAT, config={"exclusive": True})
    examples = make_examples(student, EXCLUSIVE)
    student.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-2)
    for _ in range(60):
        student.update(examples, sgd=optimizer)
    assert student.evaluate(examples)["cats_acc"] == 1.0
    docs = [student.make_doc(text) for text, _ in EXCLUSIVE]
    np.testing.assert_array_equal(
        student.get_pipe(ONNX).predict(docs).hidden, source.get_pipe(ENCODER).predict(docs).hidden
    )


# Scores


def scored(documents, score=score_classes, **settings):
    """Scores of pairs of predicted and gold classes."""
    nlp = spacy.blank("en")
    examples = []
    texts = settings.pop("texts", [None] * len(documents))
    for (predicted, gold), text in zip(documents, texts, strict=True):
        example = make_example(nlp, "a", gold)
        example.predicted.cats = predicted
        if text is not None:
            example.reference.user_data[PART_OF] = text
        examples.append(example)
    labels = settings.pop("labels", ["A", "B"])
    return score(examples, labels=labels, **settings)


def random_documents(exclusive, count=60):
    """Predicted probabilities and gold of A, B and C, also as arrays (docs, labels)."""
    rng = np.random.default_rng(0)
    predicted = rng.random((count, 3))
    gold = np.eye(3)[rng.integers(3, size=count)] if exclusive else rng.random((count, 3)) < 0.4
    documents = [
        (dict(zip("ABC", p.tolist(), strict=True)), dict(zip("ABC", map(float, g), strict=True)))
        for p, g in zip(predicted, gold, strict=True)
    ]
    return documents, predicted, gold.astype(int)


@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_multilabel_scores_are_those_of_scikit_learn(threshold):
    documents, predicted, gold = random_documents(exclusive=False)
    scores = scored(documents, labels=list("ABC"), threshold=threshold)
    decided = predicted >= threshold
    assert scores["cats_macro_f"] == pytest.approx(f1_score(gold, decided, average="macro"))
    assert scores["cats_micro_f"] == pytest.approx(f1_score(gold, decided, average="micro"))
    assert scores["cats_score"] == scores["cats_macro_f"]
    assert scores["cats_score_desc"] == "macro F"
    assert scores["cats_acc"] is None


def test_exclusive_scores_are_those_of_scikit_learn():
    documents, predicted, gold = random_documents(exclusive=True)
    scores = scored(documents, labels=list("ABC"), exclusive=True)
    truth, decided = gold.argmax(axis=1), predicted.argmax(axis=1)
    assert scores["cats_acc"] == pytest.approx(accuracy_score(truth, decided))
    assert scores["cats_micro_f"] == pytest.approx(f1_score(truth, decided, average="micro"))
    assert scores["cats_macro_f"] == pytest.approx(f1_score(truth, decided, average="macro"))
    assert scores["cats_score"] == scores["cats_macro_f"]


def test_example_based_scores_are_those_of_scikit_learn():
    documents, predicted, gold = random_documents(exclusive=False)
    scores = scored(documents, labels=list("ABC"))
    has_gold = gold.any(axis=1)
    assert not has_gold.all()
    precision, recall, _, _ = precision_recall_fscore_support(
        gold[has_gold], predicted[has_gold] >= 0.5, average="samples", zero_division=0
    )
    assert scores["cats_example_p"] == pytest.approx(precision)
    assert scores["cats_example_r"] == pytest.approx(recall)
    assert scores["cats_example_f"] == pytest.approx(2 * precision * recall / (precision + recall))
    for letter in "prf":  # every document is a text
        assert scores[f"cats_text_macro_{letter}"] == scores[f"cats_macro_{letter}"]


def test_parts_of_a_text_are_scored_together():
    documents, predicted, gold = random_documents(exclusive=False)
    owners = np.arange(len(gold)) // 3  # three sentences an abstract
    texts = [str(owner) for owner in owners]
    scores = scored(documents, labels=list("ABC"), texts=texts)
    found, gold_of_text = (
        np.array([values[owners == owner].any(axis=0) for owner in range(owners[-1] + 1)])
        for values in (predicted >= 0.5, gold)
    )
    macro = precision_recall_fscore_support(gold_of_text, found, average="macro")
    for letter, value in zip("prf", macro[:3], strict=True):
        assert scores[f"cats_text_macro_{letter}"] == pytest.approx(value)
    assert gold_of_text.any(axis=1).all()
    by_text = precision_recall_fscore_support(
        gold_of_text, found, average="samples", zero_division=0
    )
    assert scores["cats_example_p"] == pytest.approx(by_text[0])
    assert scores["cats_example_r"] == pytest.approx(by_text[1])
    assert scores["cats_macro_f"] == scored(documents, labels=list("ABC"))["cats_macro_f"]


def test_example_based_scores_by_hand():
    documents = [
        ({"A": 0.9, "B": 0.9}, {"A": 1.0, "B": 0.0}),  # precision 1/2, recall 1
        ({"A": 0.1, "B": 0.1}, {"A": 1.0, "B": 1.0}),  # nothing predicted: 0 and 0
        ({"A": 0.9, "B": 0.1}, {"A": 0.0, "B": 0.0}),  # nothing to find: left out
    ]
    scores = scored(documents)
    assert scores["cats_example_p"] == pytest.approx(1 / 4)
    assert scores["cats_example_r"] == pytest.approx(1 / 2)
    assert scores["cats_example_f"] == pytest.approx(1 / 3)
    assert scored(documents[2:])["cats_example_f"] is None
    assert scored(documents[1:2])["cats_example_f"] == 0.0


def test_exclusive_classes_have_no_scores_of_whole_texts():
    documents, _, _ = random_documents(exclusive=True)
    scores = scored(documents, labels=list("ABC"), exclusive=True)
    names = [f"cats_{name}_{letter}" for name in ("example", "text_macro") for letter in "prf"]
    assert {scores[name] for name in names} == {None}


def test_a_positive_labels_f1_is_the_main_score():
    documents = [
        ({"A": 0.9, "B": 0.1}, {"A": 1.0, "B": 0.0}),
        ({"A": 0.8, "B": 0.2}, {"A": 0.0, "B": 1.0}),
        ({"A": 0.3, "B": 0.7}, {"A": 0.0, "B": 1.0}),
    ]
    scores = scored(documents, exclusive=True, positive_label="A")
    assert scores["cats_score"] == pytest.approx(2 / 3)
    assert scores["cats_f_per_type"]["A"] == {"p": 0.5, "r": 1.0, "f": pytest.approx(2 / 3)}


def test_only_annotated_labels_of_the_component_are_scored():
    documents = [
        ({"A": 0.9, "B": 0.9, "X": 0.9}, {"A": 1.0, "X": 0.0}),  # B is missing
        ({"A": 0.9, "B": 0.1, "X": 0.9}, {"X": 0.0}),
        ({"A": 0.1, "B": 0.9, "X": 0.1}, {"A": 0.0, "B": 1.0, "X": 1.0}),
    ]
    scores = scored(documents)
    assert scores["cats_macro_f"] == scores["cats_micro_f"] == 1.0
    assert set(scores["cats_f_per_type"]) == {"A", "B"}
    # Only the last document has both exclusive classes.
    documents[0][0].update(A=0.1)
    assert scored(documents, exclusive=True)["cats_acc"] == 1.0


def test_soft_gold_is_scored_by_what_is_probable():
    documents = [
        ({"A": 0.9, "B": 0.1}, {"A": 0.6, "B": 0.4}),
        ({"A": 0.2, "B": 0.8}, {"A": 0.3, "B": 0.7}),
    ]
    assert scored(documents)["cats_macro_f"] == 1.0
    assert scored(documents, exclusive=True)["cats_acc"] == 1.0


@pytest.mark.parametrize("exclusive", [True, False])
def test_without_annotation_there_is_no_score(exclusive):
    scores = scored([({"A": 0.9, "B": 0.1}, {"X": 1.0})], exclusive=exclusive)
    assert scores.pop("cats_score_desc") == "macro F"  # `spacy evaluate` prints it
    assert set(scores.values()) == {None}
    assert {"cats_score", "cats_acc", "cats_micro_f", "cats_f_per_type"} <= set(scores)


def test_a_document_without_predictions_is_scored():
    """This happens if the component is disabled."""
    scores = scored([({}, {"A": 0.0, "B": 1.0})], classification_scorer_v1())
    assert (scores["cats_micro_p"], scores["cats_micro_r"]) == (0.0, 0.0)


@pytest.mark.slow
def test_scores_survive_the_corpus_and_the_settings_are_the_components(make_pipeline, tmp_path):
    """Gold is read from a DocBin, and a threshold changes which classes count as predicted."""
    nlp = trained(make_pipeline, threshold=1.0)
    docs = [example.reference for example in make_examples(nlp, MULTILABEL)]
    DocBin(docs=docs).to_disk(tmp_path / "dev.spacy")
    read = DocBin().from_disk(tmp_path / "dev.spacy").get_docs(nlp.vocab)
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in read]
    assert nlp.evaluate(examples)["cats_micro_r"] < 1.0
    nlp.get_pipe(TEXTCAT).cfg["threshold"] = 0.5
    assert nlp.evaluate(examples)["cats_micro_r"] == 1.0


def test_the_main_score_of_classes_that_do_not_exclude_each_other_is_macro_f1():
    # A: precision 1, recall 1/2: F1 = 2/3. B: precision 1/3, recall 1: F1 = 1/2.
    documents = [
        ({"A": 0.9, "B": 0.9}, {"A": 1.0, "B": 1.0}),
        ({"A": 0.1, "B": 0.8}, {"A": 1.0, "B": 0.0}),
        ({"A": 0.2, "B": 0.3}, {"A": 0.0, "B": 0.0}),
        ({"A": 0.2, "B": 0.7}, {"A": 0.0, "B": 0.0}),
    ]
    scores = scored(documents, score_classes, labels=["A", "B"], threshold=0.5)
    assert scores["cats_macro_f"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert scores["cats_score"] == scores["cats_macro_f"]
    assert scores["cats_score_desc"] == "macro F"


def test_the_text_is_not_quoted_for_each_value_that_is_valid(monkeypatch):
    monkeypatch.setattr(textcat_scores, "quote_text", None)
    reference = make_example(spacy.blank("en"), "breast cancer", {"A": 1.0, "B": 0.0}).reference
    assert gold_probabilities(reference, ["A", "B"], False).tolist() == [1.0, 0.0]
