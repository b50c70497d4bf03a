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


def make_written(**settings):
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
    nlp = make_written(spans_key=key)
    examples = [drugs(nlp, [0.9, 0.8, 0.4, 0.1]), drugs(nlp, [0.4], right=False)]
    [found] = calibrate(nlp, examples, target_recall=target)["biomed_ner"].recalls
    assert (found.label, found.target, found.gold) == ("DRUG", target, 4)
    assert (found.offset, found.recall, found.precision) == (offset, recall, precision)
    assert (found.recall_before, found.precision_before) == (0.5, 1.0)
    assert found.is_reached
    doc = nlp(Doc(nlp.vocab, words=[spell(0.4, "DRUG"), spell(0.1, "DRUG")]))
    assert len(doc.ents if key is None else doc.spans[key]) == round(4 * recall) - 2


def test_what_cannot_be_reached_is_said_with_what_is_reached():
    nlp = make_written()
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
    nlp = make_written()
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
    nlp = make_written(target_recall=0.9)
    calibrate(nlp, [drugs(nlp, [0.3])])
    assert nlp.get_pipe("biomed_ner").cfg["recall_offsets"] == {"DRUG": 1.0}


def test_what_is_open_does_not_count():
    """Neither as wrong, nor in a document that does not annotate the layer."""
    nlp = make_written()
    examples = [drugs(nlp, [0.9]), drugs(nlp, [0.9], right=False), drugs(nlp, [0.9], right=False)]
    set_scope(examples[1].reference, AnnotationScope(frozenset({"GENE"})))
    set_scope(examples[2].reference, AnnotationScope(uncertain=((0, 3, "DRUG"),)))
    examples.append(Example(*(Doc(nlp.vocab, words=[spell(0.9, "DRUG")]) for _ in range(2))))
    [found] = calibrate(nlp, examples, target_recall=0.5)["biomed_ner"].recalls
    assert (found.gold, found.recall, found.precision) == (1, 1.0, 1.0)


def test_offsets_are_saved_with_the_component(tmp_path):
    nlp = make_written()
    calibrate(nlp, [drugs(nlp, [0.9, 0.3])], target_recall=1.0)
    ner = nlp.get_pipe("biomed_ner")
    others = [make_written().get_pipe("biomed_ner") for _ in range(2)]
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
    nlp = make_written()
    with pytest.raises(BiomedError, match="above 0 and up to 1"):
        calibrate(nlp, [drugs(nlp, [0.9])], target_recall=target)
    with pytest.raises(BiomedError, match=r"components.biomed_ner\] target_recall"):
        make_written(target_recall=target)


def test_a_mention_is_covered_by_entities_of_other_boundaries_and_labels():
    nlp = make_written()
    words = ["DRUG900", ",", "GENE300", "no", "GENE200", "DRUG100"]
    reference = Doc(nlp.vocab, words=words)
    # The first mention has a comma, which nobody has to find. The last entity is wrong.
    reference.set_ents([Span(reference, 0, 3, "DRUG"), Span(reference, 4, 5, "GENE")])
    example = Example(Doc(nlp.vocab, words=words), reference)
    report = calibrate(nlp, [example], target_recall=1.0, recall_measure="covered")
    drug, gene = report["biomed_ner"].recalls
    # In log odds, 0.3 is -0.85, 0.2 is -1.39 and 0.1 is -2.20.
    assert (drug.offset, gene.offset) == (1.0, 1.5)
    assert (drug.recall_before, gene.recall_before) == (0.0, 0.0)
    assert (drug.recall, gene.recall) == (1.0, 1.0)
    assert (drug.precision, gene.precision) == (1.0, 1.0)
    assert nlp.get_pipe("biomed_ner").cfg["recall_measure"] == "covered"


def test_entities_of_a_label_without_target_cover_nothing():
    nlp = make_written()
    words = ["GENE900", "DRUG300"]
    reference = Doc(nlp.vocab, words=words)
    reference.set_ents([Span(reference, 0, 2, "DRUG")])
    example = Example(Doc(nlp.vocab, words=words), reference)
    [drug] = calibrate(nlp, [example], target_recall={"DRUG": 1.0}, recall_measure="covered")[
        "biomed_ner"
    ].recalls
    assert (drug.recall, drug.is_reached) == (0.0, False)


