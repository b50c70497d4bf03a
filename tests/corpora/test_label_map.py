"""Labels renamed, left out, and made uncertain."""

import json
from dataclasses import replace

import pytest
import spacy

from spacy_biomed.annotations.annotation_scope import get_scope
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.corpora.label_map import map_labels, parse_label_map
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Document, Mention, Relation
from spacy_biomed.formats.spacy_docs import read_docs

DOCUMENT = Document(
    "1",
    "p53 of the kinases in HeLa",
    mentions=[
        Mention("Gene", ((0, 3),), "T1"),
        Mention("Family", ((11, 18),), "T2"),
        Mention("Cell", ((22, 26),), "T3"),
    ],
    relations=[Relation("in", "T1", "T3"), Relation("of", "T1", "T2")],
)


def test_labels_are_renamed_left_out_or_made_uncertain():
    label_map = parse_label_map(["Gene=GENE", "Family=?GENE", "Cell="])
    ((mapped,),) = map_labels({"train": [DOCUMENT]}, label_map).values()
    assert [(one.label, one.id) for one in mapped.mentions] == [("GENE", "T1")]
    assert [(one.label, one.start, one.end) for one in mapped.uncertain] == [("GENE", 11, 18)]
    assert mapped.relations == []
    assert label_map.rename_all(["Gene", "Family", "Cell", "Other"]) == {"GENE", "Other"}
    assert DOCUMENT.mentions[0].label == "Gene"


def test_an_attribute_is_not_the_argument_that_is_left_out():
    first, *others = DOCUMENT.mentions
    mentions = [replace(first, attributes={"stage": "T3"}), *others]
    document = replace(DOCUMENT, mentions=mentions, relations=[Relation("in", "T2", "T3")])
    ((mapped,),) = map_labels({"train": [document]}, parse_label_map(["Cell="])).values()
    assert mapped.relations == []


def test_several_labels_may_get_one_name_and_others_stay():
    ((mapped,),) = map_labels({"all": [DOCUMENT]}, parse_label_map(["Gene=G", "Family=G"])).values()
    assert [one.label for one in mapped.mentions] == ["G", "G", "Cell"]
    assert mapped.relations == DOCUMENT.relations


@pytest.mark.parametrize("pair", ["Gene", "=GENE", "Gene=?"])
def test_what_is_no_map_is_refused(pair):
    with pytest.raises(BiomedError, match=rf"--map {pair.replace('?', '.')}: write LABEL=NAME"):
        parse_label_map([pair])


def test_a_label_is_mapped_once():
    with pytest.raises(BiomedError, match="Gene is mapped twice"):
        parse_label_map(["Gene=A", "Gene=B"])


def test_a_label_that_the_corpus_does_not_have_is_refused():
    with pytest.raises(BiomedError, match="'Gen'; it has Cell, Family, Gene"):
        map_labels({"train": [DOCUMENT]}, parse_label_map(["Gen=GENE"]))


def test_a_message_quotes_little_of_labels_and_no_control_character():
    mentions = [Mention(f"\x1b[2J{number}", ((0, 3),)) for number in range(1000)]
    with pytest.raises(BiomedError) as error:
        map_labels({"train": [Document("1", "p53", mentions)]}, parse_label_map(["Gen=GENE"]))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("label", ["", "?"])
def test_a_label_that_is_written_like_a_target_stays_if_the_map_does_not_name_it(label):
    mentions = [Mention(label, ((0, 3),)), Mention("Gene", ((0, 3),))]
    document = Document("1", "p53", mentions)
    ((mapped,),) = map_labels({"train": [document]}, parse_label_map(["Gene=GENE"])).values()
    assert [mention.label for mention in mapped.mentions] == [label, "GENE"]
    assert mapped.uncertain == ()


@pytest.fixture
def source(tmp_path):
    mentions = [(one.start, one.end, one.label) for one in DOCUMENT.mentions]
    spans = [dict(zip(("start", "end", "label"), one, strict=True)) for one in mentions]
    lines = [{"text": DOCUMENT.text, "spans": spans}, {"text": "Nothing", "spans": []}]
    for part in ("train", "dev"):
        path = tmp_path / "source" / f"{part}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path.parent


def convert(source, output, **settings):
    convert_corpus("own", source, output, format="jsonl", **settings)
    docs = list(read_docs(output / "dev.spacy", spacy.blank("en").vocab))
    return docs, json.loads((output / "corpus.json").read_text())


def test_a_converted_corpus_knows_what_it_annotates(source, tmp_path):
    docs, description = convert(source, tmp_path / "out")
    assert description["annotated_labels"] == ["Cell", "Family", "Gene"]
    assert all(get_scope(doc).labels == {"Cell", "Family", "Gene"} for doc in docs)


def test_a_catalogue_corpus_annotates_the_labels_it_is_published_with(tmp_path):
    (tmp_path / "train.tsv").write_text("Lung\tB-Disease\n\n" * 2)
    for part in ("devel", "test"):
        (tmp_path / f"{part}.tsv").write_text("Lung\tO\n\n")
    convert_corpus("bc5cdr", tmp_path, tmp_path / "out")
    (doc,) = read_docs(tmp_path / "out" / "test.spacy", spacy.blank("en").vocab)
    assert get_scope(doc).labels == {"Chemical", "Disease"}


def test_a_mapped_corpus_annotates_the_new_labels(source, tmp_path):
    label_map = parse_label_map(["Gene=GENE", "Family=?GENE", "Cell=CELL"])
    docs, description = convert(source, tmp_path / "out", label_map=label_map, labels=["GENE"])
    assert description["annotated_labels"] == description["labels"] == ["GENE"]
    assert description["parts"]["dev"]["uncertain"] == 1
    assert [(ent.text, ent.label_) for ent in docs[0].ents] == [("p53", "GENE")]
    assert [get_scope(doc).labels for doc in docs] == [{"GENE"}, {"GENE"}]
    assert get_scope(docs[0]).uncertain == ((11, 18, "GENE"),)
