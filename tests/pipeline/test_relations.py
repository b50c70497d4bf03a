import json

import numpy as np
import pytest
import spacy
from sklearn.metrics import precision_recall_fscore_support
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import SGD, Model

from spacy_biomed.annotations.marked_arguments import find_marked_arguments
from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.encoders.batching.encoded import get_encoding
from spacy_biomed.errors import BiomedError
from spacy_biomed.models.text_classifiers import RelationClassifier_v1
from spacy_biomed.packaging.compression import weighted_scores, write_compressed
from spacy_biomed.pipeline.relations.component import relation_scorer_v1, score_relations
from spacy_biomed.training.config import fill_config
from spacy_biomed.training.optimizer import AdamW_v1

RELATIONS, TEXTCAT, ENCODER = "biomed_relations", "biomed_textcat", "biomed_transformer"
ONNX, RULER, GOLD = "biomed_onnx_transformer", "entity_ruler", "gold"

# Words, their types, and relations between them by their places.
WORDS = {"Aspirin": "DRUG", "paracetamol": "DRUG", "cancer": "DISEASE", "diabetes": "DISEASE"}
ENTITIES = [
    ("Aspirin reduced the cancer", [(0, 1, "TREATS")]),
    ("paracetamol reduced diabetes", [(0, 1, "TREATS")]),
    ("No paracetamol after cancer", []),
    ("Aspirin was found in diabetes", [(0, 1, "CAUSES")]),
    ("The patients", []),
]
MARKED = [
    ("<< Aspirin >> reduced [[ cancer ]]", "TREATS"),
    ("in << diabetes >> and [[ paracetamol ]]", None),
    ("[[ cancer ]] was found with << Aspirin >>", "CAUSES"),
    ("@DRUG$ reduced @DISEASE$ 8", "TREATS"),
]


def find_words(doc):
    return [token for token in doc if token.text in WORDS]


def annotate(doc, relations, spans_key=None):
    """Relations by the places of two words; None leaves the document without any."""
    spans = [Span(doc, word.i, word.i + 1, label=WORDS[word.text]) for word in find_words(doc)]
    if spans_key is None:
        doc.ents = spans
    else:
        doc.spans[spans_key] = spans
    if relations is not None:
        doc._.relations = [SpanRelation(spans[h], spans[t], label) for h, t, label in relations]
    return doc


def make_example(nlp, text, relations=None, spans_key=None):
    return Example(nlp.make_doc(text), annotate(nlp.make_doc(text), relations, spans_key))


def make_marked(nlp, text, *labels):
    """Without a label the two words are not related."""
    example = Example(nlp.make_doc(text), nlp.make_doc(text))
    doc = example.reference
    doc._.relations = [SpanRelation(doc[:1], doc[1:2], label) for label in labels]
    return example


def make_examples(nlp, spans_key=None):
    return [make_example(nlp, *one, spans_key) for one in ENTITIES] + [
        make_marked(nlp, text, *([label] if label else [])) for text, label in MARKED
    ]


def add_entities(nlp, **config):
    ruler = nlp.add_pipe(RULER, first=True, config=config)
    ruler.add_patterns([{"label": label, "pattern": word} for word, label in WORDS.items()])
    return nlp


def trained(make_pipeline, steps=40, examples=None, **config):
    nlp = make_pipeline({RELATIONS: config})
    examples = (examples or make_examples)(nlp)
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(1e-2)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return add_entities(nlp)


@pytest.fixture(scope="module")
def trained_path(tiny_bert, tmp_path_factory):
    """A pipeline trained on the toy task, with default settings."""

    def make_pipeline(heads):
        spacy.util.fix_random_seed(0)
        nlp = spacy.blank("en")
        nlp.add_pipe(ENCODER, config={"model": {"name": str(tiny_bert), "precision": "fp32"}})
        nlp.add_pipe(RELATIONS)
        return nlp

    path = tmp_path_factory.mktemp("relations") / "pipeline"
    trained(make_pipeline).to_disk(path)
    return path


def ready(make_pipeline, **config):
    """A head that is sized but not trained, and its examples."""
    nlp = make_pipeline({RELATIONS: config})
    examples = make_examples(nlp, config.get("spans_key"))
    nlp.initialize(lambda: examples)
    return nlp, nlp.get_pipe(RELATIONS), examples


def facts(doc):
    return [
        (head.text, head.label_, tail.text, tail.label_, label)
        for head, tail, label, _ in doc._.relations
    ]


def scores_of(doc):
    return [score for *_, score in doc._.relations]


def vector_of(nlp, text):
    """The encoder's vector of the first position."""
    batch = nlp.get_pipe(ENCODER).model.predict([Doc(Vocab(), words=[text], spaces=[False])])
    return batch.hidden[0].astype("float64")


def scores_by_hand(nlp, text, name=RELATIONS):
    output = nlp.get_pipe(name).model.get_ref("classifier").layers[-1]
    return output.get_param("W") @ vector_of(nlp, text) + output.get_param("b")


def softmax(scores):
    exp = np.exp(scores)
    return exp / exp.sum()


# Learning


