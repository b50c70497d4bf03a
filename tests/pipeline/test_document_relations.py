"""Relations between concepts: groups of mentions, pairs, gradients, training and scores."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import load_config
from thinc.api import NumpyOps

from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.models.span_classifiers import mean_ranges
from spacy_biomed.packaging.compression import compress_pipeline, write_compressed
from spacy_biomed.pipeline.relations.concept_pairs import (
    choose_meant,
    find_concept_pairs,
    find_concepts,
    group_mentions,
)
from spacy_biomed.pipeline.relations.concept_scores import score_concepts
from spacy_biomed.studies.runs import score_part
from spacy_biomed.training.corpus import Corpus_v1
from spacy_biomed.training.optimizer import AdamW_v1

NAME, ENCODER = "biomed_document_relations", "biomed_transformer"
WORDS = {"Aspirin": "DRUG", "aspirins": "DRUG", "ibuprofen": "DRUG", "stroke": "DISEASE"}
WORDS |= {"fever": "DISEASE", "COX-1": "GENE"}

# Two documents in PubTator, whose relations are between concepts.
PUBTATOR = """1|t|Aspirin and stroke.
1|a|ASA did not help. Fever came with ibuprofen, not with aspirin or ASA.
1\t0\t7\tAspirin\tDRUG\tD1
1\t12\t18\tstroke\tDISEASE\tD2
1\t20\t23\tASA\tDRUG\tD1
1\t38\t43\tFever\tDISEASE\tD3
1\t54\t63\tibuprofen\tDRUG\tD4
1\tTREATS\tD1\tD2\tNovel
1\tCAUSES\tD3\tD4\tNo

