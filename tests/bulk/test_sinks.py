"""Outputs in the formats of corpora, read by the readers of corpora."""

import json
from collections import Counter

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_biomed import BiomedError
from spacy_biomed.annotations import SpanRelation
from spacy_biomed.bulk import BulkSettings, annotate_collection
from spacy_biomed.files import Item
from spacy_biomed.formats import Mention, Relation, read_brat, read_pubtator
from spacy_biomed.formats.findings import AnnotatedDocument, AnnotatedShard, describe, find_layers
from spacy_biomed.formats.registry import get_format, list_outputs
from spacy_biomed.formats.spacy_docs import read_docs

TEXTS = {
    "a": "Title\naspirin for cancer",
    "b/c": "no",
    "..": "cancer",
    "B%2Fc": "aspirin\ttab",
    "x" * 300: "cancer",
}


class _NotPlain: ...


@Language.component("test_relates", assigns=["doc._.relations"])
def relate(doc: Doc) -> Doc:
    doc._.relations = [SpanRelation(*doc.ents, "IS USED", 0.5)] if len(doc.ents) == 2 else []
    doc.user_data["other"] = _NotPlain()
    doc.user_data["plain"] = [1, {"a": None}]
    return doc


@pytest.fixture
def annotate(ruler, tmp_path):
    """Annotate the texts as a folder of notes; return the output."""
    nlp = spacy.load(ruler)
    nlp.add_pipe("test_relates")
    nlp.to_disk(tmp_path / "pipeline")
    spacy.blank("en").to_disk(tmp_path / "blank")
    rows = "".join(
        spacy.util.srsly.json_dumps({"id": k, "text": v}) + "\n" for k, v in TEXTS.items()
    )
    (tmp_path / "notes.jsonl").write_text(rows)

    def run(name: str, source: str = "notes.jsonl"):
        settings = BulkSettings(shard_size=4)
        annotate_collection(
            str(tmp_path / "pipeline"), tmp_path / source, tmp_path / name, settings
        )
        return tmp_path / name

    return run


def test_brat(annotate):
    output = annotate("out.brat")
    documents = {document.id: document for document in read_brat(output)}
    long = "x" * 150 + "-4"
    names = ["part-00000/a", "part-00000/b%2Fc", "part-00000/%2E.", "part-00000/B%252Fc"]
    assert set(documents) == {*names, f"part-00001/{long}"}
    assert [documents[name].text for name in names] == list(TEXTS.values())[:4]
    first = documents["part-00000/a"]
    assert first.mentions == [
        Mention("DRUG", ((6, 13),), "T1", {"id": "D1"}),
        Mention("DISEASE", ((18, 24),), "T2"),
    ]
    assert first.relations == [Relation("IS_USED", "T1", "T2", "R1")]


def test_names_that_differ_in_case_alone_get_a_number(ruler, tmp_path):
    lines = ['{"id": "Note", "text": "a"}', '{"id": "note", "text": "b"}']
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    annotate_collection(str(ruler), tmp_path / "notes.jsonl", tmp_path / "out.brat")
    names = sorted(path.name for path in (tmp_path / "out.brat" / "part-00000").iterdir())
    assert names == ["Note.ann", "Note.txt", "note-1.ann", "note-1.txt"]


def test_a_document_never_has_the_file_of_another_with_a_number_in_its_name(ruler, tmp_path):
    rows = [{"id": id, "text": f"Aspirin {id}."} for id in ("a", "a-2", "a", "a-2")]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    annotate_collection(str(ruler), tmp_path / "notes.jsonl", tmp_path / "out.brat")
    texts = sorted(path.read_text() for path in (tmp_path / "out.brat").rglob("*.txt"))
    assert texts == sorted(row["text"] for row in rows)


def test_a_mention_across_lines_has_a_fragment_for_each(ruler, tmp_path):
    nlp = spacy.load(ruler)
    nlp.get_pipe("entity_ruler").add_patterns(
        [
            {
                "label": "LUNG CANCER",
                "pattern": [{"ORTH": "lung"}, {"IS_SPACE": True}, {"ORTH": "tumour"}],
            }
        ]
    )
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "n.txt").write_text("a lung\ntumour")
    annotate_collection(str(tmp_path / "pipeline"), tmp_path / "notes", tmp_path / "out.brat")
    folder = tmp_path / "out.brat" / "part-00000"
    assert (folder / "n.ann").read_text() == "T1\tLUNG_CANCER 2 6;7 13\tlung tumour\n"


