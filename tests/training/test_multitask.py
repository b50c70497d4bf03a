"""`spacy_biomed.MultiTaskCorpus.v1`: each corpus annotates its own component's layer only."""

from types import SimpleNamespace

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_biomed.annotations.annotation_scope import (
    EVERY_LABEL,
    AnnotationScope,
    get_scope,
    set_scope,
)
from spacy_biomed.annotations.layer_copies import copy_bare
from spacy_biomed.annotations.pairs import PAIR_KEY, join_pair, mark_pair
from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.annotations.seen_mentions import SEEN_KEY
from spacy_biomed.annotations.soft_labels import get_soft_labels, set_soft_labels
from spacy_biomed.errors import BiomedError
from spacy_biomed.pipeline.component_classes import find_head, list_annotation_keys
from spacy_biomed.training.multitask import TASK_KEY, MultiTaskCorpus_v1

WORDS = ["Aspirin", "reduced", "the", "risk", "of", "stroke"]


@pytest.fixture
def nlp():
    """Two layers of entities, flat entities, two sets of classes: nothing is trained here."""
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_ner", "drugs", config={"spans_key": "drugs"})
    nlp.add_pipe("biomed_ner", "diseases", config={"spans_key": "diseases"})
    nlp.add_pipe("biomed_ner", "flat")
    nlp.add_pipe("biomed_textcat", "topics")
    nlp.add_pipe("biomed_textcat", "inference", config={"exclusive": True})
    return nlp


@pytest.fixture
def write(nlp, tmp_path):
    """Write documents to a .spacy file of a name."""

    def to_disk(name: str, *docs: Doc):
        path = tmp_path / f"{name}.spacy"
        DocBin(docs=docs, store_user_data=True).to_disk(path)
        return path

    return to_disk


@pytest.fixture
def full(nlp):
    """A document that has every layer."""
    doc = Doc(nlp.vocab, words=WORDS, sent_starts=[True, *[False] * 5])
    doc.set_ents([Span(doc, 0, 1, label="DRUG")], default="outside")
    doc.spans["diseases"] = [Span(doc, 5, 6, label="DISEASE")]
    doc.spans["other"] = [Span(doc, 1, 2, label="OTHER")]
    doc.spans[SEEN_KEY] = [Span(doc, 0, 1, label="DRUG")]
    doc.spans[PAIR_KEY] = [doc[:2], doc[3:]]
    doc.spans["answer"] = [doc[5:]]
    doc.cats = {"A": 1.0, "B": 0.0, "X": 1.0}
    doc._.unaligned_mentions = [(1, 4, "DRUG")]
    doc._.relations = [SpanRelation(doc[:1], doc[5:], "PREVENTS")]
    doc.user_data["document_id"] = "seven"
    for name in ("drugs", "topics"):
        set_soft_labels(doc, name, ["O"], np.ones((6, 1)))
    return doc


def read(nlp, paths, **settings):
    return list(MultiTaskCorpus_v1(paths, **settings)(nlp))


def spans(group):
    return [(span.start, span.end, span.label_) for span in group]


def test_flat_entities_become_the_span_group_of_their_component(nlp, write, full):
    [example] = read(nlp, {"drugs": write("train", full)})
    reference = example.reference
    assert spans(reference.spans["drugs"]) == [(0, 1, "DRUG")]
    assert spans(reference.spans[SEEN_KEY]) == [(0, 1, "DRUG")]
    assert set(reference.spans) == {"drugs", SEEN_KEY}
    assert reference._.unaligned_mentions == [(1, 4, "DRUG")]
    assert not reference.has_annotation("ENT_IOB")
    assert not reference.has_annotation("SENT_START")
    assert reference.cats == {}
    assert reference._.relations is None
    assert get_soft_labels(reference, "drugs", ["O"]).shape == (6, 1)
    assert get_soft_labels(reference, "topics", ["O"]) is None


def test_a_span_group_of_the_components_key_is_taken_as_it_is(nlp, write, full):
    [example] = read(nlp, {"diseases": write("train", full)})
    assert spans(example.reference.spans["diseases"]) == [(5, 6, "DISEASE")]
    assert not example.reference.has_annotation("ENT_IOB")


@pytest.mark.parametrize(
    "component, source, target",
    [("drugs", None, "drugs"), ("flat", None, None), ("diseases", "diseases", "diseases")],
)
def test_what_a_layer_annotates_goes_with_it(nlp, write, full, component, source, target):
    scope = AnnotationScope(frozenset({"DRUG"}), ((0, 7, "DISEASE"),))
    set_scope(full, scope, source)
    set_scope(full, AnnotationScope(frozenset({"OTHER"})), "other")
    [example] = read(nlp, {component: write("train", full)})
    assert get_scope(example.reference, target) == scope
    assert get_scope(example.reference, "other") == EVERY_LABEL


