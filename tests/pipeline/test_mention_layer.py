"""Entities of a low confidence, removed from every layer."""

import spacy
from spacy.tokens import Doc, Span

from spacy_biomed.annotations import SpanRelation
from spacy_biomed.pipeline.mention_layer import install_extensions, keep_confident


def make_doc():
    """Three entities of confidence 0.2, 0.8 and none, and the first two in a group."""
    install_extensions()
    doc = spacy.blank("en")("aspirin for cancer today")
    low, high, unknown = (
        Span(doc, place, place + 1, label=label) for place, label in ((0, "D"), (2, "E"), (3, "F"))
    )
    low._.confidence, high._.confidence = 0.2, 0.8
    doc.set_ents([low, high, unknown])
    doc.spans["layer"] = [low, high]
    doc.spans["layer"].attrs["scores"] = [0.2, 0.8]
    doc.spans["pair"] = [low, high]
    doc._.relations = [SpanRelation(low, high, "R", 0.9), SpanRelation(high, unknown, "R", 0.9)]
    return doc


def test_entities_of_a_lower_confidence_go_with_their_relations():
    doc = make_doc()
    keep_confident(doc, 0.8)
    assert [ent.label_ for ent in doc.ents] == ["E", "F"]
    assert [span.label_ for span in doc.spans["layer"]] == ["E"]
    assert doc.spans["layer"].attrs["scores"] == [0.8]
    assert len(doc.spans["pair"]) == 2  # texts, no entities
    assert [(one.head.text, one.tail.text) for one in doc._.relations] == [("cancer", "today")]


def test_with_the_lowest_confidence_everything_stays():
    doc = make_doc()
    keep_confident(doc, 0.0)
    assert (len(doc.ents), len(doc.spans["layer"]), len(doc._.relations)) == (3, 2, 2)


def test_confidences_are_written_to_json_and_read_from_it():
    doc = make_doc()
    read = Doc(doc.vocab).from_json(doc.to_json(underscore=["confidence"]))
    assert [ent._.confidence for ent in read.ents] == [0.2, 0.8, None]