@pytest.mark.parametrize(
    "config",
    [{"arguments": "tags"}, {"exclusive": False, "directed": False}],
    ids=["exclusive, tags", "not exclusive, undirected"],
)
def test_it_learns_a_toy_task(make_pipeline, config, tmp_path):
    """With default settings in `trained_path`, and read from disk in the tests that use it."""
    nlp = trained(make_pipeline, **config)
    examples = make_examples(nlp)
    scores = nlp.evaluate(examples)
    assert scores["relations_micro_f"] == 1.0
    assert set(scores["relations_per_type"]) == {"CAUSES", "TREATS"}
    doc = nlp("Aspirin was found in diabetes")
    assert facts(doc) == [("Aspirin", "DRUG", "diabetes", "DISEASE", "CAUSES")]
    assert facts(nlp("No paracetamol after cancer")) == []
    assert facts(nlp("<< Aspirin >> reduced [[ cancer ]]")) == [
        ("Aspirin", "", "cancer", "", "TREATS")
    ]
    nlp.to_disk(tmp_path)
    from_bytes = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for again in (spacy.load(tmp_path), from_bytes):
        assert again.get_pipe(RELATIONS).cfg == nlp.get_pipe(RELATIONS).cfg
        restored = again(annotate(again.make_doc(doc.text), None))
        assert facts(restored) == facts(doc)
        assert scores_of(restored) == pytest.approx(scores_of(doc), abs=1e-5)


def test_entities_of_a_span_group_are_related(make_pipeline):
    nlp = make_pipeline({RELATIONS: {"spans_key": GOLD}})
    examples = [make_example(nlp, *one, GOLD) for one in ENTITIES]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(1e-2)
    for _ in range(30):
        nlp.update(examples, sgd=optimizer)
    add_entities(nlp)  # of doc.ents, which it does not look at
    assert facts(nlp("Aspirin reduced the cancer")) == []
    doc = annotate(nlp.make_doc("Aspirin reduced the cancer"), None, GOLD)
    assert facts(nlp(doc)) == [("Aspirin", "DRUG", "cancer", "DISEASE", "TREATS")]


SIGNS = [
    "<< Lab: Na 140 >> then [[ see note ]]: Aspirin reduced the cancer",
    "seen by @SMITH$ and @JONES$: Aspirin reduced the cancer",
]


@pytest.mark.parametrize("text", SIGNS)
def test_signs_of_a_note_are_no_marks_where_entities_were_annotated(make_pipeline, text):
    def annotated(nlp):
        signed = make_example(nlp, text, [(0, 1, "TREATS")])
        return [*(make_example(nlp, *one) for one in ENTITIES), signed]

    nlp = trained(make_pipeline, examples=annotated)
    assert nlp.get_pipe(RELATIONS).cfg["reads_marks"] is False
    expected = [("Aspirin", "DRUG", "cancer", "DISEASE", "TREATS")]
    assert facts(nlp(text)) == expected
    example = annotated(nlp)[-1]
    assert score_relations([example], labels=["TREATS"])["relations_micro_r"] == 0.0
    example.predicted = example.reference.copy()
    assert score_relations([example], labels=["TREATS"])["relations_micro_f"] == 1.0


@pytest.mark.parametrize("text", SIGNS)
def test_a_converted_note_with_such_signs_keeps_its_entities(tmp_path, text):
    start, end = text.index("Aspirin"), text.index("cancer")
    head = {"start": start, "end": start + 7, "label": "DRUG"}
    tail = {"start": end, "end": end + 6, "label": "DISEASE"}
    relation = {"label": "TREATS", "head_span": head, "child_span": tail}
    row = {"text": text, "spans": [head, tail], "relations": [relation]}
    (tmp_path / "train.jsonl").write_text(json.dumps(row), encoding="utf8")
    convert_corpus("mine", tmp_path, tmp_path / "out", format="jsonl")
    (doc,) = DocBin().from_disk(tmp_path / "out" / "train.spacy").get_docs(Vocab())
    assert [ent.text for ent in doc.ents] == ["Aspirin", "cancer"]


def test_what_was_learned_on_marked_sentences_is_found_between_entities(make_pipeline):
    def marked_alone(nlp):
        return [make_marked(nlp, text, *([label] if label else [])) for text, label in MARKED]

    pairs = [["DRUG", "DISEASE"], ["DISEASE", "DRUG"]]
    nlp = trained(make_pipeline, examples=marked_alone, pairs=pairs, directed=False)
    assert facts(nlp("Aspirin reduced cancer")) == [
        ("Aspirin", "DRUG", "cancer", "DISEASE", "TREATS")
    ]


# Probabilities


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("marks", "No [[ cancer ]] after << Aspirin >> in diabetes"),
        ("tags", "No @DISEASE$ after @DRUG$ in diabetes"),
    ],
)
def test_the_encoder_reads_the_sentence_with_the_arguments_marked(make_pipeline, arguments, text):
    """As scored by hand: the same text as a document has the same score."""
    nlp, head, _ = ready(make_pipeline, arguments=arguments)
    add_entities(nlp)
    docs = [nlp.get_pipe(RULER)(nlp.make_doc("No cancer after Aspirin in diabetes"))]
    docs.append(nlp.make_doc(text))
    nlp.get_pipe(ENCODER).set_annotations(docs, nlp.get_pipe(ENCODER).predict(docs))
    candidates, probabilities = head.predict(docs)
    assert [candidate.doc for candidate in candidates] == [0, 0, 1]
    expected = softmax(scores_by_hand(nlp, text))
    assert len(expected) == 3  # two labels, and none
    np.testing.assert_allclose(probabilities[0], expected, atol=1e-5)
    np.testing.assert_allclose(probabilities[2], expected, atol=1e-5)


