"""Documents that annotate only some labels: loss of `biomed_ner`, and scores."""

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Example
from thinc.types import Ragged

from spacy_biomed.annotations.annotation_scope import AnnotationScope, set_scope
from spacy_biomed.annotations.soft_labels import set_soft_labels
from spacy_biomed.errors import BiomedError
from spacy_biomed.pipeline.ner import score_mentions
from spacy_biomed.training.optimizer import AdamW_v1

NER = "biomed_ner"
PIECES = {"@architectures": "spacy_biomed.EncoderListener.v1", "pooling": "pieces"}
TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]


@pytest.fixture
def make_head(make_pipeline):
    """A head with the labels A and B and the tags TAGS."""

    def make(**config):
        nlp = make_pipeline({NER: {"scheme": "bio", **config}})
        for label in "AB":
            nlp.get_pipe(NER).add_label(label)
        return nlp.get_pipe(NER)

    return make


def make_example(text, mentions, labels=None, uncertain=(), key=None):
    """An example.

    Args:
        labels: labels that the document annotates; None for all labels.
    """
    nlp = spacy.blank("en")
    example = Example(nlp.make_doc(text), nlp.make_doc(text))
    spans = [example.reference.char_span(*mention) for mention in mentions]
    if key is None:
        example.reference.set_ents(spans, default="outside")
    else:
        example.reference.spans[key] = spans
    scope = AnnotationScope(None if labels is None else frozenset(labels), tuple(uncertain))
    set_scope(example.reference, scope, key)
    return example


def random_scores(rows, seed=1):
    return np.random.default_rng(seed).normal(size=(rows, len(TAGS))).astype("float32")


def get_loss(head, examples, scores, lengths=None):
    lengths = np.ones(len(scores)) if lengths is None else lengths
    return head.get_loss(examples, Ragged(scores, np.asarray(lengths, dtype="i")))


def softmax(scores):
    exp = np.exp(scores.astype("float64"))
    return exp / exp.sum(axis=1, keepdims=True)


def expected_loss(scores, allowed):
    """The loss by hand: mean of -log of the total probability of each row's allowed tags.

    Args:
        allowed: for each row the tags it may have; empty if nothing is known.
    """
    probabilities, losses = softmax(scores), []
    gradient = np.zeros_like(probabilities)
    for row, tags in enumerate(allowed):
        if tags:
            columns = [TAGS.index(tag) for tag in tags]
            together = probabilities[row, columns].sum()
            losses.append(-np.log(together))
            gradient[row] = probabilities[row]
            gradient[row, columns] -= probabilities[row, columns] / together
    return np.mean(losses), gradient / len(losses)


@pytest.mark.parametrize("key", [None, "layer"])
@pytest.mark.parametrize("pooling", ["first", "pieces"])
def test_a_token_outside_may_be_of_a_label_that_is_not_annotated(make_head, pooling, key):
    head = make_head(model={"tok2vec": {**PIECES, "pooling": pooling}}, spans_key=key)
    partly = make_example("a b c", [(0, 1, "A")], labels=["A"], key=key)
    wholly = make_example("d e", [(2, 3, "B")], key=key)
    allowed = [["B-A"], ["O", "B-B", "I-B"], ["O", "B-B", "I-B"], ["O"], ["B-B"]]
    lengths = [1, 2, 1, 2, 1] if pooling == "pieces" else [1] * 5
    scores = random_scores(sum(lengths))
    loss, d_scores = get_loss(head, [partly, wholly], scores, lengths)
    rows = [tags for tags, length in zip(allowed, lengths, strict=True) for _ in range(length)]
    true_loss, gradient = expected_loss(scores, rows)
    assert loss == pytest.approx(true_loss, rel=1e-5)
    np.testing.assert_allclose(d_scores, gradient, atol=1e-6)


