"""Recall targets and calibrated confidence, fitted on a development corpus."""

import math

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import Model
from thinc.types import Ragged

from spacy_biomed.annotations import AnnotationScope, set_scope
from spacy_biomed.errors import BiomedError
from spacy_biomed.models.tagging import TagScheme
from spacy_biomed.pipeline import calibrate

LABELS = ["DRUG", "GENE"]
WIDTH = 1 + 4 * len(LABELS)


def spell(probability, label):
    """A word that the component below takes for an entity with this probability."""
    return f"{label}{round(1000 * probability)}"


def read_scores(docs, is_train=False):
    """Log probabilities that are written in the words: the tags U and O of a label, no others."""
    rows = []
    for doc in docs:
        for token in doc:
            row = np.full(WIDTH, -30.0)
            name = next((label for label in LABELS if token.text.startswith(label)), None)
            chance = 0.0 if name is None else int(token.text.removeprefix(name)) / 1000
            row[0] = math.log(max(1 - chance, 1e-12))
            if chance:
                row[4 + 4 * LABELS.index(name)] = math.log(chance)
            rows.append(row)
    data = np.array(rows, dtype="float32").reshape(-1, WIDTH)
    return Ragged(data, np.ones(len(data), dtype="int32"))


def make_pipeline(**settings):
    """A pipeline of a `biomed_ner` whose probabilities are those in the words of a text."""
    nlp = spacy.blank("en")
    ner = nlp.add_pipe("biomed_ner", config=settings)
    ner.cfg["labels"] = list(LABELS)
    ner.model = Model("written", lambda model, docs, is_train: (read_scores(docs), lambda d: []))
    return nlp


def make_example(nlp, words, gold):
    """An example whose mentions are single words, by their places."""
    reference = Doc(nlp.vocab, words=words)
    spans = [Span(reference, place, place + 1, label=label) for place, label in gold]
    key = nlp.get_pipe("biomed_ner").cfg["spans_key"]
    if key is None:
        reference.set_ents(spans)
    else:
        reference.spans[key] = spans
    return Example(Doc(nlp.vocab, words=words), reference)


def drugs(nlp, chances, *, right=True):
    """An example of drugs with these probabilities."""
    words = [spell(chance, "DRUG") for chance in chances]
    return make_example(nlp, words, [(i, "DRUG") for i in range(len(words))] if right else [])


# In log odds, 0.4 is -0.41, and 0.1 is -2.20: offsets are in steps of a quarter.
@pytest.mark.parametrize(
    "target, offset, recall, precision",
    [
        (0.5, 0.0, 0.5, 1.0),
        (0.75, 0.5, 0.75, 0.75),
        (0.99, 2.25, 1.0, 0.8),
    ],
)
@pytest.mark.parametrize("key", [None, "layer"])
def test_the_first_offset_that_reaches_the_target_is_taken(target, offset, recall, precision, key):
    nlp = make_pipeline(spans_key=key)
    examples = [drugs(nlp, [0.9, 0.8, 0.4, 0.1]), drugs(nlp, [0.4], right=False)]
    [found] = calibrate(nlp, examples, target_recall=target)["biomed_ner"].recalls
    assert (found.label, found.target, found.gold) == ("DRUG", target, 4)
    assert (found.offset, found.recall, found.precision) == (offset, recall, precision)
    assert (found.recall_before, found.precision_before) == (0.5, 1.0)
    assert found.is_reached
    doc = nlp(Doc(nlp.vocab, words=[spell(0.4, "DRUG"), spell(0.1, "DRUG")]))
    assert len(doc.ents if key is None else doc.spans[key]) == round(4 * recall) - 2


def test_what_cannot_be_reached_is_said_with_what_is_reached():
    nlp = make_pipeline()
    example = make_example(
        nlp,
        [spell(0.9, "DRUG"), "other", spell(0.3, "DRUG")],
        [(0, "DRUG"), (1, "DRUG"), (2, "DRUG")],
    )
    [found] = calibrate(nlp, [example], target_recall=0.99)["biomed_ner"].recalls
    assert not found.is_reached
    assert found.recall == pytest.approx(2 / 3)
    assert found.offset == 1.0  # the first with that recall