@pytest.mark.parametrize("gap", [2, 8])
def test_an_encoder_of_short_windows_reads_both_arguments(make_pipeline, gap):
    nlp, head, _ = ready(make_pipeline)
    words = [*30 * ["in"], "Aspirin", *gap * ["the"], "cancer", *30 * ["in"]]
    doc = nlp.get_pipe(ENCODER)(annotate(Doc(nlp.vocab, words=words), None))
    encoder = nlp.get_pipe(ENCODER).model
    encoder.attrs["window"] = 40
    [whole] = head.predict([doc]).compared
    (short,) = head._cut_windows([whole], {0: doc.text}, encoder)
    assert len(encoder.shims[0].tokenizer([short]).ids) <= 38
    assert short.count("in") > 2
    assert short.startswith("in ") and short.endswith(" in")
    assert f"<< Aspirin >> {gap * 'the '}[[ cancer ]]" in short
    encoder.attrs["window"] = 512
    assert head._cut_windows([whole], {0: doc.text}, encoder) == [whole.text(doc.text, "marks")]


def set_scores(head, scores):
    """Let every candidate have these scores."""
    output = head.model.get_ref("classifier").layers[-1]
    output.set_param("W", np.zeros_like(output.get_param("W")))
    output.set_param("b", np.array(scores, dtype="float32"))


def test_the_most_probable_of_exclusive_relations_is_found_unless_it_is_none(make_pipeline):
    nlp, head, _ = ready(make_pipeline)
    add_entities(nlp)
    text = "Aspirin, cancer"
    set_scores(head, [0.5, 1.0, 0.9])
    ((_, _, label, score),) = nlp(text)._.relations
    assert label == "TREATS"
    assert score == pytest.approx(softmax(np.array([0.5, 1.0, 0.9]))[1], abs=1e-6)
    set_scores(head, [0.5, 0.9, 1.0])
    assert nlp(text)._.relations == []


def test_relations_that_are_not_exclusive_are_found_from_a_threshold_on(make_pipeline):
    nlp, head, _ = ready(make_pipeline, exclusive=False, threshold=0.6)
    add_entities(nlp)
    set_scores(head, [np.log(0.7 / 0.3), np.log(0.61 / 0.39)])
    doc = nlp("Aspirin, cancer")
    assert [label for *_, label, _ in doc._.relations] == ["CAUSES", "TREATS"]
    assert scores_of(doc) == pytest.approx([0.7, 0.61], abs=1e-6)
    set_scores(head, [np.log(0.7 / 0.3), np.log(0.59 / 0.41)])
    assert [label for *_, label, _ in nlp("Aspirin, cancer")._.relations] == ["CAUSES"]


def test_relations_of_others_stay_on_the_document(make_pipeline):
    nlp, head, _ = ready(make_pipeline)
    set_scores(head, [9.0, 0.0, 0.0])
    doc = nlp.make_doc("<< Aspirin >> and [[ cancer ]]")
    doc._.relations = [
        SpanRelation(doc[0:1], doc[1:2], label, 0.5) for label in ("THEIRS", "TREATS")
    ]
    assert [label for *_, label, _ in nlp(doc)._.relations] == ["THEIRS", "CAUSES"]


# The loss and the gradients


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_loss_is_the_mean_cross_entropy_over_the_candidates(make_pipeline, exclusive):
    nlp, head, _ = ready(make_pipeline, exclusive=exclusive)
    examples = [
        make_example(nlp, "Aspirin reduced cancer and diabetes", [(0, 1, "TREATS")]),
        make_marked(nlp, "in << diabetes >> and [[ paracetamol ]]"),
        make_example(nlp, "paracetamol for diabetes", None),
        make_marked(nlp, "@DRUG$ reduced @DISEASE$", "CAUSES"),
    ]
    texts = {  # the column that is true
        "<< Aspirin >> reduced [[ cancer ]] and diabetes": 1,
        "<< Aspirin >> reduced cancer and [[ diabetes ]]": 2,
        "in << diabetes >> and [[ paracetamol ]]": 2,
        "@DRUG$ reduced @DISEASE$": 0,
    }
    by_hand = 0.0
    for text, column in texts.items():
        scores = scores_by_hand(nlp, text)
        if exclusive:
            by_hand -= np.log(softmax(scores)[column])
        else:
            target = np.arange(2) == column
            p = 1 / (1 + np.exp(-scores))
            by_hand -= np.log(np.where(target, p, 1 - p)).sum()
    losses = nlp.update(examples, sgd=False, losses={})
    assert losses[RELATIONS] == pytest.approx(by_hand / 4, rel=1e-4)


@pytest.mark.parametrize("directed", [True, False])
def test_the_direction_of_gold_counts_only_where_there_is_one(make_pipeline, directed):
    nlp, _, _ = ready(make_pipeline, directed=directed)
    losses = [
        nlp.update([make_example(nlp, ENTITIES[0][0], [relation])], sgd=False, losses={})
        for relation in [(0, 1, "TREATS"), (1, 0, "TREATS")]
    ]
    right, reverse = (loss[RELATIONS] for loss in losses)
    assert (right == pytest.approx(reverse, rel=1e-5)) != directed


