"""The scope of a layer of mentions, and how it is stored."""

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_biomed.annotations.annotation_scope import (
    EVERY_LABEL,
    AnnotationScope,
    annotates_any,
    get_scope,
    set_scope,
)
from spacy_biomed.corpora.gold import create_gold_doc
from spacy_biomed.corpora.mention_replacement import replace_mentions
from spacy_biomed.formats.documents import Document, Mention

SCOPE = AnnotationScope(frozenset({"GENE", "DISEASE"}), ((0, 4, "GENE"), (9, 12, "DISEASE")))


@pytest.fixture
def doc():
    return spacy.blank("en").make_doc("p53s and flu")


def test_a_layer_without_a_scope_annotates_every_label(doc):
    assert get_scope(doc) == get_scope(doc, "layer") == EVERY_LABEL
    assert not EVERY_LABEL.leaves_open(0, 4, "GENE")
    assert annotates_any(doc, ["GENE"])


def test_layers_of_one_document_have_scopes_of_their_own(doc):
    set_scope(doc, SCOPE)
    set_scope(doc, AnnotationScope(frozenset({"CELL"})), "layer")
    assert get_scope(doc) == SCOPE
    assert get_scope(doc, "layer").labels == {"CELL"}
    assert annotates_any(doc, ["CELL", "GENE"]) and not annotates_any(doc, ["CELL"])


def test_other_labels_and_uncertain_regions_are_left_open():
    assert SCOPE.leaves_open(5, 8, "SPECIES")
    assert SCOPE.leaves_open(3, 8, "GENE")
    assert not SCOPE.leaves_open(4, 8, "GENE")
    assert not SCOPE.leaves_open(0, 4, "DISEASE")


@pytest.mark.parametrize("spans_key", [None, "layer"])
def test_a_scope_survives_corpora_and_files(doc, spans_key, tmp_path):
    set_scope(doc, SCOPE, spans_key)
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "corpus.spacy")
    (read,) = DocBin().from_disk(tmp_path / "corpus.spacy").get_docs(spacy.blank("en").vocab)
    doc.to_disk(tmp_path / "doc")
    loaded = Doc(spacy.blank("en").vocab).from_disk(tmp_path / "doc")
    assert get_scope(read, spans_key) == get_scope(loaded, spans_key) == SCOPE


def test_a_copy_of_a_document_may_get_another_scope(doc):
    set_scope(doc, SCOPE)
    copy = doc.copy()
    set_scope(copy, AnnotationScope(frozenset()))
    assert get_scope(doc) == SCOPE


@pytest.mark.parametrize("spans_key", [None, "layer"])
def test_conversion_sets_the_scope_of_the_layer_that_it_writes(spans_key):
    document = Document(
        "1",
        "p53 family",
        mentions=[],
        annotated_labels=frozenset({"GENE"}),
        uncertain=(Mention("GENE", ((0, 3), (4, 10))),),
    )
    gold = create_gold_doc(spacy.blank("en"), document, spans_key)
    regions = ((0, 3, "GENE"), (4, 10, "GENE"))
    assert get_scope(gold, spans_key) == AnnotationScope(frozenset({"GENE"}), regions)
    document.mentions = None
    assert get_scope(create_gold_doc(spacy.blank("en"), document)) == EVERY_LABEL


def test_uncertain_regions_move_with_the_text_that_mentions_are_replaced_in():
    text = "Gout and gout, not the kinases"
    region = Mention("GENE", ((23, 30),))
    mentions = [Mention("DISEASE", ((0, 4),)), Mention("DISEASE", ((9, 13),))]
    document = Document("1", text, mentions=mentions, uncertain=(region,))
    other = Document("2", "his anaemia", mentions=[Mention("DISEASE", ((4, 11),))])
    copies = [one for one in replace_mentions([document, other], None, 20, 0) if "#" in one.id]
    moved = [one for one in copies if one.id.startswith("1") and one.text != text]
    assert moved
    for one in moved:
        (found,) = one.uncertain
        assert one.text[found.start : found.end] == "kinases"