def test_a_component_without_a_span_group_keeps_flat_entities_and_tokens_without_annotation(
    nlp, write
):
    doc = Doc(nlp.vocab, words=WORDS)
    doc.set_ents([doc[:1]], missing=[doc[1:2]], default="outside")
    [example] = read(nlp, {"flat": write("train", doc)})
    assert [token.ent_iob for token in example.reference] == [token.ent_iob for token in doc]
    assert set(example.reference.spans) == set()


def test_a_document_annotated_in_part_has_no_span_group(nlp, write, full):
    doc = Doc(nlp.vocab, words=WORDS)
    doc.set_ents([doc[:1]], missing=[doc[1:2]], default="outside")
    _, example = read(nlp, {"drugs": write("train", full, doc)})
    assert set(example.reference.spans) == set()


def test_an_annotated_document_without_entities_has_an_empty_group(nlp, write):
    doc = Doc(nlp.vocab, words=WORDS)
    doc.set_ents([], default="outside")
    [example] = read(nlp, {"drugs": write("train", doc)})
    assert spans(example.reference.spans["drugs"]) == []


def test_classes_are_those_of_the_component_once_it_has_labels(nlp, write, full):
    paths = {"topics": write("train", full)}
    [example] = read(nlp, paths)
    assert example.reference.cats == {"A": 1.0, "B": 0.0, "X": 1.0}
    for label in ("A", "B", "C"):
        nlp.get_pipe("topics").add_label(label)
    [example] = read(nlp, paths)
    assert example.reference.cats == {"A": 1.0, "B": 0.0}
    assert spans(example.reference.spans[PAIR_KEY]) == [(0, 2, ""), (3, 6, "")]
    assert set(example.reference.spans) == {PAIR_KEY}
    assert get_soft_labels(example.reference, "topics", ["O"]) is not None
    assert get_soft_labels(example.reference, "drugs", ["O"]) is None


def test_classes_of_the_same_name_are_refused(nlp, write, full):
    nlp.get_pipe("inference").add_label("A")
    with pytest.raises(BiomedError, match="'A' of the corpus 'topics' is a class of another"):
        read(nlp, {"topics": write("train", full)})


def test_classes_of_the_same_name_are_told_apart_by_the_components_name(nlp, write, full):
    nlp.get_pipe("inference").add_label("A")
    nlp.get_pipe("topics").add_label("topics_A")
    [example] = read(nlp, {"topics": write("train", full)}, prefixed=["topics"])
    assert example.reference.cats == {"topics_A": 1.0}


def test_every_example_has_its_corpus_name_and_the_documents_id(nlp, write, full):
    path = write("train", full, full)
    examples = read(nlp, {"drugs": path, "topics": path})
    tasks = [example.reference.user_data[TASK_KEY] for example in examples]
    assert tasks == ["drugs", "drugs", "topics", "topics"]
    assert {example.reference.user_data["document_id"] for example in examples} == {"seven"}


def test_a_corpus_may_train_a_component_of_another_name(nlp, write, full):
    [example] = read(nlp, {"mine": write("train", full)}, components={"mine": "drugs"})
    assert spans(example.reference.spans["drugs"]) == [(0, 1, "DRUG")]
    assert example.reference.user_data[TASK_KEY] == "mine"


def test_two_corpora_may_train_one_component(nlp, write, full):
    path = write("train", full)
    examples = read(
        nlp, {"one": path, "two": path}, components=dict.fromkeys(("one", "two"), "drugs")
    )
    assert [spans(example.reference.spans["drugs"]) for example in examples] == [
        [(0, 1, "DRUG")]
    ] * 2


def test_the_prediction_is_made_of_the_text_and_of_a_pairs_too(nlp, write):
    text, _ = join_pair("Is aspirin safe?", "It is.")
    doc = mark_pair(nlp.make_doc(text))
    doc.cats = {"A": 1.0}
    [example] = read(nlp, {"topics": write("train", doc)})
    assert example.predicted.text == example.reference.text == text
    assert [span.text for span in example.reference.spans[PAIR_KEY]] == [
        "Is aspirin safe?",
        "It is.",
    ]
    assert set(example.predicted.spans) == set()


def take(factory, doc, **settings):
    """What an example for a component of a factory keeps, whether or not there is one."""
    reader = SimpleNamespace(name="own", cfg=settings, labels=())
    target = copy_bare(doc, list_annotation_keys())
    return find_head(factory).copy_layer(reader, doc, target), target