def gradients(nlp):
    encoder = nlp.get_pipe(ENCODER).model.shims[0]._model
    output = nlp.get_pipe(RELATIONS).model.get_ref("classifier").layers[-1]
    parts = [p.grad.numpy().ravel().copy() for p in encoder.parameters() if p.grad is not None]
    return np.concatenate(parts), output.get_grad("W").copy()


@pytest.mark.parametrize("batch_words", [1, 4096])
def test_entities_teach_the_encoder_what_the_same_sentences_teach_it_marked(
    make_pipeline, batch_words
):
    """The gradient through the encoder's model is that through the listener."""
    found = []
    for is_marked in (True, False):
        nlp, _, _ = ready(make_pipeline, max_batch_words=batch_words)
        if is_marked:
            examples = [
                make_marked(nlp, "<< Aspirin >> reduced the [[ cancer ]]", "TREATS"),
                make_marked(nlp, "No << paracetamol >> after [[ cancer ]]"),
            ]
        else:
            examples = [make_example(nlp, *ENTITIES[0]), make_example(nlp, *ENTITIES[2])]
        nlp.update(examples, sgd=False)
        found.append(gradients(nlp))
    for marked, entities in zip(*found, strict=True):
        assert np.abs(marked).max() > 1e-3
        np.testing.assert_allclose(entities, marked, rtol=1e-5, atol=1e-5)


def test_the_encoders_step_has_the_gradient_of_entities(make_pipeline, weights):
    """Plain gradient descent: the step is the gradient, though the listener's comes last."""
    nlp, _, _ = ready(make_pipeline)
    examples = [make_example(nlp, *ENTITIES[0])]
    nlp.update(examples, sgd=False)
    expected, _ = gradients(nlp)
    nlp, _, _ = ready(make_pipeline)
    before = weights(nlp, ENCODER)
    nlp.update(examples, sgd=SGD(1.0, grad_clip=0))
    moved = before - weights(nlp, ENCODER)
    np.testing.assert_allclose(np.abs(moved).sum(), np.abs(expected).sum(), rtol=1e-3)


@pytest.mark.parametrize("heads", [[RELATIONS, TEXTCAT], [TEXTCAT, RELATIONS]])
def test_entities_teach_the_encoder_beside_another_head(make_pipeline, weights, heads):
    """Its step has the gradients of both, whichever comes last."""
    steps = {}
    for given in ("relations", "cats", "both"):
        nlp = make_pipeline({name: {} for name in heads})
        nlp.config["initialize"]["components"] = {TEXTCAT: {"labels": ["A"]}}
        examples = make_examples(nlp)
        nlp.initialize(lambda examples=examples: examples)
        relations = ENTITIES[0][1] if given != "cats" else None
        example = make_example(nlp, ENTITIES[0][0], relations)
        if given != "relations":
            example.reference.cats = {"A": 1.0}
        before = weights(nlp, ENCODER)
        nlp.update([example], sgd=SGD(1e-2, grad_clip=0))
        steps[given] = weights(nlp, ENCODER) - before
        assert nlp.get_pipe(ENCODER)._pending is None
    assert np.abs(steps["relations"]).max() > 1e-5
    np.testing.assert_allclose(steps["both"], steps["relations"] + steps["cats"], atol=1e-6)


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_the_listeners_gradient_factor_is_that_of_entities_too(make_pipeline, weights, factor):
    moves = {}
    for grad_factor in (factor, 1.0):
        nlp, _, _ = ready(make_pipeline, model={"tok2vec": {"grad_factor": grad_factor}})
        before = weights(nlp, ENCODER)
        nlp.update([make_example(nlp, *ENTITIES[0])], sgd=SGD(1e-2, grad_clip=0))
        moves[grad_factor] = weights(nlp, ENCODER) - before
    np.testing.assert_allclose(moves[factor], factor * moves[1.0], atol=2e-7)


def test_a_frozen_encoder_teaches_the_head_and_stays_as_it_is(make_pipeline, weights):
    nlp, _, examples = ready(make_pipeline)
    before = {name: weights(nlp, name) for name in (ENCODER, RELATIONS)}
    optimizer = AdamW_v1(5e-2)
    first = nlp.update(examples, sgd=optimizer, losses={}, exclude=[ENCODER], annotates=[ENCODER])[
        RELATIONS
    ]
    for _ in range(40):
        losses = nlp.update(
            examples, sgd=optimizer, losses={}, exclude=[ENCODER], annotates=[ENCODER]
        )
    np.testing.assert_array_equal(weights(nlp, ENCODER), before[ENCODER])
    assert not np.array_equal(weights(nlp, RELATIONS), before[RELATIONS])
    assert losses[RELATIONS] < 0.8 * first


# What is not annotated


def test_documents_without_annotation_leave_the_head_as_it_is(make_pipeline, learns_nothing_from):
    nlp, _, examples = ready(make_pipeline)
    marked = Example(nlp.make_doc(MARKED[0][0]), nlp.make_doc(MARKED[0][0]))
    absent = [make_example(nlp, ENTITIES[0][0]), marked, make_example(nlp, "")]
    learns_nothing_from(nlp, RELATIONS, examples, absent)


