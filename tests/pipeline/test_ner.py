import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import Adam, Model
from thinc.types import Ragged

from spacy_biomed.annotations.document_keys import UNALIGNED_MENTIONS
from spacy_biomed.annotations.seen_mentions import SEEN_KEY
from spacy_biomed.annotations.soft_labels import set_soft_labels
from spacy_biomed.errors import BiomedError
from spacy_biomed.models.tagging import MISSING
from spacy_biomed.pipeline.ner import score_mentions
from spacy_biomed.pipeline.ner.targets import token_log_probs
from spacy_biomed.training.optimizer import AdamW_v1

NER, ENCODER = "biomed_ner", "biomed_transformer"
PIECES = {"@architectures": "spacy_biomed.EncoderListener.v1", "pooling": "pieces"}
TOY = [
    ("Aspirin reduced the risk of colorectal cancer", [(0, 7, "DRUG"), (28, 45, "DISEASE")]),
    ("No breast cancer with paracetamol", [(3, 16, "DISEASE"), (22, 33, "DRUG")]),
    ("paracetamol aspirin", [(0, 11, "DRUG"), (12, 19, "DRUG")]),
    ("patients were found", []),
    ("diabetes, ovarian tumours and cancer", [(0, 8, "DISEASE"), (10, 25, "DISEASE")]),
]


def gold_doc(nlp, text, mentions, key=None):
    """A reference with mentions by characters; None for a reference without the layer."""
    doc = nlp.make_doc(text)
    if mentions is None:
        return doc
    spans = [doc.char_span(*mention) for mention in mentions]
    if key is None:
        doc.set_ents(spans, default="outside")
    else:
        doc.spans[key] = spans
    return doc


def make_example(nlp, text, mentions, key=None):
    return Example(nlp.make_doc(text), gold_doc(nlp, text, mentions, key))


def toy_examples(nlp, key=None):
    return [make_example(nlp, text, mentions, key) for text, mentions in TOY]


def trained(make_pipeline, steps=60, **config):
    nlp = make_pipeline({NER: config})
    examples = toy_examples(nlp, config.get("spans_key"))
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


def ready(make_pipeline, labels=("A", "B"), **config):
    """A sized, untrained head with weights that are not zeros."""
    nlp = make_pipeline({NER: config})
    key = config.get("spans_key")
    nlp.initialize(lambda: [make_example(nlp, "a", [(0, 1, label)], key) for label in labels])
    head = nlp.get_pipe(NER)
    output = head.model.get_ref("output")
    rng = np.random.default_rng(0)
    output.set_param("W", rng.normal(size=output.get_param("W").shape).astype("float32"))
    return nlp, head


def softmax(scores):
    exp = np.exp(scores.astype("float64"))
    return exp / exp.sum(axis=1, keepdims=True)


# Learning


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"scheme": "bio"},
        {"model": {"window_size": 1}},
        {"model": {"tok2vec": PIECES}},
        {"model": {"tok2vec": {**PIECES, "pooling": "mean"}}, "scheme": "bio"},
        {"spans_key": "gold"},
    ],
    ids=["biluo", "bio", "window", "pieces", "mean", "spans key"],
)
def test_it_learns_a_toy_task(make_pipeline, config, tmp_path):
    nlp = trained(make_pipeline, **config)
    key = config.get("spans_key")
    scores = nlp.evaluate(toy_examples(nlp, key))
    names = "ents" if key is None else "spans_gold"
    assert (scores[f"{names}_p"], scores[f"{names}_r"], scores[f"{names}_f"]) == (1.0, 1.0, 1.0)
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert again.get_pipe(NER).labels == ("DISEASE", "DRUG")
    assert again.evaluate(toy_examples(again, key))[f"{names}_f"] == 1.0


@pytest.mark.slow
def test_entities_have_labels_and_probabilities(make_pipeline):
    doc = trained(make_pipeline)("paracetamol aspirin")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [
        ("paracetamol", "DRUG"),
        ("aspirin", "DRUG"),
    ]
    assert all(0.5 < ent._.confidence <= 1.0 for ent in doc.ents)
    assert doc[0].ent_iob_ == "B"


@pytest.mark.slow
def test_a_spans_key_takes_the_entities_and_their_scores(make_pipeline):
    doc = trained(make_pipeline, spans_key="gold")("No breast cancer with paracetamol")
    spans = doc.spans["gold"]
    assert [(span.text, span.label_) for span in spans] == [
        ("breast cancer", "DISEASE"),
        ("paracetamol", "DRUG"),
    ]
    assert spans.attrs["scores"] == [span._.confidence for span in spans]
    assert doc.ents == ()


