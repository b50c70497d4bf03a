import re

import pytest
from refusals import refused

from spacy_biomed.corpora.convert import create_pipeline
from spacy_biomed.corpora.gold import create_gold_doc
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Relation
from spacy_biomed.formats.i2b2_2010 import read_i2b2_2010

TEXT = (
    "Discharge Summary\n"
    "\n"
    'She took  Aspirin 81 mg for her "dull" chest\n'
    "pain , and an EKG showed no ST changes .\n"
)
CONCEPTS = (
    'c="aspirin 81 mg" 3:2 3:4||t="treatment"\n'
    'c="her "dull" chest pain" 3:6 4:0||t="problem"\n'
    'c="an ekg" 4:3 4:4||t="test"\n'
    'c="st changes" 4:7 4:8||t="problem"\n'
)
ASSERTIONS = (
    'c="her "dull" chest pain" 3:6 4:0||t="problem"||a="present"\n'
    'c="st changes" 4:7 4:8||t="problem"||a="absent"\n'
)
RELATIONS = (
    'c="aspirin 81 mg" 3:2 3:4||r="TrAP"||c="her "dull" chest pain" 3:6 4:0\n'
    'c="an ekg" 4:3 4:4||r="TeRP"||c="st changes" 4:7 4:8\n'
)


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode("utf-8"))
    return folder


def layout(**changes):
    """The owners' folders, with other contents of single kinds of files."""
    contents = {"con": CONCEPTS, "ast": ASSERTIONS, "rel": RELATIONS, "txt": TEXT} | changes
    folders = {"con": "beth/concept", "ast": "beth/ast", "rel": "beth/rel", "txt": "beth/txt"}
    return {
        f"{folders[suffix]}/record-1.{suffix}": content
        for suffix, content in contents.items()
        if content is not None
    }


def read_one(folder, **changes):
    (document,) = read_i2b2_2010(write(folder, layout(**changes)))
    return document


def test_lines_and_words_become_offsets(tmp_path):
    document = read_one(tmp_path)
    assert document.id == "record-1"
    assert document.text == TEXT
    assert [(TEXT[m.start : m.end], m.label) for m in document.mentions] == [
        ("Aspirin 81 mg", "treatment"),
        ('her "dull" chest\npain', "problem"),
        ("an EKG", "test"),
        ("ST changes", "problem"),
    ]


def test_assertions_are_attributes_and_relations_go_from_first_to_second(tmp_path):
    document = read_one(tmp_path)
    assert [mention.attributes.get("assertion") for mention in document.mentions] == [
        None,
        "present",
        None,
        "absent",
    ]
    assert document.relations == [
        Relation("TrAP", "3:2 3:4", "3:6 4:0"),
        Relation("TeRP", "4:3 4:4", "4:7 4:8"),
    ]


def test_a_concept_that_ends_a_word_late_keeps_its_assertion_and_relations(tmp_path):
    changes = {
        "con": CONCEPTS.replace("4:7 4:8", "4:7 4:9"),
        "ast": ASSERTIONS.replace("4:7 4:8", "4:7 4:9"),
        "rel": RELATIONS.replace("4:7 4:8", "4:7 4:9"),
    }
    document = read_one(tmp_path, **changes)
    mention = document.mentions[-1]
    assert TEXT[mention.start : mention.end] == "ST changes"
    assert mention.attributes == {"assertion": "absent"}
    assert document.relations[-1] == Relation("TeRP", "4:3 4:4", "4:7 4:9")


def test_lines_are_sentences_and_words_tokens(tmp_path):
    document = read_one(tmp_path)
    doc = create_gold_doc(create_pipeline("en"), document)
    assert doc.text == TEXT
    assert [token.text for token in doc if not token.is_space][:5] == [
        "Discharge",
        "Summary",
        "She",
        "took",
        "Aspirin",
    ]
    assert [TEXT[start:end].split()[0] for start, end in document.sentences] == [
        "Discharge",
        "She",
        "pain",
    ]
    ((head, tail, label, _), _) = doc._.relations
    assert (head.text, tail.label_, label) == ("Aspirin 81 mg", "problem", "TrAP")


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(tmp_path):
    text = "\ufeff" + TEXT.replace("\n", "\r\n")
    document = read_one(tmp_path, txt=text, con=CONCEPTS.replace("\n", "\r\n"))
    assert [document.text[m.start : m.end].split()[-1] for m in document.mentions] == [
        "mg",
        "pain",
        "EKG",
        "changes",
    ]