def test_documents_without_text_teach_nothing(make_pipeline):
    nlp, _, _ = ready(make_pipeline)
    empty, other = make_example(nlp, "", []), make_example(nlp, *ENTITIES[0])
    alone = nlp.update([other], sgd=False, losses={})[RELATIONS]
    assert nlp.update([empty, other], sgd=False, losses={})[RELATIONS] == pytest.approx(alone)
    assert nlp.update([empty], sgd=AdamW_v1(1e-3), losses={})[RELATIONS] == 0.0


# Labels and settings


def test_labels_and_types_come_from_the_examples_or_from_the_config(make_pipeline):
    _, head, _ = ready(make_pipeline)
    assert head.label_data == ["CAUSES", "TREATS"]
    assert head.cfg["pairs"] == [["DRUG", "DISEASE"]]
    nlp = make_pipeline({RELATIONS: {"pairs": [["DISEASE", "DRUG"], ["DRUG", "DISEASE"]]}})
    nlp.config["initialize"]["components"] = {RELATIONS: {"labels": ["X", "TREATS", "CAUSES"]}}
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp.get_pipe(RELATIONS).labels == ("X", "TREATS", "CAUSES")
    assert nlp.get_pipe(RELATIONS).cfg["pairs"] == [["DISEASE", "DRUG"], ["DRUG", "DISEASE"]]
    assert nlp.get_pipe(RELATIONS).model.get_dim("nO") == 4


def test_a_head_with_labels_can_be_initialised_without_a_corpus(make_pipeline):
    nlp = make_pipeline({RELATIONS: {}})
    nlp.get_pipe(RELATIONS).add_label("A")
    nlp.initialize()
    assert len(nlp("<< a >> [[ b ]]")._.relations) <= 1


def two_relations(nlp):
    return [make_example(nlp, ENTITIES[0][0], [(0, 1, "TREATS"), (0, 1, "CAUSES")])]


