"""`spacy_biomed.annotate`: batches as Arrow tables."""

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from spacy.tokens import Span
from without_training import run_code

import spacy_biomed
from spacy_biomed import BiomedError
from spacy_biomed.annotations import SpanRelation
from spacy_biomed.bulk import annotate_collection
from spacy_biomed.files.sources import Item
from spacy_biomed.formats.findings import (
    AnnotatedDocument,
    Layers,
    describe,
    find_layers,
    list_mentions,
)
from spacy_biomed.formats.tables import FoundTables

CODES = ("code", "code_name", "code_confidence")
TEXTS = ["aspirin for cancer", "nothing", "no aspirin"]


@pytest.fixture
def nlp(ruler):
    return spacy.load(ruler)


def test_texts_are_numbered(nlp):
    (batch,) = spacy_biomed.annotate(nlp, TEXTS)
    assert batch.documents.to_pydict() == {
        "document": [0, 1, 2],
        "id": ["0", "1", "2"],
        "characters": [18, 7, 10],
        "words": [3, 1, 2],
    }
    columns = ["id", "start", "end", "text", "label", "attributes"]
    assert batch.entities.select(columns).to_pylist() == [
        dict(zip(columns, row, strict=True))
        for row in [
            ("0", 0, 7, "aspirin", "DRUG", [("id", "D1")]),
            ("0", 12, 18, "cancer", "DISEASE", []),
            ("2", 3, 10, "aspirin", "DRUG", [("id", "D1")]),
        ]
    ]
    assert (batch.relations, batch.answers, batch.errors) == (None, None, [])


def test_pairs_are_identifier_and_text(nlp):
    batches = list(spacy_biomed.annotate(nlp, zip("abc", TEXTS, strict=True), rows=2))
    assert [batch.documents["id"].to_pylist() for batch in batches] == [["a", "b"], ["c"]]
    assert [batch.entities["document"].to_pylist() for batch in batches] == [[0, 0], [2]]


def test_identifiers_of_pairs_are_those_of_files(nlp):
    ids = [17.0, float("nan"), None, "n", uuid.UUID(int=1)]
    (batch,) = spacy_biomed.annotate(nlp, [(id, "aspirin") for id in ids])
    assert batch.documents["id"].to_pylist() == ["17", "1", "2", "n", str(ids[-1])]


@pytest.mark.parametrize("source", [{"n1": "aspirin"}, pa.table({"text": ["aspirin"]})])
def test_a_table_or_mapping_is_refused(nlp, source):
    with pytest.raises(BiomedError, match="is a table: give its text column"):
        next(spacy_biomed.annotate(nlp, source))


@pytest.mark.parametrize("gap", [None, float("nan"), 7])
def test_what_is_no_text_is_an_error_and_the_others_are_annotated(nlp, gap):
    (batch,) = spacy_biomed.annotate(nlp, [gap, "aspirin"])
    assert batch.errors == [{"id": "0", "reason": f"no text, but {type(gap).__name__}"}]
    assert batch.entities["id"].to_pylist() == ["1"]
    (batch,) = spacy_biomed.annotate(nlp, [("a", gap), (5, "aspirin")])
    assert [error["id"] for error in batch.errors] == ["a"]
    assert batch.entities["id"].to_pylist() == ["5"]


def test_a_file_that_changes_while_it_is_read_is_an_error(nlp, tmp_path):
    (tmp_path / "notes.txt").write_text("aspirin\n" * 6)
    batches = spacy_biomed.annotate(nlp, tmp_path / "notes.txt", rows=2)
    next(batches)
    (tmp_path / "notes.txt").write_text("cancer\n" * 3)
    with pytest.raises(BiomedError, match="changes while it is read"):
        list(batches)


def test_a_generator_is_read_no_further_than_needed(nlp):
    taken = []

    def texts():
        for text in TEXTS:
            taken.append(text)
            yield text

    next(spacy_biomed.annotate(nlp, texts(), rows=1))
    assert taken == TEXTS[:1]


def test_a_file_gives_the_tables_that_the_command_writes(nlp, ruler, tmp_path):
    path = tmp_path / "notes.jsonl"
    rows = [{"key": number, "note": text} for number, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"key": 3}]))
    columns = spacy_biomed.files.Columns("note", "key")
    settings = spacy_biomed.bulk.BulkSettings(columns, shard_size=2)
    annotate_collection(str(ruler), path, tmp_path / "out", settings)
    batches = list(spacy_biomed.annotate(nlp, path, text_column="note", id_column="key", rows=2))
    for table in ("documents", "entities"):
        written = pq.read_table(tmp_path / "out" / table)
        assert pa.concat_tables(getattr(batch, table) for batch in batches).equals(written)
    assert [batch.errors for batch in batches] == [
        [],
        [{"id": "3", "reason": "no text in the column note"}],
    ]