@pytest.fixture
def plain_doc():
    """A document of a pipeline that declares the extension."""
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_ner")
    return nlp.make_doc("No breast cancer here")


def test_the_confidence_of_a_place_is_that_of_the_label(plain_doc):
    doc = plain_doc
    drug, disease = Span(doc, 1, 3, "DRUG"), Span(doc, 1, 3, "DISEASE")
    drug._.confidence, disease._.confidence = 0.25, 0.75
    assert (drug._.confidence, disease._.confidence) == (0.25, 0.75)
    assert Span(doc, 1, 3, "GENE")._.confidence is None
    read = Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert Span(read, 1, 3, "DRUG")._.confidence == 0.25
    part = doc[1:4].as_doc(copy_user_data=True)
    assert Span(part, 0, 2, "DISEASE")._.confidence == 0.75


def test_the_confidence_in_documents_of_earlier_versions_is_read(plain_doc):
    plain_doc.user_data["._.", "confidence", 3, 16] = 0.5
    assert Span(plain_doc, 1, 3, "DISEASE")._.confidence == 0.5


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("pooling", ["first", "pieces"])
@pytest.mark.parametrize("scheme", ["biluo", "bio"])
def test_confidence_is_the_product_of_the_tags_probabilities(make_pipeline, scheme, pooling):
    tok2vec = {**PIECES, "pooling": pooling}
    nlp = trained(make_pipeline, steps=25, scheme=scheme, model={"tok2vec": tok2vec})
    docs = [nlp.make_doc(text) for text, _ in TOY]
    nlp.get_pipe(ENCODER).set_annotations(docs, nlp.get_pipe(ENCODER).predict(docs))
    head = nlp.get_pipe(NER)
    scores = head.model.predict(docs)
    rows = np.split(softmax(scores.dataXd), np.cumsum(scores.lengths)[:-1])
    names, token, count = head.tag_scheme.tag_names(), 0, 0
    for doc, found in zip(docs, nlp.pipe([text for text, _ in TOY]), strict=True):
        for ent in found.ents:
            parts = ["B"] + ["I"] * (len(ent) - 1)
            if scheme == "biluo":
                parts = ["U"] if len(ent) == 1 else [*parts[:-1], "L"]
            expected = 1.0
            for place, part in zip(range(ent.start, ent.end), parts, strict=True):
                column = rows[token + place][:, names.index(f"{part}-{ent.label_}")]
                # The geometric mean over several word pieces.
                expected *= np.prod(column) ** (1 / len(column))
            assert ent._.confidence == pytest.approx(expected, rel=1e-4)
            count += 1
        token += len(doc)
    assert count >= 4


def test_token_probabilities_are_means_over_word_pieces():
    scores = np.log(np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], dtype="float32"))
    log_probs = token_log_probs(Ragged(scores, np.array([2, 0, 1], dtype="i")))
    expected = [[np.log(0.9 * 0.4) / 2, np.log(0.1 * 0.6) / 2], [0, 0], [np.log(0.5)] * 2]
    np.testing.assert_allclose(log_probs, expected, rtol=1e-5)


# The loss


@pytest.mark.parametrize("pooling", ["first", "pieces"])
def test_the_loss_is_the_mean_cross_entropy_of_annotated_rows(make_pipeline, pooling):
    _, head = ready(make_pipeline, model={"tok2vec": {**PIECES, "pooling": pooling}})
    nlp = spacy.blank("en")
    first = make_example(nlp, "a b c", [(2, 5, "B")])  # O, B-B, L-B
    second = make_example(nlp, "d e", [(0, 1, "A")])  # U-A, and a missing token
    second.reference.set_ents(
        [Span(second.reference, 0, 1, label="A")], missing=[second.reference[1:2]]
    )
    absent = make_example(nlp, "f", None)
    lengths = [2, 1, 1, 1, 2, 1] if pooling == "pieces" else [1] * 6
    tags = np.repeat([0, 5, 7, 4, MISSING, MISSING], lengths)
    scores = np.random.default_rng(1).normal(size=(sum(lengths), 9)).astype("float32")
    loss, d_scores = head.get_loss(
        [first, second, absent], Ragged(scores, np.array(lengths, dtype="i"))
    )
    probabilities = softmax(scores)
    known = np.flatnonzero(tags >= 0)
    expected = -np.log(probabilities[known, tags[known]]).mean()
    assert loss == pytest.approx(expected, rel=1e-5)
    d_expected = np.zeros_like(scores)
    for row in known:
        d_expected[row] = (probabilities[row] - np.eye(9)[tags[row]]) / len(known)
    np.testing.assert_allclose(d_scores, d_expected, atol=1e-6)
    assert not d_scores[tags < 0].any()


