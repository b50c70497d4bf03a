import json
import re

import pytest
from refusals import refused
from stored_docs import stored

from spacy_biomed.corpora.convert import convert_corpus, create_pipeline
from spacy_biomed.corpora.gold import annotate, create_doc, create_gold_doc
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Relation
from spacy_biomed.formats.marked_relations import read_marked_relations, read_relation_tsv
from spacy_biomed.formats.registry import read_documents

MARKED = {"text": "<< Aspirin >> blocks ([[ COX-1 ]]).", "label": "INHIBITOR", "metadata": []}


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def arguments(document):
    return {
        mention.id: (document.text[mention.start : mention.end], mention.label)
        for mention in document.mentions
    }


# Reading


def test_a_marked_sentence_is_a_relation_between_its_marked_mentions(tmp_path):
    path = write(tmp_path / "train.txt", MARKED, "", {**MARKED, "label": "SUBSTRATE"})
    first, second = read_marked_relations(path)
    assert first.text == MARKED["text"]
    assert arguments(first) == {"T1": ("Aspirin", ""), "T2": ("COX-1", "")}
    assert first.relations == [Relation("INHIBITOR", "T1", "T2")]
    assert second.relations == [Relation("SUBSTRATE", "T1", "T2")]
    assert (second.id, second.source) == ("train-3", f"{path}:3")


@pytest.mark.parametrize("label", ["false", "0", "None", "NO_RELATION"])
def test_a_negative_label_is_no_relation(tmp_path, label):
    path = write(tmp_path / "train.jsonl", {**MARKED, "label": label})
    (document,) = read_marked_relations(path)
    assert document.relations == []
    assert arguments(document) == {"T1": ("Aspirin", ""), "T2": ("COX-1", "")}


def test_the_caller_says_which_labels_are_negative(tmp_path):
    path = write(tmp_path / "train.jsonl", {**MARKED, "label": "0"}, {**MARKED, "label": "CPR:10"})
    first, second = read_marked_relations(path, negative_labels=["cpr:10"])
    assert [one.label for one in first.relations] == ["0"]
    assert second.relations == []


def test_tab_separated_sentences_have_the_types_of_their_tags(tmp_path):
    path = write(
        tmp_path / "1" / "test.tsv",
        "index\tsentence\tlabel",
        "7\tNo @DISEASE$ without @GENE$.\t1",
        "8\t@GENE$ and @DISEASE$, apart.\t0",
    )
    first, second = read_relation_tsv(path)
    assert arguments(first) == {"T1": ("@DISEASE$", "DISEASE"), "T2": ("@GENE$", "GENE")}
    assert (first.id, first.relations) == ("7", [Relation("1", "T1", "T2")])
    assert (second.id, second.relations) == ("8", [])


def test_tab_separated_sentences_need_neither_index_nor_column_names(tmp_path):
    path = write(tmp_path / "train.tsv", "@GENE$ in @DISEASE$\t1", "@GENE$, @DISEASE$\t0")
    documents = list(read_relation_tsv(path))
    assert [document.id for document in documents] == ["train-1", "train-2"]
    assert [len(document.relations) for document in documents] == [1, 0]


def test_a_fold_is_chosen_by_the_path(tmp_path):
    for fold in ("1", "2"):
        for part in ("train", "test"):
            write(tmp_path / "gad" / fold / f"{part}.tsv", f"{fold}\t@A$ of @B$, {part}\t1")
    report = convert_corpus("gad", tmp_path / "gad" / "2", tmp_path / "out")
    assert {part: one.relations for part, one in report.parts.items()} == {
        "train": {"1": 1},
        "dev": {},
        "test": {"1": 1},
    }
    with pytest.raises(BiomedError, match="files in 2 folders.* name one, such as .*gad/1$"):
        list(read_relation_tsv(tmp_path / "gad"))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"text": "a"', "not JSON"),
        ('["a"]', "expected 'text' with a string"),
        ({"text": MARKED["text"]}, "expected 'label' with a string"),
        ({"text": MARKED["text"], "label": 1}, "expected 'label' with a string, found 1"),
        ({"text": "<< a >> [[b]]", "label": "A"}, "no two arguments in '<< a >>"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, what):
    path = write(tmp_path / "train.txt", MARKED, line)
    with refused(re.escape(f"train.txt:2: {what}")):
        list(read_documents("marked_relations", [path]))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1\t@A$ @B$\t1\t1", "4 columns; write index, sentence and label"),
        ("@A$ @B$", "1 columns"),
        ("1\t@A$ alone\t1", "no two arguments in '@A$ alone'"),
    ],
)
def test_a_bad_row_is_named(tmp_path, line, what):
    path = write(tmp_path / "train.tsv", "1\t@A$ @B$\t1", line)
    with pytest.raises(BiomedError) as error:
        list(read_documents("relation_tsv", [path]))
    assert f"train.tsv:2: {what}" in str(error.value)


# On the Doc


@pytest.fixture(scope="module")
def nlp():
    return create_pipeline("en")


def facts(doc):
    return [(head.text, head.label_, tail.text, tail.label_, label) for head, tail, label, _ in doc]


def test_a_marked_sentence_has_its_relation_and_no_entities(nlp, tmp_path):
    path = write(tmp_path / "a.jsonl", MARKED, {**MARKED, "label": "false"})
    positive, negative = (stored(create_gold_doc(nlp, one)) for one in read_marked_relations(path))
    assert facts(positive._.relations) == [("Aspirin", "", "COX-1", "", "INHIBITOR")]
    assert negative._.relations == []
    for doc in (positive, negative):
        assert not doc.has_annotation("ENT_IOB")
        assert doc._.unaligned_mentions == []


def test_tags_are_the_arguments_of_their_relation(nlp, tmp_path):
    path = write(tmp_path / "a.tsv", "1\tA @GENE$-linked (@DISEASE$).\t1")
    (document,) = read_relation_tsv(path)
    doc = create_gold_doc(nlp, document)
    assert facts(doc._.relations) == [("@GENE$", "GENE", "@DISEASE$", "DISEASE", "1")]
    assert not doc.has_annotation("ENT_IOB")


def test_arguments_that_overlap_have_one_tag(nlp, tmp_path):
    lines = ("index\tsentence\tlabel", "1.T1.T2\tThe @CHEM-GENE$ works.\tCPR:4")
    (document,) = read_relation_tsv(write(tmp_path / "a.tsv", *lines))
    doc = create_gold_doc(nlp, document)
    relation = ("@CHEM-GENE$", "CHEMICAL", "@CHEM-GENE$", "GENE", "CPR:4")
    assert facts(doc._.relations) == [relation]


def test_chemprot_is_read_whole_and_its_relations_fit_the_tokens(nlp, corpora_dir):
    folder = corpora_dir("chemprot")
    counts = {}
    for part in ("train", "dev", "test"):
        documents = list(read_marked_relations(folder / f"{part}.txt"))
        counts[part] = len(documents)
        assert all(len(document.relations) == 1 for document in documents)
        for document in documents[::20]:
            assert annotate(create_doc(nlp, document), document).lost_relations == []
    assert counts == {"train": 4169, "dev": 2427, "test": 3469}