def test_classes_relations_and_answers_have_columns_and_tables_of_their_own(nlp):
    @spacy.Language.component("test_layers", assigns=["doc.cats", "doc._.relations"])
    def add_layers(doc):
        doc.cats = {"b": 0.25, "a": 1.0}
        if len(doc.ents) == 2:
            doc._.relations = [SpanRelation(*doc.ents, "TREATS", 0.5)]
        return doc

    nlp.add_pipe("test_layers")
    (batch,) = spacy_biomed.annotate(nlp, TEXTS)
    assert batch.documents["cats"].to_pylist() == [[("a", 1.0), ("b", 0.25)]] * 3
    assert batch.relations.to_pylist() == [
        {
            "document": 0,
            "id": "0",
            "head_start": 0,
            "head_end": 7,
            "head_label": "DRUG",
            "tail_start": 12,
            "tail_end": 18,
            "tail_label": "DISEASE",
            "label": "TREATS",
            "confidence": 0.5,
        }
    ]
    assert batch.answers is None


def test_answers_are_no_entities_and_the_texts_of_a_pair_are_neither():
    doc = spacy_biomed.pair(spacy.blank("en"), "Which drug?", "Aspirin for gout")
    doc.spans["answer"] = [doc.char_span(12, 19, label="answer")]
    layers = Layers(cats=False, relations=False, answers=True)
    found = describe(doc, layers)
    assert found["entities"] == []
    answer = {"start": 12, "end": 19, "text": "Aspirin", "confidence": None}
    assert found["answers"] == [answer]
    document = AnnotatedDocument(7, Item("n"), doc, found)
    tables = dict(FoundTables([document], layers).tables())
    assert list(tables) == ["documents", "entities", "answers"]
    assert tables["answers"].to_pylist() == [{"document": 7, "id": "n", **answer}]


def test_codes_are_columns_and_no_attributes():
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_linker")
    doc = nlp.make_doc("Aspirin for gout")
    doc.set_ents([Span(doc, 0, 1, "DRUG", kb_id="D1"), Span(doc, 2, 3, "DISEASE")])
    linked = {"code": "D1", "code_name": "aspirin", "code_confidence": 0.5, "candidates": []}
    doc.user_data[("._.", "linked", 0, 7)] = {"DRUG": linked}
    found = describe(doc, find_layers(nlp))
    document = AnnotatedDocument(0, Item("n"), doc, found)
    tables = dict(FoundTables([document], find_layers(nlp)).tables())
    drug, disease = tables["entities"].to_pylist()
    assert [drug[name] for name in CODES] == ["D1", "aspirin", 0.5]
    assert [disease[name] for name in CODES] == [None] * 3
    assert drug["attributes"] == [("kb_id", "D1")]
    mentions, _ = list_mentions(doc.text, found)
    assert mentions[0].attributes["code_name"] == "aspirin"


@pytest.mark.parametrize(
    ("factory", "layers"),
    [
        ("biomed_ner", Layers(False, False, False)),
        ("biomed_textcat", Layers(True, False, False)),
        ("textcat", Layers(True, False, False)),
        ("biomed_relations", Layers(False, True, False)),
        ("biomed_qa", Layers(False, False, True)),
        ("biomed_linker", Layers(False, False, False, fields=CODES)),
    ],
)
def test_the_components_decide_on_the_layers(factory, layers):
    nlp = spacy.blank("en")
    nlp.add_pipe(factory)
    assert find_layers(nlp) == layers


def test_a_source_that_is_not_there_is_refused(nlp, tmp_path):
    with pytest.raises(BiomedError, match="no such file or folder"):
        next(spacy_biomed.annotate(nlp, tmp_path / "none.jsonl"))


@pytest.mark.slow
def test_it_imports_no_torch(ruler):
    code = (
        "import sys, spacy_biomed\n"
        "from spacy_biomed.bulk import annotated_batches\n"
        "print({'torch', 'transformers'} & sys.modules.keys() - before)"
    )
    code = "import sys, spacy; before = set(sys.modules)\n" + code
    assert run_code(code).strip() == "set()"