def test_the_gradient_of_the_loss_is_that_of_finite_differences(make_pipeline):
    _, head = ready(make_pipeline, scheme="bio")
    example = make_example(spacy.blank("en"), "a b c", [(2, 5, "B")])
    scores, ones = np.random.default_rng(2).normal(size=(3, 5)), np.ones(3, dtype="i")
    _, d_scores = head.get_loss([example], Ragged(scores, ones))
    for place in np.ndindex(*scores.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = scores.copy()
            moved[place] += step
            values.append(head.get_loss([example], Ragged(moved, ones))[0])
        assert d_scores[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def test_the_target_of_a_token_is_mixed_of_gold_and_what_a_teacher_finds_probable(make_pipeline):
    _, head = ready(make_pipeline, labels=["A"], scheme="bio", teacher_share=0.25)
    nlp = spacy.blank("en")
    taught = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]], dtype="float32")
    annotated = make_example(nlp, "a b", [(0, 1, "A")])  # B-A, O
    unlabelled, nothing = make_example(nlp, "c d", None), make_example(nlp, "e", None)
    for example in (annotated, unlabelled):
        set_soft_labels(example.reference, NER, ["O", "B-A", "I-A"], taught)
    targets = np.zeros((5, 3))
    targets[:2] = 0.25 * taught + 0.75 * np.array([[0, 1, 0], [1, 0, 0]])
    targets[2:4] = taught
    scores = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    loss, d_scores = head.get_loss(
        [annotated, unlabelled, nothing], Ragged(scores, np.ones(5, dtype="i"))
    )
    log_probs = np.log(softmax(scores))
    assert loss == pytest.approx(-(targets * log_probs).sum() / 4, rel=1e-5)
    expected = (np.exp(log_probs) - targets) / 4
    expected[4] = 0.0
    np.testing.assert_allclose(d_scores, expected, atol=1e-6)


def test_a_teacher_of_other_tokens_teaches_those_that_are_the_same(make_pipeline):
    _, head = ready(make_pipeline, labels=["A"], scheme="bio")
    nlp = spacy.blank("en")
    reference = Doc(nlp.vocab, words=["a", "b-c"], spaces=[True, False])
    set_soft_labels(reference, NER, ["O", "B-A", "I-A"], np.array([[0.25, 0.75, 0], [0, 0, 1.0]]))
    example = Example(Doc(nlp.vocab, ["a", "b", "-", "c"], [True, False, False, False]), reference)
    scores, ones = np.zeros((4, 3), dtype="float32"), np.ones(4, dtype="i")
    _, d_scores = head.get_loss([example], Ragged(scores, ones))
    np.testing.assert_allclose(d_scores[0], [1 / 3 - 0.25, 1 / 3 - 0.75, 1 / 3], atol=1e-6)
    assert not d_scores[1:].any()


def test_a_student_of_unlabelled_text_has_its_teachers_labels(make_pipeline):
    nlp = make_pipeline({NER: {"scheme": "bio"}})
    example = make_example(nlp, "a", None)
    set_soft_labels(example.reference, NER, ["O", "B-X", "I-X"], np.array([[1.0, 0, 0]]))
    nlp.initialize(lambda: [example])
    assert nlp.get_pipe(NER).labels == ("X",)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_teachers_share_outside_0_to_1_is_refused(make_pipeline, share):
    with pytest.raises(BiomedError, match=r"\[components.biomed_ner\] teacher_share = "):
        make_pipeline({NER: {"teacher_share": share}})


@pytest.mark.parametrize("key", [None, "gold"])
@pytest.mark.parametrize("optimizer", [AdamW_v1, Adam])
def test_documents_without_the_layer_leave_the_head_as_it_is(
    make_pipeline, weights, key, optimizer
):
    nlp = trained(make_pipeline, steps=3, spans_key=key)
    sgd = optimizer(1e-2, L2=0.1)
    nlp.update(toy_examples(nlp, key), sgd=sgd)  # so that the optimizer has momentum
    before = weights(nlp, NER)
    for _ in range(2):
        losses = nlp.update([make_example(nlp, "Aspirin risk", None)], sgd=sgd, losses={})
        assert losses[NER] == 0.0
    np.testing.assert_array_equal(weights(nlp, NER), before)
    nlp.update(toy_examples(nlp, key), sgd=sgd)
    assert not np.array_equal(weights(nlp, NER), before)


