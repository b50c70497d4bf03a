import pytest
import spacy
from spacy.tokens import Span

from spacy_biomed import BiomedError


@pytest.fixture
def nlp():
    return spacy.blank("en")


def annotate(nlp, text, *mentions, **settings):
    """Add mentions to a text, each a substring, a label and a probability, and let them agree.

    A substring stands for its first occurrence that is not a mention yet.
    """
    consistency = nlp.add_pipe("biomed_consistency", config=settings)
    doc = nlp.make_doc(text)
    spans, taken = [], set()
    for wanted, label, confidence in mentions:
        start = next(
            start
            for start in range(len(text))
            if text.startswith(wanted, start) and start not in taken
        )
        taken.add(start)
        place = doc.char_span(start, start + len(wanted))
        span = Span(doc, place.start, place.end, label=label)
        span._.confidence = confidence
        spans.append(span)
    key = settings.get("spans_key")
    if key is None:
        doc.set_ents(spans)
    else:
        doc.spans[key] = spans
    doc = consistency(doc)
    return doc, [(span.text, span.label_) for span in (doc.spans[key] if key else doc.ents)]


def test_an_abbreviation_gets_the_label_of_its_long_form(nlp):
    text = "A transient ischemic attack (TIA) was seen. The TIA passed; TIA-like signs."
    doc, found = annotate(
        nlp, text, ("transient ischemic attack", "DISEASE", 0.9), ("TIA", "CHEMICAL", 0.6)
    )
    assert found[:3] == [
        ("transient ischemic attack", "DISEASE"),
        ("TIA", "DISEASE"),
        ("TIA", "DISEASE"),
    ]
    assert [ent._.confidence for ent in doc.ents][:3] == [0.9, 0.9, 0.9]


def test_a_mention_may_be_only_the_end_of_the_long_form(nlp):
    text = "A severe ischemic attack (SIA) was seen."
    _, found = annotate(nlp, text, ("ischemic attack", "DISEASE", 0.9))
    assert ("SIA", "DISEASE") in found


def test_an_abbreviation_of_what_is_no_mention_stays_as_it_is(nlp):
    text = "The primary care evaluation (PCE) was done."
    _, found = annotate(nlp, text, ("PCE", "DISEASE", 0.6))
    assert found == [("PCE", "DISEASE")]


def test_an_abbreviation_inside_a_longer_mention_stays_there(nlp):
    text = "Lactoferrin (LF) and the LF receptor bind."
    _, found = annotate(nlp, text, ("Lactoferrin", "GENE", 0.9), ("LF receptor", "GENE", 0.8))
    assert found == [("Lactoferrin", "GENE"), ("LF", "GENE"), ("LF receptor", "GENE")]


def test_mentions_with_the_same_words_get_the_label_of_the_highest_sum(nlp):
    text = "SAL was given. SAL helped. SAL"
    doc, found = annotate(
        nlp, text, ("SAL", "GENE", 0.8), ("SAL", "CHEMICAL", 0.5), ("SAL", "CHEMICAL", 0.6)
    )
    assert found == [("SAL", "CHEMICAL")] * 3
    assert [ent._.confidence for ent in doc.ents] == [0.6, 0.5, 0.6]


def test_a_species_with_abbreviated_genus_gets_the_label_of_the_whole_name(nlp):
    text = "Solidago virgaurea grows. Extracts of S. virgaurea helped."
    _, found = annotate(nlp, text, ("Solidago virgaurea", "SPECIES", 0.9))
    assert found == [("Solidago virgaurea", "SPECIES"), ("S. virgaurea", "SPECIES")]


def test_a_probable_mention_is_found_again(nlp):
    text = "Hippocalcin binds. We measured Hippocalcin and Hippocalcin."
    _, found = annotate(nlp, text, ("Hippocalcin", "GENE", 0.8))
    assert found == [("Hippocalcin", "GENE")] * 3


@pytest.mark.parametrize(
    ("confidence", "settings", "count"),
    [
        (0.6, {}, 1),
        (0.6, {"least_confidence": 0.5}, 3),
        (0.8, {"least_share": 0.5}, 1),
        (None, {}, 3),
    ],
)
def test_repeating_needs_probability_and_a_share_of_the_places(nlp, confidence, settings, count):
    text = "Hippocalcin binds. We measured Hippocalcin and Hippocalcin."
    doc, found = annotate(nlp, text, ("Hippocalcin", "GENE", confidence), **settings)
    assert len(found) == count
    assert {ent._.confidence for ent in doc.ents} == {confidence}


def test_short_texts_are_not_repeated(nlp):
    assert annotate(nlp, "Ca rose. Ca fell.", ("Ca", "CHEMICAL", 1.0))[1] == [("Ca", "CHEMICAL")]


def test_words_inside_other_words_or_mentions_are_not_repeated(nlp):
    text = "Insulin and proinsulin; the Insulin receptor."
    _, found = annotate(
        nlp, text, ("Insulin", "GENE", 0.9), ("Insulin receptor", "GENE", 0.9), least_share=0.0
    )
    assert found == [("Insulin", "GENE"), ("Insulin receptor", "GENE")]


def test_a_span_group_keeps_its_scores(nlp):
    text = "Hippocalcin binds Hippocalcin."
    doc, found = annotate(nlp, text, ("Hippocalcin", "GENE", 0.8), spans_key="genes")
    assert found == [("Hippocalcin", "GENE")] * 2
    assert doc.spans["genes"].attrs["scores"] == [0.8, 0.8]
    assert not doc.ents


def test_a_document_without_mentions_does_not_change(nlp):
    doc = nlp.make_doc("Nothing (N) here.")
    nlp.add_pipe("biomed_consistency")(doc)
    assert not doc.has_annotation("ENT_IOB")


@pytest.mark.parametrize("setting", ["least_confidence", "least_share"])
def test_a_share_outside_0_to_1_is_refused(nlp, setting):
    with pytest.raises(BiomedError, match=f"{setting} = 1.5: use a number from 0 to 1"):
        nlp.add_pipe("biomed_consistency", config={setting: 1.5})


def test_the_component_is_saved_with_its_settings(nlp, tmp_path):
    nlp.add_pipe("biomed_consistency", config={"least_share": 0.5})
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert loaded.config["components"]["biomed_consistency"]["least_share"] == 0.5
    assert loaded.to_bytes() == nlp.to_bytes()


def test_an_overlapping_mention_of_a_group_is_not_lost(nlp):
    consistency = nlp.add_pipe("biomed_consistency", config={"spans_key": "all"})
    doc = nlp.make_doc("An ischemic attack (IA). The IA unit.")
    places = [(1, 3, "DISEASE"), (8, 10, "PLACE"), (8, 9, "GENE")]
    doc.spans["all"] = [Span(doc, start, end, label=label) for start, end, label in places]
    found = [(span.text, span.label_) for span in consistency(doc).spans["all"]]
    assert ("IA unit", "PLACE") in found
    assert found[:2] == [("ischemic attack", "DISEASE"), ("IA", "DISEASE")]
