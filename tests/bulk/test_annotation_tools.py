"""The round trip: annotate, write for an annotation tool, and read what the tool gives back."""

import json
import re

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_biomed.annotations import SpanRelation
from spacy_biomed.bulk import BulkSettings, annotate_collection
from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.formats import read_documents
from spacy_biomed.pipeline.mention_layer import install_extensions

TEXTS = {
    "emoji": "\U0001f600\U0001f9ec aspirin \U0001f600 for lung cancer \U0001f600",
    "line ends": "aspirin\r\nfor\r\n\r\nlung\r\ncancer\n",
    "spaces": "aspirin\u00a0for\u2009lung\u00a0cancer\u3000\taspirin",
    "combining": "cafe\u0301 aspirin n\u0303o lung cancer e\u0308",
    "empty": "",
    "none": "nothing <here> & \"there\" ]]> 'x' \\n",
    "n/1|\u00e9": "lung cancer",
}


@Language.component("test_annotation_tools", assigns=["doc._.relations", "doc.spans", "doc.cats"])
def annotate_more(doc: Doc) -> Doc:
    """Add overlapping spans, relations between them, confidences and a class."""
    drugs = [ent for ent in doc.ents if ent.label_ == "DRUG"]
    cancers = [ent for ent in doc.ents if ent.label_ == "DISEASE"]
    inner = [Span(doc, one.end - 1, one.end, label="SITE") for one in cancers]
    doc.spans["others"] = [*inner, *cancers]
    for number, span in enumerate([*drugs, *inner]):
        span._.confidence = 0.5 + number / 10
    pairs = [(drug, site, "treats") for drug in drugs for site in inner]
    pairs += [(cancer, drug, "cause") for cancer in cancers for drug in drugs[:1]]
    doc._.relations = [SpanRelation(*pair, 0.75) for pair in pairs]
    doc.cats = {"GOOD": 0.9, "BAD": 0.2}
    return doc


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with the pipeline and the texts."""
    folder = tmp_path_factory.mktemp("round_trip")
    install_extensions()
    nlp = spacy.blank("en")
    cancer = [{"ORTH": "lung"}, {"IS_SPACE": True, "OP": "?"}, {"ORTH": "cancer"}]
    nlp.add_pipe("entity_ruler").add_patterns(
        [
            {"label": "DRUG", "pattern": "aspirin", "id": "D1"},
            {"label": "DISEASE", "pattern": cancer},
        ]
    )
    nlp.add_pipe("test_annotation_tools")
    nlp.to_disk(folder / "pipeline")
    rows = (json.dumps({"id": id, "text": text}) for id, text in TEXTS.items())
    (folder / "notes.jsonl").write_text("\n".join(rows), encoding="utf8")
    return folder


@pytest.fixture
def write(inputs, tmp_path):
    """Annotate for a tool; return the output."""

    def run(format):
        output = tmp_path / f"notes.{format}"
        pipeline, source = str(inputs / "pipeline"), inputs / "notes.jsonl"
        annotate_collection(pipeline, source, output, BulkSettings(shard_size=4))
        return output

    return run


def submit(output):
    """What Label Studio exports after each prediction was submitted as it is."""
    tasks = [
        task for file in sorted(output.glob("part-*")) for task in json.loads(file.read_text())
    ]
    for number, task in enumerate(tasks, start=1):
        (prediction,) = task.pop("predictions")
        task.update(id=number, annotations=[{"result": prediction["result"]}], predictions=[])
    path = output.parent / "export.json"
    path.write_text(json.dumps(tasks), encoding="utf8")
    return [path]


def accept(output):
    """What Prodigy's `db-out` writes after each task was accepted as it is."""
    lines = [line for file in sorted(output.glob("part-*")) for line in file.open()]
    path = output.parent / "export.jsonl"
    task = {"_view_id": "relations", "answer": "accept"}
    path.write_text("\n".join(json.dumps({**json.loads(line), **task}) for line in lines))
    return [path]


def leave(output):
    return [output]


TOOLS = {"brat": leave, "inception": leave, "label_studio": submit, "prodigy": accept}


def describe(document):
    """Text, mentions and relations without the ids of mentions."""
    places = {mention.id: (mention.label, mention.fragments) for mention in document.mentions}
    related = {(one.label, places[one.head], places[one.tail]) for one in document.relations}
    assert len(places) == len(document.mentions)
    return document.text, set(places.values()), related


def expect(text):
    """What the pipeline finds: places of words, by searching for them."""
    places = [(text.find(word), word) for word in ("aspirin", "lung", "cancer")]
    drug, lung, cancer = (((at, at + len(word)),) for at, word in places)
    last = ((text.rfind("aspirin"), text.rfind("aspirin") + 7),)
    drugs = {("DRUG", place) for place in (drug, last) if place[0][0] >= 0}
    if cancer[0][0] < 0:
        return text, drugs, set()
    whole = ("DISEASE", ((lung[0][0], cancer[0][1]),))
    site = ("SITE", cancer)
    related = {("treats", one, site) for one in drugs}
    related |= {("cause", whole, ("DRUG", drug))} if drugs else set()
    return text, {*drugs, whole, site}, related


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_written_for_a_tool_is_read_as_it_was_found(write, tool):
    documents = list(read_documents(tool, TOOLS[tool](write(tool))))
    assert len(documents) == len(TEXTS)
    if tool != "brat":  # whose ids are names of files
        assert {document.id for document in documents} == set(TEXTS)
    found = {document.text: describe(document) for document in documents}
    assert found == {text: expect(text) for text in TEXTS.values()}


