"""What is certain is repaired; what is not stops the conversion or is left out; all is listed."""

import json
import time

import pytest

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Mention
from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.repairs import keeping_log, leaving_out, locate

TEXT = "Aspirin and “baby” aspirin – not β‑blockers – help.\nBence-\nJones protein, aspirin."


def place(string, *fragments, text=TEXT):
    with keeping_log("stop") as log:
        mention = locate(text, Mention("X", fragments), string, "a.ann:3")
    return mention.fragments, [change.kind for change in log.changes]


@pytest.mark.parametrize(
    ("string", "fragment"),
    [("Aspirin", (0, 7)), ("“baby” aspirin", (12, 26)), ("Bence-Jones", (52, 64))],
)
def test_what_reads_as_quoted_is_no_change_whatever_the_white_space(string, fragment):
    assert place(string, fragment) == ((fragment,), [])


@pytest.mark.parametrize("string", ["aspirin", " aspirin ", None])
def test_white_space_at_the_edges_of_a_mention_is_left_out(string):
    assert place(string, (18, 27)) == (((19, 26),), [])


def test_a_fragment_of_nothing_but_white_space_is_left_out():
    assert place("Aspirin baby", (0, 8), (26, 27), (13, 17)) == (((0, 7), (13, 17)), [])


@pytest.mark.parametrize(
    ("string", "fragment", "found"),
    [
        ("Aspirin", (1, 8), (0, 7)),
        ("Aspirin", (-2, 5), (0, 7)),
        ("aspirin", (21, 28), (19, 26)),
        ("aspirin", (100, 107), (74, 81)),
        ("Bence-Jones", (50, 61), (52, 64)),
        ("Bence - Jones protein", (49, 70), (52, 72)),
        ('"baby" aspirin', (15, 29), (12, 26)),
        ("β-blockers", (30, 30), (33, 43)),
    ],
)
def test_an_annotation_is_moved_to_where_its_text_stands_nearby(string, fragment, found):
    assert place(string, fragment) == ((found,), ["moved"])


@pytest.mark.parametrize(
    ("string", "fragment"), [("β-Blockers", (33, 43)), ('"baby"', (12, 18)), ("ASPIRIN", (19, 26))]
)
def test_other_capitals_quotes_and_dashes_are_noted(string, fragment):
    assert place(string, fragment) == ((fragment,), ["spelt otherwise"])


def test_a_word_that_stands_there_twice_is_taken_where_it_is_nearer():
    text = "a gene, a gene, a gene"
    assert place("gene", (9, 13), text=text) == (((10, 14),), ["moved"])
    with pytest.raises(BiomedError, match=r"a\.ann:3: the annotation reads 'gene'"):
        place("gene", (6, 10), text=text)


def test_fragments_are_moved_together():
    assert place("Aspirin help", (1, 8), (47, 51)) == (((0, 7), (46, 50)), ["moved"])


@pytest.mark.parametrize("fragment", [(0, 8), (0, 10**18), (500, 507), (7, 3)])
def test_what_stands_nowhere_near_is_refused(fragment):
    with pytest.raises(BiomedError, match=r"^a\.ann:3: "):
        place("ibuprofen", fragment)


@pytest.mark.parametrize("text", ["x " * 100_000, "x" * 200_000])
def test_long_annotations_are_compared_and_not_looked_for(text):
    with pytest.raises(BiomedError):
        place("y" * 100_000, (0, 100_000), text=text)


def test_annotations_of_many_fragments_are_compared_and_not_looked_for():
    begin = time.process_time()
    with pytest.raises(BiomedError):
        place("Aspirin help", *((n, n + 1) for n in range(50_000)), text="ab " * 50_000)
    assert time.process_time() - begin < 2


BRAT = """T1\tDRUG 1 8\tAspirin
T2\tDRUG 12 20\tibuprofen
T3\tDRUG 19 26\taspirin
A1\tNegated T2
#1\tAnnotatorNotes T2\tnote
R1\tsame Arg1:T1 Arg2:T2
R2\tsame Arg1:T1 Arg2:T3
Q1\twhat
"""


def write_corpus(folder):
    for part in ("train", "dev"):
        (folder / part).mkdir(parents=True)
        (folder / part / "a.txt").write_text(TEXT, encoding="utf-8")
        (folder / part / "a.ann").write_text("T1\tDRUG 0 7\tAspirin\n")
    (folder / "train" / "a.ann").write_text(BRAT)
    return folder