def test_an_empty_layer_is_learned_from(make_pipeline, weights):
    nlp = trained(make_pipeline, steps=3)
    before = weights(nlp, NER)
    nlp.update([make_example(nlp, "Aspirin risk", [])], sgd=AdamW_v1(1e-2))
    assert not np.array_equal(weights(nlp, NER), before)


def test_a_mention_off_token_boundaries_makes_its_tokens_missing(make_pipeline):
    _, head = ready(make_pipeline)
    vocab = spacy.blank("en").vocab
    predicted = Doc(vocab, words=["pre", "B-cell", "x", "post"])
    reference = Doc(
        vocab,
        words=["pre", "B-", "cell", "x", "post"],
        spaces=[True, False, True, True, False],
    )
    reference.set_ents(
        [Span(reference, 0, 1, label="A"), Span(reference, 2, 4, label="B")], default="outside"
    )
    # "cell x" starts inside the predicted token "B-cell".
    tags = head.targets.gold_tags(Example(predicted, reference))
    assert tags.tolist() == [4, MISSING, MISSING, 0]


def test_gold_is_carried_over_to_a_finer_tokenization(make_pipeline):
    _, head = ready(make_pipeline)
    vocab = spacy.blank("en").vocab
    reference = Doc(vocab, words=["B-cell", "x", "y"])
    reference.set_ents([Span(reference, 0, 1, label="B")], missing=[reference[1:2]])
    predicted = Doc(vocab, words=["B", "-", "cell", "x", "y"], spaces=[False, False] + [True] * 3)
    assert head.targets.gold_tags(Example(predicted, reference)).tolist() == [5, 6, 7, MISSING, 0]


def test_of_overlapping_gold_mentions_the_longest_is_learned(make_pipeline):
    _, head = ready(make_pipeline, spans_key="gold")
    example = make_example(spacy.blank("en"), "a b c", [(2, 3, "A"), (2, 5, "B")], "gold")
    assert head.targets.gold_tags(example).tolist() == [0, 5, 7]


def test_a_label_that_the_head_does_not_know_is_refused(make_pipeline):
    nlp, _ = ready(make_pipeline)
    with pytest.raises(BiomedError, match="'VIRUS'.*'Zika'.*biomed_ner.*A, B") as error:
        nlp.update([make_example(nlp, "Zika", [(0, 4, "VIRUS")])])
    assert "\n" not in str(error.value)


# Labels and settings


def test_labels_come_from_all_examples_or_from_the_config(make_pipeline):
    nlp = make_pipeline({NER: {}})
    nlp.initialize(lambda: toy_examples(nlp))
    assert nlp.get_pipe(NER).labels == ("DISEASE", "DRUG")
    nlp = make_pipeline({NER: {}})
    nlp.config["initialize"]["components"] = {NER: {"labels": ["Z", "DRUG", "DISEASE"]}}
    nlp.initialize(lambda: toy_examples(nlp))
    assert nlp.get_pipe(NER).label_data == ["Z", "DRUG", "DISEASE"]
    assert nlp.get_pipe(NER).model.get_dim("nO") == 13


def test_a_corpus_without_mentions_is_refused(make_pipeline):
    nlp = make_pipeline({NER: {"spans_key": "gold"}})
    with pytest.raises(BiomedError, match=r"no mention.*\(doc\.spans\['gold'\]\)"):
        nlp.initialize(lambda: toy_examples(nlp))


def test_a_trained_head_learns_a_label_that_is_added(make_pipeline):
    nlp = trained(make_pipeline)
    head = nlp.get_pipe(NER)
    before = [[(ent.text, ent.label_) for ent in nlp(text).ents] for text, _ in TOY]
    assert (head.add_label("DRUG"), head.add_label("AGE")) == (0, 1)
    assert head.labels == ("DISEASE", "DRUG", "AGE")
    assert [[(ent.text, ent.label_) for ent in nlp(text).ents] for text, _ in TOY] == before
    example = make_example(nlp, "aged seventy", [(5, 12, "AGE")])
    optimizer = AdamW_v1(5e-3)
    for _ in range(80):
        nlp.update([example, *toy_examples(nlp)], sgd=optimizer)
    assert [(ent.text, ent.label_) for ent in nlp("aged seventy").ents] == [("seventy", "AGE")]


