import re
from contextlib import nullcontext

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Relation
from spacy_biomed.formats.pubtator import read_pubtator
from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.repairs import keeping_log

ONE = (
    "12|t|Naloxone and pain\n"
    "12|a|Clonidine|x lowers pain.\n"
    "12\t0\t8\tNaloxone\tChemical\tD009270\n"
    "12\t18\t27\tClonidine\tChemical\n"
    "12\t37\t41\tpain\tDisease\tD010146\n"
)


def read(tmp_path, text):
    path = tmp_path / "part.txt"
    path.write_text(text, encoding="utf-8", newline="")
    return list(read_pubtator(path))


def test_offsets_run_over_title_and_abstract(tmp_path):
    (document,) = read(tmp_path, ONE)
    assert document.text == "Naloxone and pain Clonidine|x lowers pain."
    assert [(document.text[m.start : m.end], m.label) for m in document.mentions] == [
        ("Naloxone", "Chemical"),
        ("Clonidine", "Chemical"),
        ("pain", "Disease"),
    ]
    assert [mention.attributes for mention in document.mentions] == [
        {"concept": "D009270"},
        {},
        {"concept": "D010146"},
    ]
    assert document.relations is None


def test_documents_follow_each_other_with_and_without_blank_lines(tmp_path):
    documents = read(tmp_path, f"{ONE}\r\n13|t|Second\r\n13|a|\r\n14|t|Third\n")
    assert [(document.id, document.text) for document in documents[1:]] == [
        ("13", "Second "),
        ("14", "Third"),
    ]
    assert documents[1].mentions == []


def test_relations_are_between_concepts(tmp_path):
    documents = read(tmp_path, f"{ONE}12\tCID\tD009270\tD010146\tNovel\n\n13|t|Second\n")
    assert documents[0].relations == [Relation("CID", "D009270", "D010146")]
    assert documents[1].relations == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("12\t0\t8\tNaloxone", "malformed line"),
        ("12 0 8 Naloxone Chemical", "a line of '12 0 8 Naloxone Chemical'"),
        ("12\tCID\tD009270", "malformed line"),
        ("13\t0\t8\tNaloxone\tChemical", "a line of '13' within document '12'"),
        ("12\t37\t60\tgout\tDisease", "beyond the text's end at 42"),
        ("12\t0\t8\tNaloxon!\tChemical", "the annotation reads 'Naloxon!'"),
        ("12\t8\t8\t\tChemical", "covers nothing"),
        ("12|a|again", "an abstract after mentions"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, what):
    with pytest.raises(BiomedError, match=rf"part\.txt:6: .*{re.escape(what)}"):
        read(tmp_path, f"{ONE}{line}\n13|t|Next\n")


def test_a_second_abstract_is_named(tmp_path):
    with pytest.raises(BiomedError, match=r"part\.txt:3: .*another abstract"):
        read(tmp_path, "1|t|a\n1|a|b\n1|a|c\n")


def test_a_mention_before_the_first_title_is_named(tmp_path):
    with pytest.raises(BiomedError, match=r"part\.txt:2: expected a title"):
        read(tmp_path, "\n12\t0\t8\tabstract\tx\n")


def test_an_abstract_without_a_title_is_a_document(tmp_path):
    documents = read(tmp_path, f"11|a|Gout hurts.\n11\t0\t4\tGout\tDisease\n\n13|a|Rest.\n{ONE}")
    assert [(document.id, document.text[:11]) for document in documents] == [
        ("11", "Gout hurts."),
        ("13", "Rest."),
        ("12", "Naloxone an"),
    ]
    assert [mention.label for mention in documents[0].mentions] == ["Disease"]


def test_further_lines_of_an_abstract_are_left_out_with_what_they_have(tmp_path):
    text = (
        "1|t|Naloxone\n1|a|First line.\nSecond line of naloxone.\n1|a|Third line.\n"
        "1\t0\t8\tNaloxone\tC\n1\t36\t44\tnaloxone\tC\n\n2|t|Next\n2|a|One.\n"
    )
    with keeping_log("skip") as log:
        first, second = read(tmp_path, text)
    assert first.text == "Naloxone First line." and second.text == "Next One."
    assert [mention.read(first.text) for mention in first.mentions] == ["Naloxone"]
    assert [change.line for change in log.changes] == [3, 4, 6]


def test_two_documents_with_one_id_are_refused(tmp_path):
    blocks = (
        "7|t|Gout\n7|a|It hurts.\n\n8|t|Ague\n\n7|t|Gout\n7|a|It hurts.\n7\t0\t4\tGout\tDisease\n"
    )
    file = tmp_path / "a.pubtator"
    file.write_text(blocks)
    (tmp_path / "b.pubtator").write_text("8|t|Ague\n")
    with pytest.raises(BiomedError, match="a.pubtator:6: there is a document '7' already"):
        list(read_pubtator(tmp_path))
    with keeping_log("skip") as log:
        assert [document.id for document in read_documents("pubtator", [tmp_path])] == ["7", "8"]
    assert [(change.kind, change.line) for change in log.changes] == [
        ("left out", 6),
        ("left out", 1),
    ]


def test_a_copy_of_a_document_is_read_once(tmp_path):
    block = "7|t|Gout\n7|a|It hurts.\n7\t0\t4\tGout\tDisease\n\n"
    for copy, message in ((block, None), (block.replace("Disease", "Sign"), "7' already; remove")):
        (tmp_path / "a.pubtator").write_text(block + copy)
        expected = pytest.raises(BiomedError, match=message) if message else nullcontext()
        with expected, keeping_log("stop") as log:
            (document,) = read_documents("pubtator", [tmp_path])
            assert [mention.label for mention in document.mentions] == ["Disease"]
            assert [(change.kind, change.line) for change in log.changes] == [("left out", 5)]


def test_columns_behind_the_concept_are_kept(tmp_path):
    (tmp_path / "a.txt").write_text(
        "7|t|V600E\n7\t0\t5\tV600E\tVariant\tp|SUB|V|600|E\tRSID:1\tx\n"
    )
    ((mention,),) = [document.mentions for document in read_pubtator(tmp_path)]
    assert mention.attributes == {"concept": "p|SUB|V|600|E", "further": "RSID:1; x"}