def test_labels_have_targets_of_their_own():
    nlp = make_pipeline()
    words = [spell(0.3, "DRUG"), spell(0.3, "GENE"), spell(0.9, "GENE")]
    example = make_example(nlp, words, [(0, "DRUG"), (1, "GENE"), (2, "GENE")])
    ner = nlp.get_pipe("biomed_ner")
    assert [
        one.label
        for one in calibrate(nlp, [example], target_recall={"GENE": 1.0})["biomed_ner"].recalls
    ] == ["GENE"]
    assert ner.cfg["recall_offsets"] == {"GENE": 1.0}
    calibrate(nlp, [example], target_recall={"*": 1.0, "GENE": 0.5})
    assert ner.cfg["recall_offsets"] == {"DRUG": 1.0}
    calibrate(nlp, [example])  # the last one is the component's
    assert ner.cfg["recall_offsets"] == {"DRUG": 1.0}


def test_the_components_setting_is_the_target_where_none_is_given():
    nlp = make_pipeline(target_recall=0.9)
    calibrate(nlp, [drugs(nlp, [0.3])])
    assert nlp.get_pipe("biomed_ner").cfg["recall_offsets"] == {"DRUG": 1.0}


def test_what_is_open_does_not_count():
    """Neither as wrong, nor in a document that does not annotate the layer."""
    nlp = make_pipeline()
    examples = [drugs(nlp, [0.9]), drugs(nlp, [0.9], right=False), drugs(nlp, [0.9], right=False)]
    set_scope(examples[1].reference, AnnotationScope(frozenset({"GENE"})))
    set_scope(examples[2].reference, AnnotationScope(uncertain=((0, 3, "DRUG"),)))
    examples.append(Example(*(Doc(nlp.vocab, words=[spell(0.9, "DRUG")]) for _ in range(2))))
    [found] = calibrate(nlp, examples, target_recall=0.5)["biomed_ner"].recalls
    assert (found.gold, found.recall, found.precision) == (1, 1.0, 1.0)


def test_offsets_are_saved_with_the_component(tmp_path):
    nlp = make_pipeline()
    calibrate(nlp, [drugs(nlp, [0.9, 0.3])], target_recall=1.0)
    ner = nlp.get_pipe("biomed_ner")
    others = [make_pipeline().get_pipe("biomed_ner") for _ in range(2)]
    ner.to_disk(tmp_path / "ner")
    others[0].from_disk(tmp_path / "ner")
    others[1].from_bytes(ner.to_bytes())
    for other in others:
        assert other.cfg == ner.cfg
        assert other.cfg["recall_offsets"] == {"DRUG": 1.0}
        doc = Doc(other.vocab, words=[spell(0.3, "DRUG")])
        assert len(other.predict([doc])[0].spans.start) == 1


def test_entities_stay_and_more_are_found_where_none_is():
    """B L of a GENE stay, where two U of a DRUG would be more probable with the offset."""
    scheme = TagScheme("biluo", LABELS)
    begin, last, unit = map(scheme.tag_names().index, ["B-GENE", "L-GENE", "U-DRUG"])
    log_probs = np.full((3, WIDTH), -20.0)
    log_probs[0, [begin, unit]] = log_probs[1, [last, unit]] = -0.1, -1.0
    log_probs[2, [0, unit]] = -0.1, -3.0
    lengths, offsets = np.array([3]), np.array([4.0, 0.0])
    tags = scheme.viterbi(log_probs, lengths)
    assert tags.tolist() == [begin, last, 0]
    assert scheme.find_more(log_probs, lengths, tags, offsets).tolist() == [begin, last, unit]
    assert scheme.find_more(log_probs, lengths, tags, np.array([2.0, 9.0])).tolist() == [
        begin,
        last,
        0,
    ]


@pytest.mark.parametrize("target", [0, 1.5, {"DRUG": -1.0}])
def test_a_recall_that_is_none_is_refused(target):
    nlp = make_pipeline()
    with pytest.raises(BiomedError, match="above 0 and up to 1"):
        calibrate(nlp, [drugs(nlp, [0.9])], target_recall=target)
    with pytest.raises(BiomedError, match=r"components.biomed_ner\] target_recall"):
        make_pipeline(target_recall=target)


def test_a_recall_for_an_unknown_label_is_refused():
    nlp = make_pipeline()
    with pytest.raises(BiomedError, match="DISEASE.*has the labels DRUG, GENE"):
        calibrate(nlp, [drugs(nlp, [0.9])], target_recall={"DISEASE": 0.9})


def test_tags_that_are_decoded_by_themselves_have_no_recall_target():
    nlp = make_pipeline(decoding="argmax")
    with pytest.raises(BiomedError, match="viterbi"):
        calibrate(nlp, [drugs(nlp, [0.9])], target_recall=0.9)


def test_a_corpus_without_the_layer_is_refused():
    nlp = make_pipeline()
    doc = Doc(nlp.vocab, words=["word"])
    with pytest.raises(BiomedError, match="nothing to calibrate"):
        calibrate(nlp, [Example(doc, doc.copy())])