@pytest.mark.parametrize(
    ("create", "settings", "config", "message"),
    [
        (
            lambda nlp: [make_example(nlp, "Aspirin")],
            {},
            {},
            "no relation for 'biomed_relations' to learn",
        ),
        (
            make_examples,
            {"labels": ["TREATS"]},
            {},
            "the relation 'CAUSES', which 'biomed_relations' does not know: it knows TREATS;",
        ),
        (two_relations, {}, {}, "the relations .CAUSES. and .TREATS., .* set exclusive = false"),
        (
            lambda nlp: [make_example(nlp, *ENTITIES[0])],
            {},
            {"spans_key": "other"},
            r"no relation .* check that they are in doc.spans\['other'\]",
        ),
        (
            lambda nlp: [make_example(nlp, *ENTITIES[0])],
            {},
            {"max_distance": 1},
            "no relation .* are in doc.ents, the types in `pairs`, and max_distance = 1",
        ),
        (
            lambda nlp: [make_example(nlp, "cancer, diabetes", [(0, 1, "CAUSES")])],
            {},
            {"arguments": "tags"},
            "the tail of DISEASE and DISEASE, .* use 'marks', or set directed = false",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused_in_one_line(
    make_pipeline, create, settings, config, message
):
    nlp = make_pipeline({RELATIONS: config})
    nlp.config["initialize"]["components"] = {RELATIONS: settings}
    with pytest.raises(BiomedError, match=message) as error:
        nlp.initialize(lambda: create(nlp))
    assert "\n" not in str(error.value)


def test_an_unknown_label_is_refused_in_training_too(make_pipeline):
    nlp, _, _ = ready(make_pipeline)
    with pytest.raises(BiomedError, match="relation 'NEW'.* it knows CAUSES, TREATS"):
        nlp.update([make_marked(nlp, MARKED[0][0], "NEW")])


def test_several_relations_of_a_pair_are_learned_where_they_are_not_exclusive(make_pipeline):
    nlp = trained(make_pipeline, steps=15, examples=two_relations, exclusive=False)
    assert {label for *_, label in facts(nlp(ENTITIES[0][0]))} == {"CAUSES", "TREATS"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pairs": [["DRUG"]]}, r"pairs = \[\['DRUG'\]\]: write the types"),
        ({"max_distance": -1}, "max_distance = -1"),
        ({"threshold": 1.5}, "threshold = 1.5"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(make_pipeline, config, message):
    with pytest.raises(BiomedError, match=rf"\[components.biomed_relations\] {message}"):
        make_pipeline({RELATIONS: config})


def test_a_layer_that_knows_no_encoder_or_pools_tokens_is_refused(make_pipeline):
    with pytest.raises(BiomedError, match="'other', which knows no encoder"):
        RelationClassifier_v1(Model("other", lambda model, X, is_train: (X, lambda dX: dX)))
    with pytest.raises(BiomedError, match="pooling = 'first'.*RelationClassifier.v1"):
        make_pipeline({RELATIONS: {"model": {"tok2vec": {"pooling": "first"}}}})


def test_a_pipeline_without_an_encoder_is_told_so():
    nlp = spacy.blank("en")
    head = nlp.add_pipe(RELATIONS, config={"pairs": [["DRUG", "DISEASE"]]})
    head.add_label("A")
    head.model.get_ref("tok2vec").set_dim("nO", 4)
    nlp.initialize()
    with pytest.raises(BiomedError, match="no encoder comes before the head that needs one"):
        nlp(annotate(nlp.make_doc("Aspirin for cancer"), None))


# Documents of every kind


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "😀", "\u0301", "Aspirin", "<< >> [[ ]]"])
def test_texts_of_hardly_anything_have_no_relations(make_pipeline, text):
    nlp, _, examples = ready(make_pipeline)
    add_entities(nlp)
    for doc in [nlp(text), *nlp.pipe([text, text])]:
        assert doc.text == text
        assert doc._.relations == []
        assert get_encoding(doc) is None
    nlp.update([*examples, make_example(nlp, text, [])], sgd=AdamW_v1(1e-3))


def test_no_documents_have_no_candidates(make_pipeline):
    _, head, _ = ready(make_pipeline)
    candidates, probabilities = head.predict([])
    assert candidates == [] and probabilities.shape == (0, 3)


@pytest.mark.slow
def test_a_hundred_thousand_words_are_searched(make_pipeline):
    nlp, head, _ = ready(make_pipeline, max_distance=3)
    set_scores(head, [9.0, 0.0, 0.0])
    words = ["risk"] * 100_000
    words[50_000:50_003] = ["Aspirin", "reduced", "cancer"]
    words[70_000:70_005] = ["Aspirin", "and", "the", "the", "diabetes"]
    doc = nlp(annotate(Doc(nlp.vocab, words=words), None))
    assert [(head.start, tail.start) for head, tail, _, _ in doc._.relations] == [
        (50_000, 50_002),
        (70_000, 70_004),
    ]


@pytest.mark.slow
def test_processes_of_a_pipe_find_what_one_finds(trained_path):
    nlp = spacy.load(trained_path)
    texts = [text for text, _ in (*ENTITIES, *MARKED)]
    alone = list(nlp.pipe(texts, batch_size=2))
    for doc, expected in zip(nlp.pipe(texts, batch_size=2, n_process=2), alone, strict=True):
        assert facts(doc) == facts(expected)
        assert scores_of(doc) == pytest.approx(scores_of(expected), abs=1e-5)


def test_texts_of_candidates_are_not_kept(trained_path):
    nlp = spacy.load(trained_path)
    nlp("paracetamol reduced diabetes")
    assert "<< paracetamol >> reduced [[ diabetes ]]" not in nlp.vocab.strings


# On the exported encoder


def test_it_finds_and_learns_the_same_on_the_exported_encoder(trained_path, tmp_path, weights):
    nlp = spacy.load(trained_path)
    write_compressed(nlp, tmp_path, "fp32", False)
    compressed = spacy.load(tmp_path)
    assert compressed.get_pipe_meta(ENCODER).factory == ONNX
    texts = [*(text for text, _ in (*ENTITIES, *MARKED)), "Aspirin for cancer. " * 5, "", " "]
    for doc, expected in zip(compressed.pipe(texts), nlp.pipe(texts), strict=True):
        assert facts(doc) == facts(expected)
        assert scores_of(doc) == pytest.approx(scores_of(expected), abs=1e-4)
    examples = make_examples(compressed)
    assert "relations_micro_f" in weighted_scores(compressed, examples)
    before, optimizer = weights(compressed, RELATIONS), AdamW_v1(5e-2)
    first, *_, last = (
        compressed.update(examples, sgd=optimizer, losses={})[RELATIONS] for _ in range(10)
    )
    assert last < first
    assert not np.array_equal(weights(compressed, RELATIONS), before)


# In a workflow


@pytest.mark.slow
def test_the_template_trains_on_marked_sentences_as_they_are_published(tiny_bert, tmp_path):
    lines = [json.dumps({"text": text, "label": label or "false"}) for text, label in MARKED]
    for part, times in (("train", 10), ("dev", 1)):
        (tmp_path / f"{part}.jsonl").write_text("\n".join(lines * times), encoding="utf8")
    corpus = tmp_path / "corpus"
    convert_corpus("own", tmp_path, corpus, format="marked_relations")
    config = fill_config(corpus, encoder=str(tiny_bert), epochs=10, learn_rate=5e-3)
    config["vars"].update(batch_words=40, max_steps=60, eval_frequency=60)
    config.to_disk(tmp_path / "config.cfg")
    pairs = [["DRUG", "DISEASE"]]
    overrides = {"components.biomed_relations.pairs": pairs}
    train(tmp_path / "config.cfg", tmp_path / "training", overrides=overrides)
    nlp = spacy.load(tmp_path / "training" / "model-best")
    assert nlp.meta["performance"]["relations_micro_f"] == 1.0
    doc = nlp("<< Aspirin >> reduced [[ cancer ]]")
    assert [(head.text, tail.text, label) for head, tail, label, _ in doc._.relations] == [
        ("Aspirin", "cancer", "TREATS")
    ]
    assert nlp.get_pipe(RELATIONS).cfg["pairs"] == pairs


@pytest.mark.slow
def test_behind_another_pipeline_it_has_its_own_encoder(make_pipeline, trained_path, tiny_roberta):
    nlp = spacy.load(trained_path)
    other = make_pipeline({TEXTCAT: {}}, encoder=tiny_roberta)
    examples = make_examples(other)
    examples[0].reference.cats = {"A": 1.0}
    other.initialize(lambda: examples)
    add_entities(other)
    expected = {text: other(text).cats for text, _ in (*ENTITIES, *MARKED)}
    other.add_pipe(ENCODER, name="relation_encoder", source=nlp)
    other.add_pipe(RELATIONS, source=nlp)
    for doc in other.pipe(expected):
        assert facts(doc) == facts(nlp(doc.text))
        assert scores_of(doc) == pytest.approx(scores_of(nlp(doc.text)), abs=1e-5)
        assert doc.cats == pytest.approx(expected[doc.text], abs=1e-5)


# Several components


def test_a_component_of_another_name_has_it_in_its_scores(make_pipeline):
    nlp = make_pipeline({"biomed_relations-drugs": {}})
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    scores = nlp.evaluate(examples)
    name = "relations_biomed_relations-drugs_"
    assert {f"{name}micro_f", f"{name}micro_p", f"{name}micro_r", f"{name}per_type"} <= set(scores)
    assert "relations_micro_f" not in scores


def test_two_components_with_the_same_labels_keep_what_each_has_found(make_pipeline):
    nlp = make_pipeline({RELATIONS: {}, "biomed_relations-group": {"spans_key": "group"}})
    examples = [make_example(nlp, *one) for one in ENTITIES]
    for example in examples:
        example.reference.spans["group"] = example.reference.ents
    nlp.initialize(lambda: examples)
    first, second = (nlp.get_pipe(name) for name in (RELATIONS, "biomed_relations-group"))
    set_scores(first, [9.0, 0.0, 0.0])
    set_scores(second, [0.0, 9.0, 0.0])
    doc, gold = (
        annotate(nlp.make_doc("Aspirin cancer diabetes"), [(0, 1, "CAUSES")]) for _ in "ab"
    )
    doc.spans["group"] = [Span(doc, 0, 1, label="DRUG"), Span(doc, 2, 3, label="DISEASE")]
    doc.ents = doc.ents[:2]
    doc = Doc(nlp.vocab).from_bytes(nlp(doc).to_bytes())
    for _ in range(2):  # in place of what each has found before
        doc = nlp(doc)
        assert [(one.tail.text, one.label) for one in doc._.relations] == [
            ("cancer", "CAUSES"),
            ("diabetes", "TREATS"),
        ]
    assert first.score([Example(doc, gold)])["relations_micro_f"] == 1.0
    assert second.score([Example(doc, gold)])["relations_biomed_relations-group_micro_f"] == 0.0
    assert first.tally([Example(doc, gold)]) == [{"CAUSES": [1.0, 0.0, 0.0]}]
    assert second.tally([Example(doc, gold)])[0]["TREATS"] == [0.0, 1.0, 0.0]


# Scores


LABELS = ["A", "B", "C"]
SCORED = "w x y z"


def scored(predicted, gold, labels=LABELS, text=SCORED, **settings):
    """Relations as head, tail (places of words) and label; gold None is not annotated."""
    vocab = spacy.blank("en").vocab
    docs = []
    for relations in (predicted, gold):
        doc = Doc(vocab, words=text.split(" "))
        docs.append(doc)
        if relations is not None:
            doc._.relations = [
                SpanRelation(
                    Span(doc, head, head + 1, label=types[0] if types else "T"),
                    Span(doc, tail, tail + 1, label=types[1] if types else "T"),
                    label,
                )
                for head, tail, label, *types in relations
            ]
    return score_relations([Example(*docs)], labels=labels, **settings)


def test_scores_are_those_of_scikit_learn():
    """A class for each pair and label, and negatives without a class."""
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
    gold, predicted = rng.integers(4, size=(2, len(pairs)))
    predicted = np.where(rng.random(len(pairs)) < 0.6, gold, predicted)

    def related(classes):
        return [
            (*pair, LABELS[i]) for pair, i in zip(pairs, classes.tolist(), strict=True) if i < 3
        ]

    scores = scored(related(predicted), related(gold), text=" ".join("abcdefghijkl"))
    expected = precision_recall_fscore_support(gold, predicted, labels=range(3), average="micro")
    for name, value in zip("prf", expected[:3], strict=True):
        assert scores[f"relations_micro_{name}"] == pytest.approx(value)
    macro = precision_recall_fscore_support(gold, predicted, labels=range(3), average="macro")
    for name, value in zip("prf", macro[:3], strict=True):
        assert scores[f"relations_macro_{name}"] == pytest.approx(value)
    per_class = precision_recall_fscore_support(gold, predicted, labels=range(3))[:3]
    for label, *values in zip(LABELS, *per_class, strict=True):
        own = scores["relations_per_type"][label]
        assert [own[name] for name in "prf"] == pytest.approx(values)


def test_scores_of_pairs_with_several_labels_are_those_of_scikit_learn():
    """As in DDI and ChemProt: a row for each pair and a column for each label."""
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
    gold = rng.random((len(pairs), 3)) < 0.3
    predicted = np.where(rng.random(gold.shape) < 0.7, gold, ~gold)
    assert (gold.sum(axis=1) > 1).any() and (predicted.sum(axis=1) > 1).any()

    def related(classes):
        return [(*pairs[row], LABELS[column]) for row, column in np.argwhere(classes).tolist()]

    scores = scored(related(predicted), related(gold), text=" ".join("abcdefghijkl"))
    for average in ("micro", "macro"):
        expected = precision_recall_fscore_support(gold, predicted, average=average)
        for name, value in zip("prf", expected[:3], strict=True):
            assert scores[f"relations_{average}_{name}"] == pytest.approx(value)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("steps", [4, 8, 12])
def test_scores_of_a_models_predictions_are_those_of_scikit_learn(make_pipeline, steps):
    nlp = trained(make_pipeline, steps=steps)
    examples = make_examples(nlp)
    scores = nlp.evaluate(examples)
    labels = nlp.get_pipe(RELATIONS).labels
    rows = []
    for example in examples:
        marked = find_marked_arguments(example.text) is not None
        facts = [
            {
                (None if marked else (one.head.start_char, one.tail.start_char), one.label)
                for one in doc._.relations
            }
            for doc in (example.reference, nlp(example.text))
        ]
        places = {place for found in facts for place, _ in found}
        rows += [
            [[(place, name) in found for name in labels] for found in facts] for place in places
        ]
    gold, predicted = np.array(rows).transpose(1, 0, 2)
    assert gold.any() and predicted.any()
    occur = np.flatnonzero((gold | predicted).any(axis=0))
    for average in ("micro", "macro"):
        expected = precision_recall_fscore_support(
            gold, predicted, average=average, labels=occur, zero_division=0
        )
        for name, value in zip("prf", expected[:3], strict=True):
            assert scores[f"relations_{average}_{name}"] == pytest.approx(value)


def test_the_macro_average_is_over_the_types_that_occur():
    # A: one of two found, F1 2/3. B: only predicted, 0. C: neither, left out.
    scores = scored([(0, 1, "A"), (1, 2, "B")], [(0, 1, "A"), (2, 3, "A")])
    assert scores["relations_macro_p"] == pytest.approx((1 + 0) / 2)
    assert scores["relations_macro_r"] == pytest.approx((1 / 2 + 0) / 2)
    assert scores["relations_macro_f"] == pytest.approx((2 / 3 + 0) / 2)
    assert scored([], [])["relations_macro_f"] == 0.0


@pytest.mark.parametrize(
    "predicted",
    [(0, 2, "A"), (0, 1, "B"), (1, 0, "A"), (0, 1, "A", "T", "U"), (0, 1, "A", "U", "T")],
    ids=["other word", "other label", "other direction", "other tail type", "other head type"],
)
def test_a_relation_that_differs_in_anything_is_wrong(predicted):
    scores = scored([predicted, (2, 3, "C")], [(0, 1, "A"), (2, 3, "C")])
    assert scores["relations_micro_p"] == scores["relations_micro_r"] == 0.5


def test_direction_counts_only_where_there_is_one():
    assert scored([(1, 0, "A")], [(0, 1, "A")])["relations_micro_f"] == 0.0
    assert scored([(1, 0, "A")], [(0, 1, "A")], directed=False)["relations_micro_f"] == 1.0


def test_a_relation_of_entities_that_were_not_found_is_missed(trained_path):
    nlp = spacy.load(trained_path)
    examples = [make_example(nlp, *one) for one in ENTITIES]
    assert nlp.evaluate(examples)["relations_micro_r"] == 1.0
    nlp.disable_pipe(RULER)
    scores = nlp.evaluate([make_example(nlp, *one) for one in ENTITIES])
    assert scores["relations_micro_r"] == 0.0
    assert scores["relations_per_type"]["TREATS"] == {"p": 0.0, "r": 0.0, "f": 0.0}


def test_only_annotated_documents_and_own_predictions_are_scored():
    assert set(scored([(0, 1, "A")], None).values()) == {None}
    scores = scored([(0, 1, "A"), (0, 1, "X")], [(0, 1, "A")])
    assert scores["relations_micro_p"] == 1.0
    scores = scored([], [(0, 1, "X")])
    assert scores["relations_micro_r"] == 0.0
    assert set(scores["relations_per_type"]) == {*LABELS, "X"}
    assert scored(None, [(0, 1, "A")])["relations_micro_r"] == 0.0  # the component is disabled


def test_of_a_text_that_shows_its_arguments_the_label_alone_counts():
    text = "<< a >> in [[ b ]]"
    scores = scored([(1, 5, "A", "", "")], [(0, 2, "A", "X", "Y")], text=text)
    assert scores["relations_micro_f"] == 1.0
    assert scored([(1, 5, "A")], [(1, 5, "B")], text=text)["relations_micro_f"] == 0.0


def test_the_scorer_is_registered():
    assert relation_scorer_v1() is score_relations
    assert spacy.registry.scorers.get("spacy_biomed.relation_scorer.v1") is relation_scorer_v1


def test_scores_survive_the_corpus(trained_path, tmp_path):
    nlp = spacy.load(trained_path)
    docs = [example.reference for example in make_examples(nlp)]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "dev.spacy")
    read = DocBin().from_disk(tmp_path / "dev.spacy").get_docs(nlp.vocab)
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in read]
    assert nlp.evaluate(examples)["relations_micro_f"] == 1.0