@pytest.mark.parametrize(
    ("tool", "identifier"),
    [
        ("brat", {"confidence": "0.5", "id": "D1"}),
        ("inception", {"confidence": "0.5", "identifier": "D1"}),
        ("label_studio", {"id": "D1"}),
        ("prodigy", {"id": "D1"}),
    ],
)
def test_the_identifier_of_an_entity_is_an_attribute(write, tool, identifier):
    documents = read_documents(tool, TOOLS[tool](write(tool)))
    (document,) = (one for one in documents if one.text == TEXTS["emoji"])
    (drug,) = (mention for mention in document.mentions if mention.label == "DRUG")
    assert drug.attributes == identifier


def test_classes_are_read_if_they_were_shown(write):
    (export,) = accept(write("prodigy"))
    for view, cats in (("relations", None), ("choice", {"BAD": 0.0, "GOOD": 1.0})):
        rows = [json.loads(line) for line in export.read_text().splitlines()]
        export.write_text("\n".join(json.dumps({**row, "_view_id": view}) for row in rows))
        assert [one.cats for one in read_documents("prodigy", [export])] == [cats] * len(TEXTS)
    documents = read_documents("label_studio", submit(write("label_studio")))
    assert [document.cats for document in documents] == [{"GOOD": 1.0}] * len(TEXTS)


def test_prodigy_gets_tokens_that_begin_and_end_its_spans(write):
    output = write("prodigy")
    task = json.loads((output / "part-00000.jsonl").read_text().splitlines()[0])
    tokens = task["tokens"]
    assert "".join(one["text"] + " " * one["ws"] for one in tokens) == task["text"]
    for span in task["spans"]:
        first, last = tokens[span["token_start"]], tokens[span["token_end"]]
        assert (span["start"], span["end"]) == (first["start"], last["end"])
        assert task["text"][span["start"] : span["end"]] == span["text"]
    (treats,) = (one for one in task["relations"] if one["label"] == "treats")
    assert treats["child"] == treats["child_span"]["token_end"]
    assert tokens[treats["child"]]["text"] == "cancer"
    assert task["meta"] == {"id": "emoji", "lowest confidence": 0.5}


def test_label_studio_gets_predictions_with_scores_and_ids_of_their_own(write):
    output = write("label_studio")
    tasks = [one for file in sorted(output.glob("part-*")) for one in json.loads(file.read_text())]
    predictions = [prediction for task in tasks for prediction in task["predictions"]]
    assert {one["model_version"] for one in predictions} == {"en_pipeline 0.0.0"}
    assert predictions[0]["score"] == 0.5
    assert "score" not in predictions[4]  # nothing was found
    regions = [one for prediction in predictions for one in prediction["result"] if "id" in one]
    assert len({one["id"] for one in regions}) == len(regions) > 10
    (drug, *_) = regions
    assert (drug["value"]["start"], drug["value"]["text"]) == (3, "aspirin")  # code points


def test_inception_gets_utf_16_offsets_and_tokens_that_begin_its_mentions(write):
    output = write("inception")
    cassis = pytest.importorskip("cassis")
    types = cassis.load_typesystem(output / "part-00000" / "TypeSystem.xml")
    xmi = (output / "part-00000" / "emoji.xmi").read_text("utf8")
    cas = cassis.load_cas_from_xmi(xmi, typesystem=types)
    assert cas.typecheck() == []
    assert [cas.get_covered_text(one) for one in cas.select("custom.Span")] == [
        "aspirin",
        "lung cancer",
        "cancer",
    ]
    assert '<custom:Span xmi:id="' in xmi and 'begin="5" end="12" label="DRUG"' in xmi
    token = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token"
    tokens = {one.begin for one in cas.select(token)}
    assert {one.begin for one in cas.select("custom.Span")} <= tokens


def test_characters_that_xml_does_not_have_become_spaces(inputs, tmp_path):
    (tmp_path / "notes.jsonl").write_text(json.dumps({"text": "\x0c\x01 aspirin\x0b\ufffe"}))
    output = tmp_path / "notes.inception"
    annotate_collection(str(inputs / "pipeline"), tmp_path / "notes.jsonl", output)
    (document,) = read_documents("inception", leave(output))
    assert document.text == "   aspirin  "
    assert document.mentions[0].fragments == ((3, 10),)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_shard_that_is_written_again_has_the_same_bytes(check_written_again, write, tool):
    check_written_again(write, tool)


def test_without_the_extra_nothing_is_written(write, monkeypatch, tmp_path):
    monkeypatch.setattr("spacy_biomed.formats.inception.find_spec", lambda name: None)
    with pytest.raises(
        BiomedError, match=re.escape(f"needs dkpro-cassis: {install_command('inception')}")
    ):
        write("inception")
    assert not (tmp_path / "notes.inception").exists()
