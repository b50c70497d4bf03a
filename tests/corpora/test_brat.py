import re

import pytest

from spacy_biomed.corpora import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.brat import read_brat
from spacy_biomed.formats.documents import Relation, list_concepts


def write(folder, text, annotations, name="doc"):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"{name}.txt").write_bytes(text.encode("utf-8"))
    (folder / f"{name}.ann").write_bytes(annotations.encode("utf-8"))
    return folder


def read_one(folder, text, annotations):
    (document,) = read_brat(write(folder, text, annotations))
    return document


def test_offsets_count_code_points(tmp_path):
    document = read_one(tmp_path, "😀 é cáncer", "T1\tD 4 10\tcáncer\n")
    assert document.mentions[0].fragments == ((4, 10),)
    assert document.id == "doc"


def test_discontinuous_and_nested_mentions_are_kept(tmp_path):
    document = read_one(
        tmp_path,
        "breast and lung cancer",
        "T1\tD 0 6;16 22\tbreast cancer\nT2\tD 11 22\tlung cancer\nT3\tP 11 15\tlung\n",
    )
    assert [mention.fragments for mention in document.mentions] == [
        ((0, 6), (16, 22)),
        ((11, 22),),
        ((11, 15),),
    ]
    assert [mention.is_discontinuous for mention in document.mentions] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "line", "fragments"),
    [
        ("lung\ncancer", "T1\tD 0 11\tlung cancer\n", ((0, 11),)),
        ("lung\ncancer", "T1\tD 0 4;5 11\tlung cancer\n", ((0, 11),)),
        ("a b c", "T1\tD 0 1; 4 5\ta c\n", ((0, 1), (4, 5))),
        ("a b c", "T1\tD 4 5;0 1\tc a\n", ((0, 1), (4, 5))),
    ],
    ids=["line end", "only a line end between", "space between", "put in order"],
)
def test_fragments(tmp_path, text, line, fragments):
    assert read_one(tmp_path, text, line).mentions[0].fragments == fragments


def test_arguments_that_are_numbered_have_one_role(tmp_path):
    document = read_one(
        tmp_path,
        "A binds B, C2",
        "T1\tG 0 1\tA\nT2\tE 2 7\tbinds\nT3\tG 8 9\tB\nT4\tG 11 13\tC2\n"
        "E1\tE:T2 Theme:T1 Theme2:T3 Site2:T4\n",
    )
    assert [(one.label, one.tail) for one in document.relations] == [
        ("Theme", "T1"),
        ("Theme", "T3"),
        ("Site2", "T4"),
    ]


A_INHIBITS_B = """T1\tG 0 1\tA
T2\tInhibition 2 10\tinhibits
T3\tG 11 12\tB
T4\tS 16 17\tC
"""


@pytest.mark.parametrize(
    ("lines", "relations"),
    [
        ("R1\tIn Arg1:T3 Arg2:T4\t\n", [("In", "T3", "T4", "R1")]),
        (
            "E1\tInhibition:T2 Agent:T1 Theme:T3\nE2\tInhibition:T2 Cause:E1\n",
            [("Agent", "T2", "T1", "E1"), ("Theme", "T2", "T3", "E1"), ("Cause", "T2", "T2", "E2")],
        ),
        (
            "*\tEquiv T1 T3 T4\n",
            [("Equiv", "T1", "T3", "*"), ("Equiv", "T1", "T4", "*")],
        ),
        # An event without a trigger relates its first argument to the others.
        (
            "E1\tRegulation Agent:T1 Target:T3 Tissue:T4\nE2\tPart Whole:T4 Of:E1\n",
            [
                ("Regulation", "T1", "T3", "E1"),
                ("Tissue", "T1", "T4", "E1"),
                ("Part", "T4", "T1", "E2"),
            ],
        ),
    ],
    ids=["relation", "events", "equivalence", "no trigger"],
)
def test_relations_events_and_equivalences_become_relations(tmp_path, lines, relations):
    document = read_one(tmp_path, "A inhibits B in C", A_INHIBITS_B + lines)
    assert document.relations == [Relation(*one) for one in relations]


