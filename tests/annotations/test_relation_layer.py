"""Relations on a Doc."""

import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_biomed.annotations.relation_layer import SpanRelation


def _make_doc() -> Doc:
    doc = spacy.blank("en")("Aspirin inhibits COX and lipoxygenase.")
    head, tail = Span(doc, 0, 1, label="CHEMICAL"), Span(doc, 2, 3, label="GENE")
    doc._.relations = [SpanRelation(head, tail, "CPR:4", 0.75)]
    return doc


def test_relations_are_read_as_they_were_set():
    doc = _make_doc()
    ((head, tail, label, score),) = doc._.relations
    assert (head.text, head.label_, tail.text, tail.label_) == (
        "Aspirin",
        "CHEMICAL",
        "COX",
        "GENE",
    )
    assert (label, score) == ("CPR:4", 0.75)


def test_absent_relations_are_none_and_no_relations_an_empty_list():
    doc = spacy.blank("en")("Aspirin.")
    assert doc._.relations is None
    doc._.relations = []
    assert doc._.relations == []
    doc._.relations = None
    assert doc._.relations is None


def test_relations_survive_a_doc_bin_and_the_disk(tmp_path):
    doc = _make_doc()
    content = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (restored,) = DocBin().from_bytes(content).get_docs(doc.vocab)
    doc.to_disk(tmp_path / "doc")
    from_disk = Doc(doc.vocab).from_disk(tmp_path / "doc")
    for copy in (restored, from_disk):
        ((head, tail, label, score),) = copy._.relations
        assert (head.text, tail.text, label, score) == ("Aspirin", "COX", "CPR:4", 0.75)
