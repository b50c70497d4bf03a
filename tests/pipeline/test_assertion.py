"""The head of assertions: windows, gradients, partial annotation, training, scores, layers."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from head_corpora import write_corpora
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.training.initialize import init_nlp
from thinc.api import set_dropout_rate
from without_training import WITHOUT_TRAINING, run_code

from spacy_biomed.annotations.assertions import (
    copy_assertions,
    get_assertions,
    list_assertions,
    set_assertions,
)
from spacy_biomed.annotations.layer_copies import copy_bare, copy_entities
from spacy_biomed.errors import BiomedError
from spacy_biomed.models.span_classifiers import MentionClassifier_v1
from spacy_biomed.packaging.compression import compress_pipeline
from spacy_biomed.packaging.copies import calibrate_pipeline
from spacy_biomed.pipeline import calibrate
from spacy_biomed.pipeline.assertion import find_windows, score_assertions
from spacy_biomed.pipeline.component_classes import list_annotation_keys
from spacy_biomed.training.multitask import MultiTaskCorpus_v1
from spacy_biomed.training.multitask_config import create_multitask_config
from spacy_biomed.training.optimizer import AdamW_v1
from spacy_biomed.training.updating import create_update

NAME, ENCODER = "biomed_assertion", "biomed_transformer"
STARTER = Path(__file__).parents[2] / "assets/encoders/starter-en"
NAMES = ("asthma", "fever", "stroke", "cancer", "anaemia", "sepsis")
# What is said of the disease: a flag for each of three assertions.
SENTENCES = {
    "No evidence of {} today.": (1, 0, 0),
    "The patient denies {} and is well.": (1, 0, 0),
    "Possible {} on this scan.": (0, 1, 0),
    "Suspected {} in this patient.": (0, 1, 0),
    "Her mother had {} at sixty.": (0, 0, 1),
    "The father died of {}.": (0, 0, 1),
    "Severe {} was treated.": (0, 0, 0),
    "Admitted with {}.": (0, 0, 0),
}
LABELS = ("is_negated", "is_uncertain", "is_family")
ENGLISH = spacy.blank("en")


def make_doc(text, disease, vocab=None, **assertions):
    """A document with one entity, and what is said of it."""
    blank = ENGLISH.make_doc(text)
    words, spaces = [token.text for token in blank], [bool(token.whitespace_) for token in blank]
    doc = Doc(vocab or ENGLISH.vocab, words=words, spaces=spaces)
    start = text.index(disease)
    doc.ents = [doc.char_span(start, start + len(disease), "DISEASE")]
    if assertions:
        set_assertions(doc.ents[0], assertions)
    return doc


def make_examples(nlp, names):
    """An example of each sentence with each name, whose predicted document has the entity."""
    examples = []
    for name in names:
        for sentence, flags in SENTENCES.items():
            values = dict(zip(LABELS, map(float, flags), strict=True))
            gold = make_doc(sentence.format(name), name, nlp.vocab, **values)
            predicted = nlp.make_doc(gold.text)
            copy_entities(gold, predicted)
            examples.append(Example(predicted, gold))
    return examples


def create_pipeline(encoder, **config):
    nlp = spacy.blank("en")
    model = {"name": str(encoder), "precision": "fp32"}
    nlp.add_pipe(ENCODER, config={"model": model})
    nlp.add_pipe(NAME, config=config)
    return nlp


@pytest.fixture(scope="module")
def trained():
    """A pipeline that has learned from four of the names; tests do not change it."""
    spacy.util.fix_random_seed(0)
    nlp = create_pipeline(STARTER, learn_rate_factor=3.0)
    optimizer = AdamW_v1(0.0002)
    nlp.initialize(lambda: make_examples(nlp, NAMES[:4]), sgd=optimizer)
    for _ in range(8):
        nlp.update(make_examples(nlp, NAMES[:4]), sgd=optimizer)
    return nlp


def test_windows_end_with_the_sentence_and_the_document():
    words = ["a", "b", "c", ".", "d", "e", "f", "g", "h"]
    doc = Doc(spacy.blank("en").vocab, words=words, sent_starts=[i in (0, 4) for i in range(9)])
    spans = [Span(doc, 0, 1), Span(doc, 4, 6), Span(doc, 2, 4), Span(doc, 7, 9)]
    own, before, after = find_windows(doc, spans, 2).tolist()
    assert own == [[0, 1], [4, 6], [2, 4], [7, 9]]
    assert before == [[0, 0], [4, 4], [0, 2], [5, 7]]
    assert after == [[1, 3], [6, 8], [4, 4], [9, 9]]
    bare = Doc(doc.vocab, words=words)
    assert find_windows(bare, [Span(bare, 4, 6)], 3)[1:].tolist() == [[[1, 4]], [[6, 9]]]
    assert find_windows(bare, [], 3).shape == (3, 0, 2)


def test_new_names_are_judged_by_what_is_said_of_them(trained):
    scores = trained.evaluate(make_examples(trained, NAMES[4:]))
    assert scores["assertion_micro_f"] == 1.0
    assert {name: one["f"] for name, one in scores["assertion_per_type"].items()} == dict.fromkeys(
        LABELS, 1.0
    )
    assert trained.get_pipe(NAME).labels == LABELS


def test_what_is_written_is_what_the_rules_write(trained):
    doc = trained.make_doc("No evidence of sepsis today.")
    doc.ents = [Span(doc, 3, 4, "DISEASE")]
    set_assertions(doc.ents[0], {"is_historical": 0.9, "is_negated": 0.0})
    (ent,) = trained(doc).ents
    assert (ent._.is_negated, ent._.is_uncertain, ent._.is_hypothetical) == (True, False, None)
    assert ent._.is_historical is True  # of another component
    assert 0.5 < ent._.assertion_probabilities["is_negated"] <= 1.0


def test_rules_before_it_have_a_share(trained, monkeypatch):
    doc = trained.make_doc("No evidence of sepsis today.")
    doc.ents = [Span(doc, 3, 4, "DISEASE")]
    own = trained(doc.copy()).ents[0]._.assertion_probabilities
    set_assertions(doc.ents[0], {"is_negated": 0.2})
    monkeypatch.setitem(trained.get_pipe(NAME).cfg, "rules_share", 0.75)
    both = trained(doc).ents[0]._.assertion_probabilities
    assert both["is_negated"] == pytest.approx(0.75 * 0.2 + 0.25 * own["is_negated"])
    assert both["is_family"] == pytest.approx(own["is_family"])  # which no rule has set


def test_it_is_compressed_to_the_same_probabilities(trained, tmp_path):
    trained.to_disk(tmp_path / "trained")
    compress_pipeline(str(tmp_path / "trained"), tmp_path / "onnx", precision="fp32")
    compressed = spacy.load(tmp_path / "onnx")
    for first, second in zip(
        *(make_examples(nlp, NAMES[:1]) for nlp in (trained, compressed)), strict=True
    ):
        (one,), (other,) = trained(first.predicted).ents, compressed(second.predicted).ents
        assert other._.assertion_probabilities == pytest.approx(
            one._.assertion_probabilities, abs=1e-3
        )


@pytest.mark.slow
def test_it_is_compressed_to_int8_and_runs_without_torch(trained, tmp_path):
    trained.to_disk(tmp_path / "trained")
    compress_pipeline(str(tmp_path / "trained"), tmp_path / "onnx", precision="int8")
    printed = run_code(
        WITHOUT_TRAINING
        + f"""