def test_annotations_of_shared_tasks_are_read_from_two_files(tmp_path):
    (tmp_path / "a.txt").write_text("Bug in gut", encoding="utf-8")
    (tmp_path / "a.a1").write_text(
        "T1\tBacteria 0 3\tBug\nT2\tHabitat 7 10\tgut\n", encoding="utf-8"
    )
    (tmp_path / "a.a2").write_text("R1\tLives_In Bacteria:T1 Location:T2\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("No bug", encoding="utf-8")
    (tmp_path / "b.a1").write_text("T1\tBacteria 3 6\tbug\n", encoding="utf-8")
    first, second = read_brat(tmp_path)
    assert [mention.label for mention in first.mentions] == ["Bacteria", "Habitat"]
    assert first.relations == [Relation("Lives_In", "T1", "T2", "R1")]
    assert [mention.id for mention in second.mentions] == ["T1"] and second.relations == []


def test_a_bad_line_of_a_shared_task_is_named_with_its_file(tmp_path):
    (tmp_path / "a.txt").write_text("Bug in gut", encoding="utf-8")
    (tmp_path / "a.a1").write_text("T1\tBacteria 0 3\tBug\n", encoding="utf-8")
    (tmp_path / "a.a2").write_text("\nR1\tLives_In Bacteria:T1 Location:T9\n", encoding="utf-8")
    with pytest.raises(BiomedError, match=r"a\.a2:2: there is no T9 in this file"):
        list(read_brat(tmp_path))


def test_relations_are_absent_where_no_file_has_any(tmp_path):
    write(tmp_path, "A", "T1\tG 0 1\tA\n", "a")
    assert next(read_brat(tmp_path)).relations is None
    write(tmp_path, "A B", "T1\tG 0 1\tA\nT2\tG 2 3\tB\nR1\tX Arg1:T1 Arg2:T2\n", "b")
    assert [len(document.relations) for document in read_brat(tmp_path)] == [0, 1]


def test_attributes_normalisations_and_notes_are_kept_with_their_mention(tmp_path):
    document = read_one(
        tmp_path,
        "no pain",
        "T1\tS 3 7\tpain\nA1\tNegated T1\nM1\tCertainty T1 High\nN1\tReference T1 UMLS:C1\tPain\n"
        "N2\tReference T1 UMLS:C2\tAche\n#1\tAnnotatorNotes T1\tchecked twice\n#2\tOther R9\tx\n",
    )
    assert document.mentions[0].attributes == {
        "Negated": "true",
        "Certainty": "High",
        "UMLS": "C1; C2",
        "AnnotatorNotes": "checked twice",
    }
    assert list_concepts(document.mentions[0])[2:4] == ["C1", "C2"]


def test_normalisations_of_shared_tasks_are_kept_by_their_resource(tmp_path):
    annotations = "T1\tS 3 7\tpain\nN1\tOnto Annotation:T1 Referent:OBT:1\n"
    document = read_one(tmp_path, "no pain", annotations)
    assert document.mentions[0].attributes == {"Onto": "OBT:1"}


@pytest.mark.parametrize(
    ("text", "annotations"),
    [
        ("a\r\nlung", "T1\tD 3 7\tlung\r\n"),
        ("a\r\nlung", "T1\tD 2 6\tlung\r\n"),
        ("\ufeffa\nlung", "T1\tD 2 6\tlung\n"),
        ("\ufeffa\nlung", "T1\tD 3 7\tlung\n"),
        ("\ufeffa\nlung", "\ufeffT1\tD 2 6\tlung\n"),
        ("\ufeffa\r\nlung", "T1\tD 4 8\tlung\r\n"),
    ],
    ids=["crlf", "crlf-as-one", "bom", "bom-counted", "bom-in-both", "bom-and-crlf"],
)
def test_carriage_returns_and_byte_order_marks_count_as_the_covered_strings_say(
    tmp_path, text, annotations
):
    document = read_one(tmp_path, text, annotations)
    mention = document.mentions[0]
    assert document.text[mention.start : mention.end] == "lung"
    assert not document.text.startswith("\ufeff")


def test_files_in_sub_folders_are_read_and_named_by_their_path(tmp_path):
    write(tmp_path / "b", "B", "")
    write(tmp_path / "a", "A", "T1\tX 0 1\tA")
    assert [document.id for document in read_brat(tmp_path)] == ["a/doc", "b/doc"]


def test_an_empty_ann_file_says_that_there_is_no_mention(tmp_path):
    assert read_one(tmp_path, "nothing", "").mentions == []


def test_a_file_without_its_counterpart_is_named(tmp_path):
    write(tmp_path, "A", "", "a")
    (tmp_path / "b.txt").write_text("B")
    with pytest.raises(BiomedError, match=r"b\.txt: there is no b\.ann beside it"):
        list(read_brat(tmp_path))
    (tmp_path / "b.txt").rename(tmp_path / "c.ann")
    with pytest.raises(BiomedError, match=r"c\.ann: there is no c\.txt beside it"):
        list(read_brat(tmp_path))


@pytest.mark.parametrize(
    ("annotations", "line", "what"),
    [
        ("T1\tD 0 4\tlung\nT2 D 0 4 lung\n", 2, "malformed line"),
        ("T1\tD 0 4\n", 1, "malformed line"),
        ("T1\tD 0 x\tlung\n", 1, "malformed line"),
        ("T1\tD 0 4;\tlung\n", 1, "malformed line"),
        ("X1\tD 0 4\tlung\n", 1, "malformed line"),
        ("T1\tD 0 4\tlung\nR1\tX Arg1:T1\n", 2, "malformed line"),
        ("T1\tD 0 4\tlung\nR1\tX T1 T1\n", 2, "malformed line"),
        ("T1\tD 0 4\tlung\nA1\tNegated\n", 2, "malformed line"),
        ("T1\tD 0 4\tlung\nN1\tReference T1 C1\n", 2, "malformed line"),
        ("T1\tD 0 4\tlung\nE1\tX\n", 2, "malformed line"),
        ("T1\tD 0 4\tlung\nR1\t \n", 2, "malformed line"),
        ("T1\tD 0 4\tlung\n*\t \n", 2, "malformed line"),
        ("T1\tD 0 4\tlung\nA1\t \n", 2, "malformed line"),
        ("\nT1\tD 0 40\ttongue\n", 2, "beyond the text's end at 11"),
        ("T1\tD 5 11\ttongue\n", 1, "the annotation reads 'tongue' but the text at 5-11"),
        ("T1\tD 4 4\t\n", 1, "covers nothing"),
        ("T1\tD -4 4\ttongue\n", 1, "covers nothing"),
        ("T1\tD 0 4;2 6\tlung ng c\n", 1, "overlap"),
        ("T1\tD 0 4\tlung\nT1\tD 5 11\tcancer\n", 2, "T1 is there twice"),
        ("T1\tD 0 4\tlung\nR1\tX Arg1:T1 Arg2:T9\n", 2, "there is no T9"),
        ("T1\tD 0 4\tlung\nA1\tNegated T9\n", 2, "there is no T9"),
    ],
)
def test_a_bad_line_is_named(tmp_path, annotations, line, what):
    with pytest.raises(BiomedError, match=rf"doc\.ann:{line}: .*{re.escape(what)}"):
        read_one(tmp_path, "lung cancer", annotations)


def test_a_wrong_encoding_is_named(tmp_path):
    write(tmp_path, "año", "")
    (tmp_path / "doc.txt").write_bytes("año".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"doc\.txt:1: the byte at offset 1 is not UTF-8"):
        list(read_brat(tmp_path))


def test_an_empty_text_without_annotations_is_a_document(tmp_path):
    document = read_one(tmp_path, "", "")
    assert (document.text, document.mentions) == ("", [])


def test_an_empty_text_and_a_missing_folder_are_named(tmp_path):
    write(tmp_path, "", "T1\tD 0 1\ta\n")
    with pytest.raises(BiomedError, match=r"doc\.txt: the file is empty"):
        list(read_brat(tmp_path))
    with pytest.raises(BiomedError, match="no such file or folder"):
        list(read_brat(tmp_path / "absent"))


def test_annotations_by_themselves_are_refused_in_conversion(tmp_path):
    source = write(tmp_path / "a", "lung", "T1\tD 0 4\tlung\n") / "doc.ann"
    with pytest.raises(BiomedError, match="no document of the part all .*: check its files"):
        convert_corpus("own", source, tmp_path / "out", format="brat")


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("corpus", ["jnlpba", "cantemist", "meddocan"])
def test_published_files_have_a_mention_for_every_entity_line(corpora_dir, corpus):
    folder = corpora_dir(corpus)
    files = list(folder.rglob("*.ann"))
    lines = sum(
        line.startswith("T") for file in files for line in file.read_text("utf-8").split("\n")
    )
    documents = list(read_brat(folder))
    assert len(documents) == len(files)
    assert sum(len(document.mentions) for document in documents) == lines