def test_by_default_conversion_stops_and_names_the_option(tmp_path):
    with pytest.raises(BiomedError, match=r"train/a\.ann:8: .* --on-error skip$") as error:
        convert_corpus("x", write_corpus(tmp_path / "x"), tmp_path / "out", format="brat")
    assert str(error.value).count("--on-error") == 1
    assert not (tmp_path / "out").exists()


def test_with_skip_what_is_wrong_is_left_out_with_what_is_said_of_it(tmp_path):
    source = write_corpus(tmp_path / "x")
    report = convert_corpus("x", source, tmp_path / "out", format="brat", on_error="skip")
    assert report.parts["train"].changes == {"moved": 1, "left out": 5}
    assert report.parts["dev"].changes == {}
    assert report.parts["train"].mentions == {"DRUG": 2}
    assert report.parts["train"].relations == {"same": 1}
    listed = json.loads((tmp_path / "out" / "conversion.json").read_text(encoding="utf-8"))
    file = str(source / "train" / "a.ann")
    assert listed["on_error"] == "skip"
    found = {(change["kind"], change["file"], change["line"]) for change in listed["changes"]}
    assert found == {("moved", file, 1), *(("left out", file, line) for line in (2, 4, 5, 6, 8))}


def test_without_flaws_nothing_is_listed(tmp_path):
    source = write_corpus(tmp_path / "x")
    (source / "train" / "a.ann").write_text("")
    convert_corpus("x", source, tmp_path / "out", format="brat")
    listed = json.loads((tmp_path / "out" / "conversion.json").read_text(encoding="utf-8"))
    assert listed == {"on_error": "stop", "counts": {}, "changes": []}


def skip(tmp_path, format, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with keeping_log("skip") as log:
        documents = list(read_documents(format, [path]))
    return documents, [(change.kind, change.line) for change in log.changes]


def test_a_line_of_json_lines_is_left_out(tmp_path):
    lines = '{"text": "one"}\n{"text": 5}\n{"text\n{"text": "\\ud800"}\n{"text": "two"}\n'
    documents, changes = skip(tmp_path, "jsonl", "a.jsonl", lines)
    assert [document.text for document in documents] == ["one", "two"]
    assert changes == [("left out", line) for line in (2, 3, 4)]


def test_lines_of_bioc_json_are_known(tmp_path):
    annotation = {"id": "T1", "infons": {"type": "X"}, "locations": [{"offset": 1, "length": 3}]}
    annotations = [{**annotation, "text": text} for text in ("one", "six")]
    passage = {"offset": 0, "text": "one two", "annotations": annotations}
    content = {"documents": [{"id": "1", "passages": [passage]}]}
    text = json.dumps(content, indent=0)
    documents, changes = skip(tmp_path, "bioc", "a.json", text)
    assert [mention.fragments for mention in documents[0].mentions] == [((0, 3),)]
    # Each annotation begins with a line of its own, before that of its id.
    lines = [n for n, line in enumerate(text.split("\n")) if '"id": "T1"' in line]
    assert changes == [("moved", lines[0]), ("left out", lines[1])]


def test_a_question_without_its_answer_is_left_out(tmp_path):
    answers = [[{"text": "one", "answer_start": 0}], [{"text": "six", "answer_start": 0}]]
    qas = [{"id": n, "question": "?", "answers": answers[n]} for n in (0, 1)]
    content = {"data": [{"paragraphs": [{"context": "one two", "qas": qas}]}]}
    documents, changes = skip(tmp_path, "squad", "a.json", json.dumps(content))
    assert [document.id for document in documents] == ["0"]
    assert changes == [("left out", None)]


def test_errors_outside_a_conversion_do_not_name_the_option():
    with pytest.raises(BiomedError, match="^wrong$"), leaving_out():
        raise BiomedError("wrong")


def test_files_without_their_counterpart_are_left_out(tmp_path):
    source = write_corpus(tmp_path / "x")
    (source / "train" / "README.txt").write_text("read me")
    (source / "dev" / "b.ann").write_text("T1\tDRUG 0 1\tx\n")
    report = convert_corpus("x", source, tmp_path / "out", format="brat", on_error="skip")
    assert [part.documents for part in report.parts.values()] == [1, 1]
    assert [part.changes["left out"] for part in report.parts.values()] == [6, 1]