def test_pubtator(annotate):
    output = annotate("out.pubtator")
    documents = list(read_pubtator(output / "part-00000.pubtator"))
    assert [document.id for document in documents] == ["a", "b/c", "..", "B%2Fc"]
    assert documents[0].text == "Title aspirin for cancer"
    assert documents[0].mentions == [
        Mention("DRUG", ((6, 13),), "", {"concept": "D1"}),
        Mention("DISEASE", ((18, 24),)),
    ]
    assert documents[3].text == "aspirin tab "


def test_pubtator_keeps_the_titles_of_its_input(ruler, tmp_path):
    texts = [
        "1|t|On aspirin",
        "1|a|It has no cancer.",
        "",
        "2|t|",
        "2|a|Only aspirin",
        "",
        "3|t|aspirin",
        "3|a|",
    ]
    (tmp_path / "in.pubtator").write_text("\n".join(texts))
    annotate_collection(str(ruler), tmp_path / "in.pubtator", tmp_path / "out.pubtator")
    output = tmp_path / "out.pubtator" / "part-00000.pubtator"
    lines = output.read_text().splitlines()
    assert [line for line in lines if "|" in line or not line][:8] == texts
    found = [
        (one.text, [one.text[m.start : m.end] for m in one.mentions])
        for one in read_pubtator(output)
    ]
    assert found == [
        ("On aspirin It has no cancer.", ["aspirin", "cancer"]),
        (" Only aspirin", ["aspirin"]),
        ("aspirin ", ["aspirin"]),
    ]


def test_pubtator_documents_of_one_id_get_a_number(ruler, tmp_path):
    lines = ['{"id": "7", "text": "a"}', '{"id": "7", "text": "b"}']
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    annotate_collection(str(ruler), tmp_path / "notes.jsonl", tmp_path / "out.pubtator")
    documents = read_pubtator(tmp_path / "out.pubtator" / "part-00000.pubtator")
    assert [(one.id, one.text) for one in documents] == [("7", "a "), ("7-1", "b ")]


def test_spacy(annotate):
    output = annotate("out.spacy")
    docs = list(read_docs(output / "part-00000.spacy", Vocab()))
    assert [doc.text for doc in docs] == list(TEXTS.values())[:4]
    assert [doc.user_data["document_id"] for doc in docs] == list(TEXTS)[:4]
    assert [(ent.text, ent.label_, ent.ent_id_) for ent in docs[0].ents] == [
        ("aspirin", "DRUG", "D1"),
        ("cancer", "DISEASE", ""),
    ]
    assert [(one.head.text, one.label, one.score) for one in docs[0]._.relations] == [
        ("aspirin", "IS USED", 0.5)
    ]
    assert docs[0].user_data["plain"] == (1, {"a": None})  # as MessagePack gives lists
    assert "other" not in docs[0].user_data


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["out.brat", "out.spacy", "out.pubtator", "out.jsonl"])
def test_a_shard_that_is_not_recorded_is_replaced_by_the_same_bytes(
    check_written_again, annotate, name
):
    check_written_again(annotate, name)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["first.spacy", "first.pubtator", "first.brat"])
def test_an_output_is_an_input_again(annotate, name):
    first = annotate(name)
    second = annotate("second.jsonl", name)
    rows = [
        spacy.util.srsly.json_loads(line)
        for path in sorted(second.glob("part-*"))
        for line in path.read_text("utf8").splitlines()
    ]
    assert len(rows) == len(TEXTS)
    assert sum(len(row["entities"]) for row in rows) == 5
    assert first.exists()


class CountedDoc:
    """A document that counts how often its text is read, which takes time for each word."""

    def __init__(self, doc):
        self.doc, self.reads = doc, 0

    def __getattr__(self, name):
        return getattr(self.doc, name)

    def __len__(self):
        return len(self.doc)

    def __iter__(self):
        return iter(self.doc)

    @property
    def text(self):
        self.reads += 1
        return self.doc.text


@pytest.mark.parametrize("format", sorted({*list_outputs()} - {"spacy"}))
def test_a_text_is_not_read_for_each_of_its_mentions(ruler, format):
    try:
        get_format(format).require(format)
    except BiomedError as error:
        pytest.skip(str(error))
    nlp = spacy.load(ruler)
    doc = CountedDoc(nlp("aspirin and cancer " * 20))
    layers = find_layers(nlp)
    document = AnnotatedDocument(0, Item("1", doc.doc.text), doc, describe(doc.doc, layers))
    meanings = {"DRUG": {"resource": "MedicationStatement"}, "DISEASE": {"resource": "Condition"}}
    write = get_format(format).write
    assert write(AnnotatedShard([document], layers, Counter(), meanings=meanings))
    assert doc.reads < 10