def test_two_concepts_at_one_place_are_both_kept(tmp_path):
    document = read_one(
        tmp_path, con='c="an ekg" 4:3 4:4||t="test"\nc="an ekg" 4:3 4:4||t="treatment"\n',
        ast=None, rel=None,
    )  # fmt: skip
    assert [mention.label for mention in document.mentions] == ["test", "treatment"]


def test_a_report_without_concepts_is_left_out_and_one_with_an_empty_file_has_none(tmp_path):
    files = layout() | {
        "partners/unannotated/x.txt": "Not annotated",
        "a/y.txt": "b",
        "a/y.con": "",
    }
    documents = list(read_i2b2_2010(write(tmp_path, files)))
    assert [(document.id, len(document.mentions)) for document in documents] == [
        ("record-1", 4),
        ("y", 0),
    ]
    assert documents[1].relations == []


def test_without_files_of_relations_they_are_not_annotated(tmp_path):
    assert read_one(tmp_path, rel=None, ast=None).relations is None


@pytest.mark.parametrize(
    ("changes", "where", "what"),
    [
        ({"con": CONCEPTS + "c=an ekg 4:3\n"}, "record-1.con:5", "malformed line"),
        ({"con": 'c="x" 9:0 9:1||t="test"\n'}, "record-1.con:1", "no words at 9:0 9:1"),
        ({"con": 'c="x" 1:0 1:2||t="test"\n'}, "record-1.con:1", "no words at 1:0 1:2"),
        ({"con": 'c="x" 0:0 1:0||t="test"\n'}, "record-1.con:1", "no words at 0:0 1:0"),
        ({"con": 'c="x" 3:4 3:2||t="test"\n'}, "record-1.con:1", "covers nothing"),
        ({"con": 'c="an ecg" 4:3 4:4||t="test"\n'}, "record-1.con:1", "'an ecg' but the text"),
        ({"ast": 'c="she" 3:0 3:0||t="problem"||a="x"\n'}, "record-1.ast:1", "concept at 3:0 3:0"),
        ({"ast": CONCEPTS}, "record-1.ast:1", "malformed line"),
        ({"rel": 'c="ekg" 4:3 4:4||r="TeRP"||c="she" 3:0 3:0'}, "record-1.rel:1", "concept at 3"),
        ({"rel": "TeRP\n"}, "record-1.rel:1", "malformed line"),
        ({"txt": None}, "record-1.ast", "there is no record-1.txt"),
        ({"con": None}, "", "no .con file in this folder"),
        ({"txt": ""}, "record-1.txt", "the file is empty"),
    ],
)  # fmt: skip
def test_bad_files_are_named_with_file_and_line(tmp_path, changes, where, what):
    with refused(f"{re.escape(where)}: .*{re.escape(what)}"):
        read_one(tmp_path, **changes)


def test_a_wrong_encoding_is_named_with_its_line(tmp_path):
    folder = write(tmp_path, layout())
    (folder / "beth/txt/record-1.txt").write_bytes(TEXT.encode() + "naïve".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"record-1\.txt:5: the byte at offset \d+ is not UTF-8"):
        list(read_i2b2_2010(folder))


def test_two_files_of_one_name_are_refused(tmp_path):
    files = layout() | {"partners/txt/record-1.txt": TEXT}
    with pytest.raises(BiomedError, match=r"record-1\.txt: there is .*record-1\.txt of this name"):
        list(read_i2b2_2010(write(tmp_path, files)))


def test_an_assertion_is_about_the_concept_of_its_type(tmp_path):
    concepts = CONCEPTS + 'c="st changes" 4:7 4:8||t="test"\n'
    document = read_one(tmp_path, con=concepts)
    found = {(one.label, one.id): one.attributes for one in document.mentions}
    assert found["problem", "4:7 4:8"] == {"assertion": "absent"}
    assert found["test", "4:7 4:8"] == {}