def test_a_token_of_an_uncertain_region_may_be_of_its_label(make_head):
    example = make_example("a b c", [(0, 1, "A")], uncertain=[(0, 3, "B"), (4, 5, "X")])
    scores = random_scores(3)
    loss, d_scores = get_loss(make_head(), [example], scores)
    true_loss, gradient = expected_loss(scores, [["B-A"], ["O", "B-B", "I-B"], ["O"]])
    assert loss == pytest.approx(true_loss, rel=1e-5)
    np.testing.assert_allclose(d_scores, gradient, atol=1e-6)


def test_a_token_that_may_have_any_tag_teaches_nothing(make_head):
    example = make_example("a b", [], labels=["A"], uncertain=[(0, 1, "A")])
    scores = random_scores(2)
    loss, d_scores = get_loss(make_head(), [example], scores)
    true_loss, gradient = expected_loss(scores, [[], ["O", "B-B", "I-B"]])
    assert loss == pytest.approx(true_loss, rel=1e-5)
    np.testing.assert_allclose(d_scores, gradient, atol=1e-6)


def test_the_gradient_is_that_of_finite_differences(make_head):
    head = make_head()
    example = make_example("a b c", [(4, 5, "B")], labels=["B"], uncertain=[(2, 3, "B")])
    scores = np.random.default_rng(2).normal(size=(3, 5))
    _, d_scores = get_loss(head, [example], scores)
    for place in np.ndindex(*scores.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = scores.copy()
            moved[place] += step
            values.append(get_loss(head, [example], moved)[0])
        assert d_scores[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def test_documents_that_annotate_every_label_give_the_same_bits(make_head):
    head, mentions = make_head(), [(0, 1, "A"), (4, 5, "B")]
    scores = random_scores(6)
    partly = make_example("d e f", [(0, 1, "A")], labels=["A"])
    silent = [make_example("a b c", mentions), make_example("d e f", [])]
    named = [make_example("a b c", mentions, labels="ABC"), make_example("d e f", [], labels="AB")]
    loss, d_scores = get_loss(head, silent, scores)
    same_loss, same = get_loss(head, named, scores)
    assert loss == same_loss
    np.testing.assert_array_equal(d_scores, same)
    _, beside = get_loss(head, [silent[0], partly], scores)
    np.testing.assert_array_equal(beside[:3], d_scores[:3])


def test_nothing_is_learned_from_documents_of_other_labels(make_head):
    head = make_head()
    example = make_example("a b", [], labels=["X"])
    assert not head.has_annotation(example)
    loss, d_scores = get_loss(head, [example], random_scores(2))
    assert loss == 0.0 and not d_scores.any()


def test_a_teacher_fills_in_what_the_gold_leaves_open(make_head):
    head = make_head(teacher_share=0.25)
    example = make_example("a b c d", [(0, 1, "A")], labels=["A"], uncertain=[(6, 7, "A")])
    taught = np.array(
        [
            [0.5, 0.25, 0.125, 0.125, 0],
            [0.25, 0.25, 0.25, 0.25, 0],
            [0, 0.5, 0.5, 0, 0],
            [0.5, 0.25, 0.25, 0, 0],
        ],
        dtype="float32",
    )
    set_soft_labels(example.reference, NER, TAGS, taught)
    # The first token is a mention. The second is outside or a B, and so is the third, for which a
    # teacher says that it is neither. Nothing is known of the fourth.
    targets = np.stack(
        [
            0.25 * taught[0] + 0.75 * np.eye(5)[1],
            0.25 * taught[1] + 0.75 * np.array([0.5, 0, 0, 0.5, 0]),
            0.25 * taught[2] + 0.75 * np.eye(5)[0],
            taught[3],
        ]
    )
    scores = random_scores(4)
    loss, d_scores = get_loss(head, [example], scores)
    probabilities = softmax(scores)
    assert loss == pytest.approx(-(targets * np.log(probabilities)).sum() / 4, rel=1e-5)
    np.testing.assert_allclose(d_scores, (probabilities - targets) / 4, atol=1e-6)


# Teachers of some labels: the teacher has A, the student A and B

TAUGHT = [0.5, 0.3, 0.2]  # O, B-A, I-A
FOUND = np.array([[0.4, 0.1, 0.1, 0.2, 0.2]], dtype="float32")  # by the student


def make_taught(mentions, labels=None, *, is_annotated=True):
    """The document "a" with the probabilities of a teacher of A."""
    example = make_example("a", mentions, labels)
    if not is_annotated:
        nlp = spacy.blank("en")
        example = Example(nlp.make_doc("a"), nlp.make_doc("a"))
    set_soft_labels(example.reference, NER, TAGS[:3], np.array([TAUGHT]))
    return example


@pytest.mark.parametrize(
    ("example", "loss", "gradient"),
    [
        pytest.param(
            make_taught([], is_annotated=False),
            -(0.5 * np.log(0.1) + 0.5 * np.log(0.4 + 0.2 + 0.2)),
            [0.4 - 0.25, 0.1 - 0.3, 0.1 - 0.2, 0.2 - 0.125, 0.2 - 0.125],
            id="not annotated: O is O or of a label that the teacher does not know",
        ),
        pytest.param(
            make_taught([(0, 1, "B")]),
            -np.log(0.2),
            [0.4, 0.1, 0.1, 0.2 - 1.0, 0.2],
            id="of a label that the teacher does not know: the gold alone",
        ),
        pytest.param(
            make_taught([], ["B"]),
            -(0.5 * np.log(0.1) + 0.5 * np.log(0.4)),
            [0.4 - 0.5, 0.1 - 0.3, 0.1 - 0.2, 0.2, 0.2],
            id="outside, where only such a label is annotated: what the teacher says",
        ),
        pytest.param(
            make_taught([], ["A"]),
            -(0.125 * np.log(0.1) + 0.875 * np.log(0.8)),
            [0.4 - 0.4375, 0.1 - 0.075, 0.1 - 0.05, 0.2 - 0.21875, 0.2 - 0.21875],
            id="outside, where such a label is left open: O or that label",
        ),
        pytest.param(
            make_taught([]),
            -(0.125 * np.log(0.1) + 0.875 * np.log(0.4)),
            [0.4 - 0.875, 0.1 - 0.075, 0.1 - 0.05, 0.2, 0.2],
            id="outside, where all labels are annotated: the mixture",
        ),
        pytest.param(
            make_taught([(0, 1, "A")]),
            -(0.125 * np.log(0.4) + 0.875 * np.log(0.1)),
            [0.4 - 0.125, 0.1 - 0.825, 0.1 - 0.05, 0.2, 0.2],
            id="of a label that the teacher knows: the mixture",
        ),
    ],
)
def test_a_teacher_tells_of_the_labels_that_it_knows(make_head, example, loss, gradient):
    head = make_head(teacher_share=0.25)
    found_loss, d_scores = get_loss(head, [example], np.log(FOUND))
    assert found_loss == pytest.approx(loss, rel=1e-3)  # taught in half precision
    np.testing.assert_allclose(d_scores, [gradient], atol=1e-3)


def test_the_gradient_with_such_a_teacher_is_that_of_finite_differences(make_head):
    head = make_head(model={"tok2vec": PIECES}, teacher_share=0.25)
    examples = [
        make_taught([], is_annotated=False),
        make_taught([(0, 1, "B")]),
        make_taught([], ["A"]),
        make_taught([(0, 1, "A")]),
        make_example("a", [], ["A"]),
    ]
    lengths = [2, 1, 2, 1, 1]
    scores = np.random.default_rng(3).normal(size=(7, 5))
    _, d_scores = get_loss(head, examples, scores, lengths)
    for place in np.ndindex(*scores.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = scores.copy()
            moved[place] += step
            values.append(get_loss(head, examples, moved, lengths)[0])
        assert d_scores[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


@pytest.mark.parametrize(
    "taught",
    [["O", "B-A", "I-A", "B-X", "I-X"], ["O", "B-A", "I-A", "L-A", "U-A"], ["O", "B-A"]],
    ids=["a label that the student lacks", "another scheme", "some tags of a label"],
)
def test_a_teacher_of_other_tags_than_the_students_is_refused(make_head, taught):
    example = make_example("a", [])
    set_soft_labels(example.reference, NER, taught, np.full((1, len(taught)), 1 / len(taught)))
    with pytest.raises(BiomedError, match="give both the same labels and, for entities, the same"):
        get_loss(make_head(), [example], random_scores(1))


# Corpora with a different label each

TEXTS = [
    ("Aspirin reduced the risk of colorectal cancer", [(0, 7, "DRUG"), (28, 45, "DISEASE")]),
    ("paracetamol for breast cancer", [(0, 11, "DRUG"), (16, 29, "DISEASE")]),
    (
        "patients with diabetes were given aspirin",
        [(0, 8, "SPECIES"), (14, 22, "DISEASE"), (34, 41, "DRUG")],
    ),
    ("no ovarian tumours with paracetamol", [(3, 18, "DISEASE"), (24, 35, "DRUG")]),
]


def annotate_only(label, *, is_told):
    """The texts with the mentions of a label, as stored in a corpus file.

    Args:
        is_told: whether the documents record that they annotate only this label.
    """
    examples = [
        make_example(text, [one for one in mentions if one[2] == label], [label] * is_told or None)
        for text, mentions in TEXTS
    ]
    written = DocBin(docs=[one.reference for one in examples], store_user_data=True).to_bytes()
    nlp = spacy.blank("en")
    docs = DocBin().from_bytes(written).get_docs(nlp.vocab)
    return [Example(nlp.make_doc(doc.text), doc) for doc in docs]


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("is_told", [True, False])
def test_all_labels_are_learned_from_corpora_of_one_each(make_pipeline, is_told):
    nlp = make_pipeline({NER: {}})
    labels = ("DRUG", "DISEASE", "SPECIES")
    examples = [one for label in labels for one in annotate_only(label, is_told=is_told)]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(60):
        nlp.update(examples, sgd=optimizer)
    scores = nlp.evaluate([make_example(text, mentions) for text, mentions in TEXTS])
    if is_told:
        assert scores["ents_f"] == 1.0
    else:  # two corpora teach that the mentions of the third are outside
        assert scores["ents_f"] < 0.5


# Scores


def scored(predicted, gold, labels=None, uncertain=(), key=None):
    text = "a b c d e"
    example = make_example(text, gold, labels, uncertain, key)
    spans = [example.predicted.char_span(*mention) for mention in predicted]
    if key is None:
        example.predicted.set_ents(spans)
    else:
        example.predicted.spans[key] = spans
    return score_mentions([example], spans_key=key)


@pytest.mark.parametrize("key, names", [(None, "ents"), ("layer", "spans_layer")])
def test_labels_that_a_document_does_not_annotate_are_not_scored(key, names):
    predicted = [(0, 1, "A"), (2, 3, "A"), (4, 5, "B")]
    scores = scored(predicted, [(0, 1, "A")], labels=["A"], key=key)
    assert scores[f"{names}_p"] == 0.5  # (2, 3, "A") is wrong
    assert set(scores[f"{names}_per_type"]) == {"A"}


def test_predictions_in_an_uncertain_region_of_their_label_are_not_scored():
    predicted = [(0, 3, "A"), (4, 5, "B"), (6, 7, "A")]
    scores = scored(predicted, [(6, 7, "A")], uncertain=[(2, 5, "A"), (6, 7, "A")])
    assert scores["ents_per_type"]["A"] == {"p": 1.0, "r": 1.0, "f": 1.0}
    assert scores["ents_p"] == 0.5  # (4, 5, "B") is wrong


def test_only_documents_that_annotate_a_label_count_for_it():
    examples = [
        make_example("a b", [(0, 1, "A")], labels=["A"]),
        make_example("c d", [(0, 1, "B")], labels=["B"]),
    ]
    for example in examples:
        doc = example.predicted
        doc.set_ents([doc.char_span(0, 1, "A"), doc.char_span(2, 3, "B")])
    by_label = score_mentions(examples)["ents_per_type"]
    assert by_label == {
        "A": {"p": 1.0, "r": 1.0, "f": 1.0},
        "B": {"p": 0.0, "r": 0.0, "f": 0.0},
    }