def test_documents_of_another_vocabulary_are_annotated(make_pipeline):
    nlp = trained(make_pipeline)
    found = [nlp(spacy.blank("en").make_doc(text)) for text, _ in TOY]
    assert [[(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents] for doc in found] == [
        mentions for _, mentions in TOY
    ]


def test_an_unknown_scheme_is_refused(make_pipeline):
    with pytest.raises((BiomedError, ValueError), match="bioes"):
        make_pipeline({NER: {"scheme": "bioes"}})


def test_an_unknown_decoding_is_refused(make_pipeline):
    with pytest.raises((BiomedError, ValueError), match="greedy"):
        make_pipeline({NER: {"decoding": "greedy"}})


def test_the_heads_own_learning_rate_factor(make_pipeline, weights):
    """With plain gradient descent the step is multiplied by the factor."""
    from thinc.api import SGD

    moves = {}
    for factor in (1.0, 10.0):
        nlp, _ = ready(make_pipeline, learn_rate_factor=factor)
        before = {name: weights(nlp, name) for name in (NER, ENCODER)}
        nlp.update([make_example(nlp, "a b", [(0, 1, "A")])], sgd=SGD(1e-3, grad_clip=0))
        moves[factor] = {name: weights(nlp, name) - before[name] for name in before}
    assert np.abs(moves[1.0][NER]).sum() > 0
    np.testing.assert_allclose(moves[10.0][NER], 10 * moves[1.0][NER], rtol=0.02, atol=1e-5)
    np.testing.assert_allclose(moves[10.0][ENCODER], moves[1.0][ENCODER], atol=1e-6)


# Documents of every kind


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["first", "mean", "pieces"])
@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "😀", "\u0301", "a"])
def test_texts_of_hardly_anything_are_annotated(make_pipeline, text, pooling):
    words = {"@architectures": "spacy_biomed.WordEmbed.v1", "width": 4, "attrs": ["NORM"]}
    tok2vec = {**PIECES, "pooling": pooling}
    model = {"window_size": 1, "tok2vec": tok2vec, "features": {**words, "rows": [10]}}
    nlp, _ = ready(make_pipeline, model=model)
    assert nlp(text).text == text
    assert [doc.text for doc in nlp.pipe([text, "", text])] == [text, "", text]
    nlp.update([make_example(nlp, text, [])], sgd=AdamW_v1(1e-3))


@pytest.mark.slow
def test_a_hundred_thousand_words_are_annotated(make_pipeline):
    nlp = trained(make_pipeline)
    words = ["No", "breast", "cancer", "with", "paracetamol", "."] * 16_700
    doc = nlp(Doc(nlp.vocab, words=words))
    assert len(doc) > 100_000
    assert all(token.ent_iob for token in doc)
    assert {ent.label_ for ent in doc.ents} == {"DISEASE", "DRUG"}


# Scores

# The endings of the names of all scores, if no document marks what was seen in training.
WHICH = ("p", "r", "f", "per_type", "ece", "reliability")


def scored(pairs, key=None, seen=None, lost=None):
    nlp = spacy.blank("en")
    examples = []
    for text, gold, predicted in pairs:
        example = Example(gold_doc(nlp, text, predicted, key), gold_doc(nlp, text, gold, key))
        if seen is not None:
            example.reference.spans[SEEN_KEY] = [example.reference.char_span(*s) for s in seen]
        if lost is not None:
            example.reference.user_data[UNALIGNED_MENTIONS] = lost
        examples.append(example)
    return score_mentions(examples, spans_key=key)


@pytest.mark.parametrize("key, names", [(None, "ents"), ("gold", "spans_gold")])
def test_exact_matches_count(key, names):
    scores = scored(
        [
            # Found; wrong label; missed; wrong boundary.
            ("a b c d e", [(0, 1, "A"), (2, 3, "A"), (4, 5, "B")], [(0, 1, "A"), (2, 3, "B")]),
            ("f g", [(0, 1, "B")], [(0, 3, "B")]),
            ("nothing here", [], []),
        ],
        key,
    )
    # 1 found, 2 wrong, 3 missed.
    assert scores[f"{names}_p"] == pytest.approx(1 / 3)
    assert scores[f"{names}_r"] == pytest.approx(1 / 4)
    assert scores[f"{names}_f"] == pytest.approx(2 / 7)
    by_label = scores[f"{names}_per_type"]
    assert by_label["A"] == {"p": 1.0, "r": 0.5, "f": pytest.approx(2 / 3)}
    assert by_label["B"] == {"p": 0.0, "r": 0.0, "f": 0.0}