2|t|Stroke after aspirin.
2|a|No more was found.
2\t0\t6\tStroke\tDISEASE\tD2
2\t13\t20\taspirin\tDRUG\tD1
"""


def make_doc(text, vocab=None, ids=None):
    """A document whose words are entities; their identifiers by word."""
    nlp = spacy.blank("en", vocab=vocab or True)
    doc = nlp.make_doc(text)
    doc.ents = [
        Span(doc, word.i, word.i + 1, label=WORDS[word.text], kb_id=(ids or {}).get(word.text, ""))
        for word in doc
        if word.text in WORDS
    ]
    return doc


def find(doc, pairs=(("DRUG", "DISEASE"),), max_distance=100, max_mentions=10):
    return find_concept_pairs(
        doc,
        list(doc.ents),
        pairs=set(pairs),
        max_distance=max_distance,
        max_mentions=max_mentions,
    )


def names(pairs):
    return [(head.text, tail.text) for head, tail in pairs.closest]


def relate(doc, *relations):
    doc._.relations = [SpanRelation(doc.ents[h], doc.ents[t], label) for h, t, label in relations]
    return doc


def score(reference, predicted, labels=("TREATS", "CAUSES")):
    return score_concepts([Example(predicted, reference)], labels=labels)


def test_mentions_of_one_concept_have_one_identifier_or_one_name():
    doc = make_doc("Aspirin or aspirins or ibuprofen", ids={"ibuprofen": "D4"})
    concepts = find_concepts(doc.text, doc.ents)
    assert concepts[0] == concepts[1] == {("DRUG", "aspirin")}
    assert concepts[2] == {("DRUG", "D4")}


def test_an_abbreviation_means_its_long_form():
    nlp = spacy.blank("en")
    doc = nlp("Transient ischemic attack (TIA) came. TIA went.")
    doc.ents = [Span(doc, 0, 3, "DISEASE"), Span(doc, 4, 5, "DISEASE"), Span(doc, 8, 9, "DISEASE")]
    assert len(set(find_concepts(doc.text, doc.ents))) == 1


def test_a_mention_of_several_concepts_counts_for_those_without_their_own():
    both, one = frozenset({("G", "1"), ("G", "2")}), frozenset({("G", "1")})
    assert group_mentions(choose_meant([both, one])) == {frozenset({("G", "2")}): [0], one: [1]}
    assert group_mentions(choose_meant([both, both])) == {both: [0, 1]}
    other = frozenset({("G", "2")})
    assert group_mentions(choose_meant([both, one, other])) == {one: [1], other: [2]}


def test_pairs_are_of_concepts_in_any_sentence_with_the_closest_mentions():
    doc = make_doc("Aspirin helped. Then stroke came, aspirins did not. No ibuprofen.")
    pairs = find(doc)
    assert names(pairs) == [("aspirins", "stroke"), ("ibuprofen", "stroke")]
    assert pairs.counts.tolist() == [2, 1]
    heads, tails, between = (places.tolist() for places in pairs.places)
    assert [doc[start:end].text for start, end in heads] == ["aspirins", "Aspirin", "ibuprofen"]
    assert [doc[start:end].text for start, end in tails] == ["stroke"] * 3
    assert [doc[start:end].text for start, end in between][:2] == ["came,", "helped. Then"]
    assert names(find(doc, max_distance=2)) == [("aspirins", "stroke")]
    assert find(doc, max_mentions=1).counts.tolist() == [1, 1]
    assert names(find(doc, pairs=[("GENE", "DRUG")])) == []


def test_the_head_of_two_that_may_be_either_is_mentioned_first():
    doc = make_doc("ibuprofen or Aspirin for stroke, or ibuprofen")
    assert names(find(doc, pairs=[("DRUG", "DRUG")])) == [("ibuprofen", "Aspirin")]
    either = [("DRUG", "DISEASE"), ("DISEASE", "DRUG")]
    assert names(find(doc, pairs=either)) == [("ibuprofen", "stroke"), ("Aspirin", "stroke")]
    assert names(find(doc, pairs=either[1:]))[0] == ("stroke", "ibuprofen")


def test_pairs_are_linear_in_the_length_of_a_document():
    sizes = []
    for count in (20, 40):
        doc = make_doc(" ".join(f"Aspirin {i} stroke ." for i in range(count)), ids=None)
        for place, ent in enumerate(doc.ents):
            ent.kb_id_ = f"{place}"
        doc.ents = [
            Span(doc, one.start, one.end, one.label_, kb_id=str(i))
            for i, one in enumerate(doc.ents)
        ]
        sizes.append(len(find(doc, max_distance=20).counts))
    assert sizes[1] < 2.3 * sizes[0]


def test_features_tell_what_is_near():
    doc = make_doc("Aspirin helped. Then stroke came, and aspirins did not.")
    near, far = find(doc, max_distance=10).features
    assert near.sum() == far.sum() + 3  # order, first sentence, closest
    assert (near != far).sum() == 3 + 2  # and the sentences between them
    assert find(make_doc("Nothing here")).features.shape == (0, len(near))


def test_means_of_ranges_and_their_gradient():
    rows = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")
    places = np.array([[0, 2], [1, 1], [3, 6], [0, 6]])
    means, backprop = mean_ranges(NumpyOps(), rows, places)
    expected = [rows[:2].mean(0), [0, 0], rows[3:].mean(0), rows.mean(0)]
    np.testing.assert_allclose(means, expected, atol=1e-6)
    d_means = np.random.default_rng(1).normal(size=means.shape).astype("float32")
    weights = np.zeros((4, 6), dtype="float32")
    for row, (start, end) in enumerate(places):
        weights[row, start:end] = 1.0 / max(end - start, 1)
    np.testing.assert_allclose(backprop(d_means), weights.T @ d_means, atol=1e-6)


def test_a_pair_counts_once_whatever_its_mentions_and_direction():
    text = "Aspirin for stroke , aspirins for stroke , not ibuprofen for fever"
    gold = relate(make_doc(text), (0, 1, "TREATS"), (2, 3, "TREATS"), (4, 5, "CAUSES"))
    scores = score(gold, relate(make_doc(text), (3, 0, "TREATS"), (4, 1, "CAUSES")))
    assert scores["document_relations_micro_p"] == 0.5
    assert scores["document_relations_micro_r"] == 0.5
    assert scores["document_relations_per_type"]["TREATS"]["f"] == 1.0
    other_type = score(gold, relate(make_doc(text), (3, 0, "CAUSES"), (4, 5, "CAUSES")))
    assert other_type["document_relations_micro_f"] == 0.5
    assert other_type["document_relations_pair_f"] == 1.0


def test_predicted_mentions_mean_what_gold_mentions_do_that_they_overlap():
    gold = make_doc("Aspirin for stroke , aspirins", ids={"Aspirin": "D1", "stroke": "D2"})
    relate(gold, (0, 1, "TREATS"))
    predicted = make_doc(gold.text)
    predicted.ents = [Span(predicted, 0, 2, "DRUG"), Span(predicted, 2, 3, "DISEASE")]
    assert score(gold, relate(predicted, (0, 1, "TREATS")))["document_relations_micro_f"] == 1.0
    predicted.ents = [Span(predicted, 0, 2, "GENE"), Span(predicted, 2, 3, "DISEASE")]
    assert score(gold, relate(predicted, (0, 1, "TREATS")))["document_relations_micro_f"] == 0.0
    unknown = score(gold, relate(predicted, (0, 1, "OTHER")))
    assert unknown["document_relations_micro_p"] == unknown["document_relations_micro_r"] == 0.0
    gold._.relations = None
    assert score(gold, predicted)["document_relations_pair_f"] is None


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pubtator")
    for part in ("train", "dev", "test"):
        (folder / f"{part}.txt").write_text(PUBTATOR, encoding="utf8")
    convert_corpus("mine", folder, folder / "converted", format="pubtator")
    return folder / "converted"


def create_pipeline(encoder, **settings):
    nlp = spacy.blank("en")
    nlp.add_pipe(ENCODER, config={"model": {"name": str(encoder)}})
    nlp.add_pipe(NAME, config=settings)
    return nlp


@pytest.fixture(scope="module")
def trained(corpus, tiny_bert):
    nlp = create_pipeline(tiny_bert)
    examples = list(Corpus_v1(corpus / "train.spacy")(nlp))
    optimizer = AdamW_v1(0.005)
    nlp.initialize(lambda: examples, sgd=optimizer)
    losses = [nlp.update(examples, sgd=optimizer, losses={})[NAME] for _ in range(40)]
    assert losses[-1] < 0.1 * losses[0]
    return nlp


def predict(nlp, corpus):
    examples = list(Corpus_v1(corpus / "dev.spacy", gold_entities=True)(nlp))
    return nlp.evaluate(examples), list(nlp.pipe(example.predicted for example in examples))


def test_the_relations_of_a_corpus_of_concepts_are_learned(trained, corpus):
    relations = trained.get_pipe(NAME)
    assert relations.labels == ("CAUSES", "TREATS")
    assert relations.cfg["pairs"] == [["DISEASE", "DRUG"]]
    scores, (first, second) = predict(trained, corpus)
    assert scores["document_relations_micro_f"] == scores["document_relations_pair_f"] == 1.0
    found = {(one.head.text, one.label, one.tail.text) for one in first._.relations}
    assert found == {("stroke", "TREATS", "Aspirin"), ("Fever", "CAUSES", "ibuprofen")}
    assert second._.relations == []
    assert min(one.score for one in first._.relations) > 0.5


def test_a_study_scores_relations_between_the_entities_of_the_corpus(trained, corpus):
    scores, _ = score_part(trained, None, corpus / "dev.spacy")
    assert scores["micro_f"] == 1.0


def test_a_compressed_pipeline_finds_the_same(trained, corpus, tmp_path):
    trained.to_disk(tmp_path / "trained")
    write_compressed(spacy.load(tmp_path / "trained"), tmp_path / "onnx", "fp32", False)
    config = load_config(tmp_path / "trained" / "config.cfg")
    config["corpora"]["dev"]["gold_entities"] = True
    config.to_disk(tmp_path / "trained" / "config.cfg")
    check = corpus / "dev.spacy"
    report = compress_pipeline(
        str(tmp_path / "trained"), tmp_path / "checked", precision="fp32", check=check
    )
    assert report.scores_before["document_relations_micro_f"] == 1.0
    assert report.scores_after == report.scores_before
    scores, (first, _) = predict(spacy.load(tmp_path / "onnx"), corpus)
    assert scores["document_relations_micro_f"] == 1.0
    _, (expected, _) = predict(trained, corpus)
    for one, other in zip(first._.relations, expected._.relations, strict=True):
        assert one.score == pytest.approx(other.score, abs=2e-3)


def test_probabilities_do_not_depend_on_the_batch(trained, corpus):
    docs = list(read_docs(corpus / "test.spacy", trained.vocab))
    alone = [trained.get_pipe(NAME).predict([doc]).probabilities for doc in docs]
    together = trained.get_pipe(NAME).predict(docs).probabilities
    np.testing.assert_allclose(np.concatenate(alone), together, atol=1e-5)


def test_a_saved_pipeline_finds_the_same(trained, corpus, tmp_path):
    trained.to_disk(tmp_path / "saved")
    docs = list(read_docs(corpus / "test.spacy", trained.vocab))
    expected = trained.get_pipe(NAME).predict(docs).probabilities
    found = spacy.load(tmp_path / "saved").get_pipe(NAME).predict(docs).probabilities
    np.testing.assert_array_equal(found, expected)


def test_it_relates_what_another_pipeline_finds_with_another_encoder(trained, tiny_bert, tmp_path):
    nlp = spacy.blank("en")
    nlp.tokenizer = trained.tokenizer
    nlp.add_pipe(ENCODER, config={"model": {"name": str(tiny_bert)}}).initialize(list, nlp=nlp)
    ruler = nlp.add_pipe("entity_ruler")
    words = {"Aspirin": "DRUG", "ASA": "DRUG", "stroke": "DISEASE", "Fever": "DISEASE"}
    ruler.add_patterns([{"label": label, "pattern": word} for word, label in words.items()])
    nlp.add_pipe(ENCODER, name="relation_transformer", source=trained)
    nlp.add_pipe(NAME, source=trained)
    nlp.to_disk(tmp_path / "both")
    doc = spacy.load(tmp_path / "both")("Aspirin and stroke. ASA did not help. Fever came too.")
    found = {(one.head.text, one.label, one.tail.text) for one in doc._.relations}
    assert ("stroke", "TREATS", "Aspirin") in found


def test_documents_without_the_layer_change_nothing(corpus, tiny_bert, weights):
    trained = create_pipeline(tiny_bert)
    trained.initialize(lambda: list(Corpus_v1(corpus / "train.spacy")(trained)))
    examples = list(Corpus_v1(corpus / "train.spacy")(trained))
    for example in examples:
        example.reference._.relations = None
    before = weights(trained, NAME)
    losses = trained.update(examples, sgd=AdamW_v1(0.01))
    assert losses[NAME] == 0.0
    np.testing.assert_array_equal(weights(trained, NAME), before)


def test_the_threshold_is_of_being_related_at_all(trained, corpus):
    relations = trained.get_pipe(NAME)
    docs = [doc for doc in read_docs(corpus / "test.spacy", trained.vocab) if doc.ents]
    predictions = relations.predict(docs)
    related = 1.0 - predictions.probabilities[:, -1]
    old = relations.cfg["threshold"]
    for threshold in (0.0, float(np.sort(related)[-1])):
        relations.cfg["threshold"] = threshold
        relations.set_annotations(docs, predictions)
        assert sum(len(doc._.relations) for doc in docs) == (related >= threshold).sum()
    relations.cfg["threshold"] = old


LISTENER = {"@architectures": "spacy_biomed.EncoderListener.v1"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": [["DRUG"]]}, "write the types of head and tail"),
        ({"max_mentions": 0}, "max_mentions = 0: use 1 or more"),
        ({"threshold": 2.0}, "use a number from 0 to 1"),
        ({"model": {"tok2vec": {**LISTENER, "pooling": "cls"}}}, "'cls'.*use first or mean"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(BiomedError, match=message):
        spacy.blank("en").add_pipe(NAME, config=settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": [["DRUG", "GENE"]]}, "no relation of the training corpus is between two"),
        ({"max_distance": 0}, "max_distance = 0"),
    ],
)
def test_a_corpus_that_teaches_nothing_is_refused(settings, message, corpus, tiny_bert):
    nlp = create_pipeline(tiny_bert, **settings)
    examples = list(Corpus_v1(corpus / "train.spacy")(nlp))
    with pytest.raises(BiomedError, match=message):
        nlp.initialize(lambda: examples)


def test_a_corpus_without_relations_is_refused(tiny_bert):
    nlp = create_pipeline(tiny_bert)
    doc = make_doc("Aspirin for stroke", vocab=nlp.vocab)
    with pytest.raises(BiomedError, match="has no relation for"):
        nlp.initialize(lambda: [Example(Doc(nlp.vocab, words=["Aspirin"]), doc)])