def test_the_measure_of_recall_is_a_setting():
    nlp = make_written(target_recall=0.9, recall_measure="covered")
    calibrate(nlp, [drugs(nlp, [0.9, 0.3])])
    assert nlp.get_pipe("biomed_ner").cfg["recall_measure"] == "covered"
    with pytest.raises(BiomedError, match=r"recall_measure = 'half': use exact or covered"):
        calibrate(nlp, [drugs(nlp, [0.9])], recall_measure="half")


def test_a_recall_for_an_unknown_label_is_refused_before_a_text_is_read():
    with pytest.raises(BiomedError, match="a recall for .DISEASE.: use DRUG or GENE"):
        calibrate(make_written(), [None], target_recall={"DISEASE": 0.9})


def test_tags_that_are_decoded_by_themselves_have_no_recall_target():
    nlp = make_written(decoding="argmax")
    with pytest.raises(BiomedError, match="viterbi"):
        calibrate(nlp, [drugs(nlp, [0.9])], target_recall=0.9)


def test_nothing_is_fitted_where_the_layer_is_not_annotated():
    nlp = make_written()
    doc = Doc(nlp.vocab, words=["word"])
    assert calibrate(nlp, [Example(doc, doc.copy())]) == {}


# Confidence


def repeat(nlp, chance, right, wrong, label="DRUG"):
    """Examples of single words that are found with a probability."""
    word = spell(chance, label)
    return [
        make_example(nlp, [word], [(0, label)] if i < right else []) for i in range(right + wrong)
    ]


def confidence(nlp, chance, label="DRUG"):
    [span] = nlp(Doc(nlp.vocab, words=[spell(chance, label)])).ents
    return span._.confidence


def test_confidence_is_the_share_of_correct_predictions():
    nlp = make_written()
    ner = nlp.get_pipe("biomed_ner")
    assert not ner.is_calibrated
    assert confidence(nlp, 0.9) == pytest.approx(0.9)
    examples = [*repeat(nlp, 0.9, 60, 60), *repeat(nlp, 0.6, 10, 70)]
    report = calibrate(nlp, examples)["biomed_ner"]
    assert ner.is_calibrated
    # Blocks of 80 and of 120 predictions, with two of average quality: 71 of 202.
    for chance, share in ((0.9, (60 + 142 / 202) / 122), (0.6, (10 + 142 / 202) / 82)):
        assert confidence(nlp, chance) == pytest.approx(0.999 * share + 0.001 * chance, abs=1e-6)
    assert (report.predictions, report.own_curves) == (200, ["DRUG"])
    assert report.before.error == pytest.approx((120 * 0.4 + 80 * 0.475) / 200)
    assert report.after.error < 0.02


def test_the_models_own_probability_can_be_asked_for():
    nlp = make_written()
    calibrate(nlp, repeat(nlp, 0.9, 100, 100))
    [found] = nlp.get_pipe("biomed_ner").predict([Doc(nlp.vocab, words=[spell(0.9, "DRUG")])])
    assert found.probability == pytest.approx([0.9])
    assert found.confidence == pytest.approx([0.5], abs=0.01)


def test_scores_of_a_span_group_are_calibrated_too():
    nlp = make_written(spans_key="layer")
    calibrate(nlp, repeat(nlp, 0.9, 100, 100))
    doc = nlp(Doc(nlp.vocab, words=[spell(0.9, "DRUG")]))
    group = doc.spans["layer"]
    assert group.attrs["scores"] == [span._.confidence for span in group]
    assert group.attrs["scores"] == pytest.approx([0.5], abs=0.01)


def test_a_label_with_few_predictions_has_the_curve_of_all():
    nlp = make_written()
    examples = [*repeat(nlp, 0.9, 200, 0), *repeat(nlp, 0.9, 0, 40, "GENE")]
    report = calibrate(nlp, examples)["biomed_ner"]
    assert report.own_curves == ["DRUG"]
    assert confidence(nlp, 0.9) > 0.97
    assert confidence(nlp, 0.9, "GENE") == pytest.approx(200 / 240, abs=0.01)