def test_mentions_that_no_token_fits_are_missed():
    lost = [(0, 1, "A"), (3, 4, "C")]
    scores = scored([("ab cd", [(0, 2, "A")], [(0, 2, "A")])], lost=lost)
    assert scores["ents_p"] == 1.0
    assert scores["ents_r"] == pytest.approx(1 / 3)
    assert scores["ents_per_type"]["A"]["r"] == 0.5
    assert scores["ents_per_type"]["C"] == {"p": 0.0, "r": 0.0, "f": 0.0}


def test_overlapping_gold_mentions_of_a_span_group_all_count():
    gold = [(0, 3, "A"), (0, 1, "A"), (2, 3, "B")]
    scores = scored([("a b", gold, [(0, 3, "A")])], "gold")
    assert scores["spans_gold_p"] == 1.0
    assert scores["spans_gold_r"] == pytest.approx(1 / 3)


def test_unseen_mentions_are_scored_apart():
    seen = [(0, 1, "A"), (2, 3, "A")]
    scores = scored(
        [
            # Seen and found; seen and wrong; unseen and found; unseen and missed; unseen and wrong.
            (
                "a b c d e",
                [(0, 1, "A"), (4, 5, "A"), (6, 7, "B")],
                [(0, 1, "A"), (2, 3, "A"), (4, 5, "A"), (8, 9, "A")],
            )
        ],
        seen=seen,
    )
    assert (scores["ents_p"], scores["ents_r"]) == (2 / 4, pytest.approx(2 / 3))
    assert (scores["spans_unseen_p"], scores["spans_unseen_r"]) == (1 / 2, 1 / 2)
    assert scores["spans_unseen_f"] == 0.5
    assert scores["spans_unseen_per_type"]["B"]["r"] == 0.0


def test_unseen_mentions_of_a_span_group_have_its_name():
    scores = scored([("a b", [(0, 1, "A")], [(0, 1, "A")])], "gold", seen=[])
    assert scores["spans_gold_unseen_f"] == 1.0


@pytest.mark.parametrize("seen", [None, [(0, 1, "A")]])
def test_without_marks_or_unseen_mentions_there_is_no_score_of_them(seen):
    names = {f"ents_{which}" for which in WHICH}
    assert set(scored([("a", [(0, 1, "A")], [])], seen=seen)) == names


@pytest.mark.parametrize("key, names", [(None, "ents"), ("gold", "spans_gold")])
def test_without_the_layer_there_is_no_score(key, names):
    scores = scored([("a b", None, [(0, 1, "A")]), ("c", None, [])], key)
    assert scores == {f"{names}_{which}": None for which in WHICH}
    together = scored([("a b", None, [(0, 1, "A")]), ("c", [(0, 1, "A")], [(0, 1, "A")])], key)
    assert together[f"{names}_p"] == together[f"{names}_f"] == 1.0


def test_predictions_on_tokens_without_annotation_do_not_count():
    nlp = spacy.blank("en")
    example = make_example(nlp, "a b c", None)
    reference = example.reference
    reference.set_ents([Span(reference, 0, 1, label="A")], missing=[reference[1:2]])
    example.predicted.set_ents(
        [Span(example.predicted, 0, 1, label="A"), Span(example.predicted, 1, 3, label="A")]
    )
    assert score_mentions([example])["ents_p"] == 1.0


def test_the_component_scores_its_own_layer(make_pipeline):
    nlp = trained(make_pipeline, steps=1, spans_key="gold")
    scores = nlp.evaluate(toy_examples(nlp, "gold"))
    assert "spans_gold_f" in scores and "ents_f" not in scores


def test_no_entity_begins_or_ends_with_white_space():
    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, words=["a", "\n", "b", " ", "c"], spaces=[False] * 5)
    ner = nlp.add_pipe("biomed_ner")
    ner.add_label("X")
    scores = np.zeros((5, ner.tag_scheme.size), dtype="float32")
    for token, tag in enumerate(["B-X", "I-X", "L-X", "U-X", "O"]):
        scores[token, ner.tag_scheme.tag_names().index(tag)] = 5.0
    ner.model = Model("fixed", lambda m, docs, is_train: (Ragged(scores, np.ones(5, "i")), None))
    (found,) = ner.predict([doc])
    assert [found.spans.start.tolist(), found.spans.end.tolist()] == [[0], [3]]
