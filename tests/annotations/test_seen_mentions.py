"""Spans of an evaluation text that are mentions in the training part."""

import json

import pytest
import spacy
from spacy.tokens import DocBin, Span
from spacy.training import Example

from spacy_biomed.annotations.seen_mentions import SEEN_KEY, SeenMentions
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.pipeline.ner import score_mentions


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


def doc_with(nlp, text, mentions, spans_key=None):
    """A document whose mentions are given as (string, label)."""
    doc = nlp.make_doc(text)
    spans = [
        doc.char_span(text.index(string), text.index(string) + len(string), label=label)
        for string, label in mentions
    ]
    if spans_key is None:
        doc.set_ents(spans, default="outside")
    else:
        doc.spans[spans_key] = spans
    return doc


def marked(doc):
    return sorted((span.text, span.label_) for span in doc.spans[SEEN_KEY])


def test_a_span_is_seen_where_its_lower_cased_text_is_a_training_mention(nlp):
    seen = SeenMentions(nlp.vocab)
    seen.learn(doc_with(nlp, "Lung cancer and aspirin", [("Lung cancer", "D"), ("aspirin", "C")]))
    doc = doc_with(nlp, "Aspirin for lung CANCER, not cancer of the lung", [("CANCER", "D")])
    seen.mark(doc)
    assert marked(doc) == [("Aspirin", "C"), ("lung CANCER", "D")]


def test_spans_that_are_no_gold_mention_are_marked_too(nlp):
    seen = SeenMentions(nlp.vocab)
    seen.learn(doc_with(nlp, "aspirin", [("aspirin", "C")]))
    doc = doc_with(nlp, "aspirin given", [])
    seen.mark(doc)
    assert marked(doc) == [("aspirin", "C")]


def test_a_text_that_has_two_labels_in_training_is_marked_with_both(nlp):
    seen = SeenMentions(nlp.vocab)
    seen.learn(doc_with(nlp, "insulin", [("insulin", "CHEMICAL")]))
    seen.learn(doc_with(nlp, "insulin", [("insulin", "GENE")]))
    doc = doc_with(nlp, "insulin", [("insulin", "GENE")])
    seen.mark(doc)
    assert marked(doc) == [("insulin", "CHEMICAL"), ("insulin", "GENE")]


def test_nothing_learned_marks_nothing(nlp):
    doc = doc_with(nlp, "aspirin", [("aspirin", "C")])
    SeenMentions(nlp.vocab).mark(doc)
    assert marked(doc) == []


def test_mentions_of_a_span_group_are_learned_and_marked(nlp):
    seen = SeenMentions(nlp.vocab, "layer")
    seen.learn(doc_with(nlp, "lung cancer", [("lung cancer", "D"), ("cancer", "D")], "layer"))
    doc = doc_with(nlp, "Cancer", [], "layer")
    seen.mark(doc)
    assert marked(doc) == [("Cancer", "D")]


@pytest.mark.parametrize("spans_key", [None, "layer"])
def test_a_document_without_the_layer_is_not_marked(nlp, spans_key):
    doc = nlp.make_doc("aspirin")
    SeenMentions(nlp.vocab, spans_key).mark(doc)
    assert SEEN_KEY not in doc.spans


def test_scores_of_unseen_mentions_counted_by_hand(nlp):
    seen = SeenMentions(nlp.vocab)
    seen.learn(doc_with(nlp, "aspirin", [("aspirin", "C")]))
    text = "Aspirin or heparin or insulin for stroke and gout"
    gold = doc_with(
        nlp, text, [("Aspirin", "C"), ("heparin", "C"), ("insulin", "C"), ("stroke", "D")]
    )
    seen.mark(gold)
    predicted = nlp.make_doc(text)
    # Found: Aspirin (seen), heparin. Wrong: gout. Missed: insulin, stroke.
    predicted.set_ents(
        [Span(predicted, i, i + 1, label) for i, label in ((0, "C"), (2, "C"), (8, "D"))]
    )
    scores = score_mentions([Example(predicted, gold)])
    assert scores["ents_p"] == pytest.approx(2 / 3)
    assert scores["ents_r"] == pytest.approx(2 / 4)
    assert scores["spans_unseen_p"] == pytest.approx(1 / 2)
    assert scores["spans_unseen_r"] == pytest.approx(1 / 3)
    assert scores["spans_unseen_f"] == pytest.approx(2 / 5)
    assert scores["spans_unseen_per_type"]["C"]["r"] == pytest.approx(1 / 2)


def test_convert_marks_dev_and_test_but_not_train(tmp_path, nlp):
    parts = {
        "train": "Lung\tB-D\ncancer\tI-D\n\n",
        "dev": "lung\tO\ncancer\tO\nand\tO\ngout\tB-D\n\n",
        "test": "Gout\tB-D\n\nLUNG\tB-D\nCANCER\tI-D\n\n",
    }
    (tmp_path / "in").mkdir()
    for part, lines in parts.items():
        (tmp_path / "in" / f"{part}.tsv").write_text(lines)
    convert_corpus("own", tmp_path / "in", tmp_path / "out", format="columns")
    docs = {
        part: list(DocBin().from_disk(tmp_path / "out" / f"{part}.spacy").get_docs(nlp.vocab))
        for part in parts
    }
    assert all(SEEN_KEY not in doc.spans for doc in docs["train"])
    assert [marked(doc) for doc in docs["dev"]] == [[("lung cancer", "D")]]
    assert [marked(doc) for doc in docs["test"]] == [[], [("LUNG CANCER", "D")]]
    description = json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf8"))
    assert description["unseen_share"] == 0.5


def test_without_a_training_part_nothing_is_called_unseen(tmp_path, nlp):
    (tmp_path / "test.tsv").write_text("Gout\tB-D\n\n")
    paths = {"test": [tmp_path / "test.tsv"]}
    report = convert_corpus("own", tmp_path, tmp_path / "out", format="columns", paths=paths)
    [doc] = DocBin().from_disk(tmp_path / "out" / "test.spacy").get_docs(nlp.vocab)
    assert SEEN_KEY not in doc.spans and report.unseen_share is None