def test_open_predictions_are_left_out():
    nlp = make_written()
    examples = repeat(nlp, 0.9, 100, 100)
    for example in examples[100:]:
        set_scope(example.reference, AnnotationScope(frozenset({"GENE"})))
    assert calibrate(nlp, examples)["biomed_ner"].predictions == 100
    assert confidence(nlp, 0.9) > 0.97
    # In the scores as well.
    assert nlp.get_pipe("biomed_ner").score(examples)["ents_ece"] is None
    for example in examples:
        example.predicted = nlp(example.predicted)
    scores = nlp.get_pipe("biomed_ner").score(examples)
    assert sum(row[0] for row in scores["ents_reliability"]) == 100
    assert scores["ents_ece"] == pytest.approx(1 - confidence(nlp, 0.9))


def test_confidence_is_fitted_with_the_offsets_in_force():
    nlp = make_written()
    examples = [*repeat(nlp, 0.9, 100, 0), *repeat(nlp, 0.3, 20, 80)]
    assert calibrate(nlp, examples)["biomed_ner"].predictions == 100
    assert calibrate(nlp, examples, target_recall=1.0)["biomed_ner"].predictions == 200
    assert confidence(nlp, 0.3) == pytest.approx(0.2, abs=0.02)


def test_unseen_mentions_weigh_as_much_as_they_will():
    """A tenth of the predictions was not seen, and all of these are wrong."""
    nlp = make_written()
    examples = repeat(nlp, 0.9, 180, 20)
    with pytest.raises(BiomedError, match="does not mark what was seen"):
        calibrate(nlp, examples, unseen_share=0.3)
    for example in examples:
        seen = list(example.reference.ents)
        example.reference.spans["seen_in_training"] = seen
    calibrate(nlp, examples, unseen_share=0.3)
    assert confidence(nlp, 0.9) == pytest.approx(0.7, abs=0.01)
    calibrate(nlp, examples, unseen_share=0.05)  # it has as many already
    assert confidence(nlp, 0.9) == pytest.approx(0.9, abs=0.01)
    with pytest.raises(BiomedError, match="between 0 and 1"):
        calibrate(nlp, examples, unseen_share=1.0)


@pytest.mark.parametrize("source", ["disk", "bytes"])
def test_a_loaded_component_has_the_same_confidences(source, tmp_path):
    nlp = make_written()
    rng = np.random.default_rng(0)
    for chance in (0.6, 0.75, 0.9, 0.999):
        right = int(rng.integers(30, 60))
        examples = repeat(nlp, chance, right, 60 - right)
    calibrate(nlp, examples)
    loaded = make_written()
    if source == "disk":
        nlp.get_pipe("biomed_ner").to_disk(tmp_path / "ner")
        loaded.get_pipe("biomed_ner").from_disk(tmp_path / "ner")
    else:
        loaded.get_pipe("biomed_ner").from_bytes(nlp.get_pipe("biomed_ner").to_bytes())
    for chance in (0.55, 0.7, 0.9, 1.0):
        assert confidence(loaded, chance) == confidence(nlp, chance)


def test_further_training_forgets_what_was_fitted(make_pipeline):
    """The weights are others then; a batch without annotation changes nothing."""
    nlp = make_pipeline({"biomed_ner": {}})
    texts = ["Aspirin reduced cancer.", "No cancer."]
    examples = [
        Example.from_dict(
            nlp.make_doc(text), {"entities": [(text.index("cancer"), len(text) - 1, "D")]}
        )
        for text in texts
    ]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(30):
        nlp.update(examples, sgd=optimizer)
    ner = nlp.get_pipe("biomed_ner")
    calibrate(nlp, examples, target_recall=1.0)
    fitted = dict(ner.cfg)
    assert ner.is_calibrated
    nlp.update([Example(doc, doc.copy()) for doc in map(nlp.make_doc, texts)], sgd=optimizer)
    assert ner.cfg == fitted
    nlp.update(examples, sgd=optimizer)
    assert not ner.is_calibrated
    assert ner.cfg["recall_offsets"] == {}