def test_relations_keep_entities_and_sentences(full):
    annotated, target = take("biomed_relations", full)
    assert annotated
    assert [relation.label for relation in target._.relations] == ["PREVENTS"]
    assert spans(target.ents) == [(0, 1, "DRUG")]
    assert set(target.spans) == set()
    assert target.cats == {}
    assert len(list(target.sents)) == 1


def test_entities_of_relations_lie_where_their_component_reads_them(full):
    _, target = take("biomed_relations", full, spans_key="drugs")
    assert spans(target.spans["drugs"]) == [(0, 1, "DRUG")]
    assert not target.has_annotation("ENT_IOB")
    _, target = take("biomed_relations", full, spans_key="diseases")
    assert spans(target.spans["diseases"]) == [(5, 6, "DISEASE")]


def test_marked_sentences_have_relations_and_no_entities(nlp):
    doc = Doc(nlp.vocab, words=WORDS)
    doc._.relations = []
    annotated, target = take("biomed_relations", doc, spans_key="drugs")
    assert annotated
    assert set(target.spans) == set()


def test_answers_keep_the_pair(full):
    full.user_data["question"] = "q1"
    annotated, target = take("biomed_qa", full)
    assert annotated
    assert set(target.spans) == {PAIR_KEY, "answer"}
    assert target.user_data["question"] == "q1"
    assert not target.has_annotation("ENT_IOB")
    assert (target.cats, target._.relations) == ({}, None)


@pytest.mark.parametrize("factory", ["biomed_relations", "biomed_qa", "biomed_similarity"])
def test_a_document_without_the_layer_is_not_annotated(full, factory):
    annotated, _ = take(factory, copy_bare(full, list_annotation_keys()))
    assert not annotated


def test_a_corpus_without_its_components_layer_is_refused(nlp, write):
    doc = Doc(nlp.vocab, words=WORDS)
    path = write("train", doc)
    with pytest.raises(BiomedError, match=r"train.spacy: no document has the layer that 'topics'"):
        read(nlp, {"topics": path})


def test_a_limit_is_of_each_corpus(nlp, write, full):
    path = write("train", full, full, full)
    examples = read(nlp, {"drugs": path, "topics": path}, limit=2)
    assert len(examples) == 4


def test_a_corpus_is_read_from_its_file_once(nlp, write, full):
    path = write("train", full, full)
    corpus = MultiTaskCorpus_v1({"topics": path})
    passes = [list(corpus(nlp))]
    path.unlink()
    passes += [list(corpus(nlp)), list(corpus(nlp))]
    assert [len(examples) for examples in passes] == [2, 2, 2]
    for examples in passes:
        assert [example.reference.cats for example in examples] == [full.cats, full.cats]
        assert [example.predicted.text for example in examples] == [full.text, full.text]
    documents = [doc for own in passes for one in own for doc in (one.predicted, one.reference)]
    assert len(set(map(id, documents))) == len(documents)  # what is done to one touches no other
    with pytest.raises((BiomedError, OSError)):  # of another vocabulary they would be others
        list(corpus(spacy.util.load_model_from_config(nlp.config)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paths": {}}, "has no paths"),
        ({"paths": {"none": "PATH"}}, "'none' is to train 'none', and the pipeline has drugs, "),
        ({"paths": {"a": "PATH"}, "components": {"b": "drugs"}}, "'b' is not among the corpora"),
        ({"paths": {"a": "PATH"}, "prefixed": ["b"]}, "'b' is not among the corpora"),
        ({"paths": {"drugs": "none.spacy"}}, "none.spacy: no such file"),
        ({"paths": {"a": "PATH"}, "components": {"a": "senter"}}, "'senter', a senter; multi"),
    ],
)
def test_bad_input_is_one_line(nlp, write, full, settings, message):
    nlp.add_pipe("senter")
    path = write("train", full)
    settings["paths"] = {
        name: path if given == "PATH" else given for name, given in settings["paths"].items()
    }
    with pytest.raises(BiomedError, match=message) as error:
        read(nlp, **settings)
    assert "\n" not in str(error.value)


def test_it_is_registered(nlp, write, full):
    settings = {"@readers": "spacy_biomed.MultiTaskCorpus.v1"}
    settings["paths"] = {"mine": str(write("train", full))}
    settings["components"] = {"mine": "drugs"}
    corpus = spacy.registry.resolve({"corpus": settings})["corpus"]
    assert len(list(corpus(nlp))) == 1