from spacy.tokens import Span
nlp = spacy.load({str(tmp_path / "onnx")!r})
for text, start in (("No evidence of sepsis today.", 3), ("Possible sepsis on this scan.", 1)):
    doc = nlp.make_doc(text)
    doc.ents = [Span(doc, start, start + 1, "DISEASE")]
    ent = nlp(doc).ents[0]
    print(ent._.is_negated, ent._.is_uncertain, ent._.is_family)
assert "torch" not in sys.modules
"""
    )
    assert printed.splitlines() == ["True False False", "False True False"]


def half_wrong(nlp, times):
    """Examples of which half have a negation in the text, but not in the gold annotation."""
    examples = [one for _ in range(times) for one in make_examples(nlp, NAMES[4:])]
    for number, example in enumerate(examples):
        ((start, end, said),) = list_assertions(example.reference)
        span = example.reference.char_span(start, end)
        if number % len(SENTENCES) == 0:
            set_assertions(span, {**said, "is_negated": 0.0})
    return examples


def read_negation(nlp):
    doc = make_doc("No evidence of sepsis today.", "sepsis", nlp.vocab)
    return nlp(doc).ents[0]._.assertion_probabilities["is_negated"]


@pytest.mark.slow
def test_its_probabilities_are_calibrated_until_it_learns_again(trained, tmp_path):
    trained.to_disk(tmp_path / "trained")
    nlp = spacy.load(tmp_path / "trained")
    head, own = nlp.get_pipe(NAME), read_negation(nlp)
    assert own > 0.9 and not head.is_calibrated
    report = calibrate(nlp, half_wrong(nlp, 15))[NAME]
    assert report.predictions == 15 * 2 * len(SENTENCES) * len(LABELS)
    assert report.own_curves == list(LABELS)
    # One of the two sentences with a negation is right; a temperature changes no side of 0.5.
    assert 0.5 < read_negation(nlp) < own - 0.05
    nlp.to_disk(tmp_path / "calibrated")
    assert read_negation(spacy.load(tmp_path / "calibrated")) == read_negation(nlp)
    nlp.update(make_examples(nlp, NAMES[:1]), sgd=AdamW_v1(1e-9))
    assert not head.is_calibrated
    assert read_negation(nlp) == pytest.approx(own, abs=0.01)


def test_a_calibrated_copy_is_written_and_settings_for_entities_are_refused(trained, tmp_path):
    trained.to_disk(tmp_path / "trained")
    references = [example.reference for example in half_wrong(trained, 15)]
    DocBin(docs=references, store_user_data=True).to_disk(tmp_path / "dev.spacy")
    arguments = str(tmp_path / "trained"), tmp_path / "calibrated"
    with pytest.raises(BiomedError, match="are for the mentions of a biomed_ner"):
        calibrate_pipeline(*arguments, dev=tmp_path / "dev.spacy", target_recall={"*": 0.9})
    assert not (tmp_path / "calibrated").exists()
    assert list(calibrate_pipeline(*arguments, dev=tmp_path / "dev.spacy")) == [NAME]
    assert read_negation(spacy.load(tmp_path / "calibrated")) < read_negation(trained) - 0.05


def test_a_training_that_goes_on_keeps_what_it_knows(trained, tmp_path):
    trained.to_disk(tmp_path / "trained")
    calibrated = spacy.load(tmp_path / "trained")
    calibrate(calibrated, make_examples(calibrated, NAMES))
    calibrated.to_disk(tmp_path / "trained")
    (corpus,) = write_corpora(tmp_path / "corpora", ["assertion"])
    update = create_update(corpus, source=str(tmp_path / "trained"))
    nlp = init_nlp(update.config)
    assert update.config["training"]["frozen_components"] == []
    assert nlp.get_pipe(NAME).labels == LABELS and not nlp.get_pipe(NAME).is_calibrated
    assert read_negation(nlp) == pytest.approx(read_negation(trained), abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "looked_at"),
    [
        ({}, ["asthma", "aspirin"]),
        ({"entity_labels": ["DISEASE"]}, ["asthma"]),
        ({"spans_key": "sc"}, ["asthma for", "for"]),
    ],
)
def test_the_entities_to_look_at_are_chosen(tiny_bert, settings, looked_at):
    nlp = create_pipeline(tiny_bert, **settings)
    nlp.initialize(lambda: make_examples(nlp, NAMES[:1]))
    doc = nlp.make_doc("aspirin helps asthma for now")
    doc.ents = [Span(doc, 2, 3, "DISEASE"), Span(doc, 0, 1, "DRUG")]
    doc.spans["sc"] = [Span(doc, 2, 4, "DISEASE"), Span(doc, 3, 4, "OTHER")]
    found = {doc.text[start:end] for start, end, _ in list_assertions(nlp(doc))}
    assert found == set(looked_at)


def test_what_is_not_annotated_gives_no_gradient(tiny_bert):
    nlp = create_pipeline(tiny_bert)
    nlp.initialize(lambda: make_examples(nlp, NAMES[:1]))
    head = nlp.get_pipe(NAME)
    partial = [
        make_doc("No asthma.", "asthma", nlp.vocab, is_negated=1.0),
        make_doc("No fever.", "fever", nlp.vocab),
    ]
    spans, targets = head._gold([Example(nlp.make_doc(doc.text), doc) for doc in partial])
    assert [[span.text for span in of_doc] for of_doc in spans] == [["asthma"], []]
    np.testing.assert_array_equal(targets, [[1.0, np.nan, np.nan]])
    before = head.model.get_ref("output").get_param("b").copy()
    nlp.update([Example(nlp.make_doc(partial[0].text), partial[0])], sgd=AdamW_v1(0.01))
    changed = head.model.get_ref("output").get_param("b") != before
    assert changed.tolist() == [True, False, False]


def test_the_gradient_is_that_of_the_loss(tiny_bert):
    nlp = create_pipeline(tiny_bert)
    nlp.initialize(lambda: make_examples(nlp, NAMES[:1]))
    head, rng = nlp.get_pipe(NAME), np.random.default_rng(0)
    model = head.model
    rows = rng.normal(size=(7, model.get_ref("tok2vec").get_dim("nO"))).astype("float32")
    gradients = []
    listener = model.layers[0]
    listener._func = lambda layer, docs, is_train: ([rows], gradients.extend)
    doc = nlp.make_doc("No sign of asthma or fever .")
    places = head._place([doc], [[doc[3:4], doc[5:6]]])
    weights = rng.normal(size=(2, 3)).astype("float32")
    set_dropout_rate(model, 0.0)
    _, backprop = model(places, is_train=True)
    backprop(weights)
    for row in (0, 3, 6):  # before, in and after a mention
        step = np.zeros_like(rows)
        step[row] = 1e-3 * gradients[-1][row] / np.linalg.norm(gradients[-1][row])
        rows += step
        above = float((model.predict(places) * weights).sum())
        rows -= 2 * step
        below = float((model.predict(places) * weights).sum())
        rows += step
        slope = float((gradients[-1] * step).sum())
        assert slope == pytest.approx((above - below) / 2, rel=0.02)


def test_scores_count_annotated_places_alone():
    gold = make_doc("No fever, asthma, sepsis.", "fever", is_negated=1.0, is_family=0.0)
    set_assertions(gold[3:4], {"is_negated": 1.0})
    predicted = make_doc(gold.text, "fever", is_negated=0.8, is_family=0.9, is_uncertain=0.9)
    set_assertions(predicted[5:6], {"is_negated": 1.0})  # no place of the reference
    scores = score_assertions([Example(predicted, gold)], labels=LABELS)
    assert scores["assertion_micro_p"] == scores["assertion_micro_r"] == 0.5
    assert scores["assertion_per_type"]["is_negated"] == {
        **{"p": 1.0, "r": 0.5},
        "f": pytest.approx(2 / 3),
    }
    empty = Example(predicted, copy_bare(gold, list_annotation_keys()))
    assert set(score_assertions([empty], labels=LABELS).values()) == {None}


def test_gold_survives_a_corpus_and_is_no_part_of_a_bare_copy():
    gold = make_doc("No fever.", "fever", is_negated=1.0)
    (doc,) = DocBin(docs=[gold], store_user_data=True).get_docs(gold.vocab)
    assert [*list_assertions(doc)] == [(3, 8, {"is_negated": 1.0})]
    bare = copy_bare(doc, list_annotation_keys())
    assert [*list_assertions(bare)] == []
    assert copy_assertions(doc, bare) and get_assertions(bare[1:2]) == {"is_negated": True}
    assert not copy_assertions(copy_bare(doc, list_annotation_keys()), bare)


def test_in_multi_task_training_it_comes_last_and_gets_the_entities(tmp_path, tiny_bert):
    folders = write_corpora(tmp_path / "corpora", ["assertion", "ner"])
    config, _ = create_multitask_config(folders, encoder=str(tiny_bert))
    assert config["nlp"]["pipeline"] == [ENCODER, "ner", "assertion"]
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    corpus = MultiTaskCorpus_v1({"assertion": folders[0] / "train.spacy"})
    for _ in range(3):  # which keeps it in memory
        (first, *_) = corpus(nlp)
        assert [ent.text for ent in first.predicted.ents] == ["Aspirin", "stroke"]
        assert [*list_assertions(first.predicted)] == []
        assert not first.reference.ents and [*list_assertions(first.reference)]


def test_bad_settings_and_values_are_one_line(tiny_bert):
    nlp = spacy.blank("en")
    with pytest.raises(BiomedError, match=r"\[components.biomed_assertion\] window = -1: use 0"):
        nlp.add_pipe(NAME, config={"window": -1})
    with pytest.raises(BiomedError, match="rules_share = 2.0: use a number from 0 to 1"):
        nlp.add_pipe(NAME, config={"rules_share": 2.0})
    nlp = create_pipeline(tiny_bert)
    with pytest.raises(BiomedError, match="labels = 'negated'"):
        nlp.get_pipe(NAME).add_label("negated")
    bare = Example(nlp.make_doc("No fever."), make_doc("No fever.", "fever", nlp.vocab))
    with pytest.raises(BiomedError, match="no assertion for 'biomed_assertion' to learn"):
        nlp.initialize(lambda: [bare])
    gold = make_doc("No fever.", "fever", nlp.vocab, is_negated=2.0)
    with pytest.raises(BiomedError, match="'is_negated' of a mention in 'No fever.' is 2: use"):
        nlp.initialize(lambda: [Example(nlp.make_doc(gold.text), gold)])
    listener = spacy.registry.architectures.get("spacy_biomed.EncoderListener.v1")("cls")
    with pytest.raises(BiomedError, match="pooling = 'cls'.*use first or mean"):
        MentionClassifier_v1(listener)
