import re

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.chemprot import read_chemprot
from spacy_biomed.formats.documents import Relation

ABSTRACTS = (
    "11\tEsterol blocks KLX1.\tIn mice, esterol lowered KLX2 too.\n12\tNothing here.\tNor here.\n"
)
ENTITIES = (
    "11\tT1\tCHEMICAL\t0\t7\tEsterol\n"
    "11\tT2\tCHEMICAL\t30\t37\testerol\n"
    "11\tT3\tGENE-Y\t15\t19\tKLX1\n"
    "11\tT4\tGENE-N\t46\t50\tKLX2\n"
)
RELATIONS = "11\tCPR:4\tY \tINHIBITOR\tArg1:T1\tArg2:T3\n11\tCPR:10\tN \tNOT\tArg1:T2\tArg2:T4\n"


def write(folder, abstracts=ABSTRACTS, entities=ENTITIES, relations=RELATIONS, end=""):
    contents = {"abstracts": abstracts, "entities": entities, "relations": relations}
    for kind, content in contents.items():
        if content is not None:
            path = folder / f"chemprot_training_{kind}{end}.tsv"
            path.write_text(content, encoding="utf-8")
    (folder / "chemprot_training_gold_standard.tsv").write_text("11\tCPR:4\tArg1:T1\tArg2:T3\n")
    return folder


def test_offsets_run_over_title_and_abstract(tmp_path):
    first, second = read_chemprot(write(tmp_path))
    assert first.text == "Esterol blocks KLX1. In mice, esterol lowered KLX2 too."
    assert [(first.text[m.start : m.end], m.label) for m in first.mentions] == [
        ("Esterol", "CHEMICAL"),
        ("esterol", "CHEMICAL"),
        ("KLX1", "GENE-Y"),
        ("KLX2", "GENE-N"),
    ]
    assert (second.id, second.mentions, second.relations) == ("12", [], [])


def test_only_evaluated_groups_are_relations(tmp_path):
    assert next(iter(read_chemprot(write(tmp_path)))).relations == [Relation("CPR:4", "T1", "T3")]


def test_the_files_of_the_test_part_are_found(tmp_path):
    folder = write(tmp_path, end="_gs")
    assert len(list(read_chemprot(folder))) == 2
    assert len(list(read_chemprot(folder / "chemprot_training_abstracts_gs.tsv"))) == 2


@pytest.mark.parametrize(
    ("kind", "line", "what"),
    [
        ("abstracts", "13\tA title", "2 columns; write id, title, abstract"),
        ("abstracts", "11\tA title\tAn abstract", "abstract 11 is there twice"),
        ("entities", "11\tT5\tCHEMICAL\t0\t7", "5 columns; write id, T1, type"),
        ("entities", "99\tT5\tCHEMICAL\t0\t7\tEsterol", "there is no abstract 99"),
        ("entities", "11\tT5\tCHEMICAL\t0\tseven\tEsterol", "'0' and 'seven' are not offsets"),
        ("entities", "11\tT5\tCHEMICAL\t50\t99\tSteroid", "beyond the text's end at 55"),
        ("entities", "11\tT5\tCHEMICAL\t1\t8\tSteroid", "reads 'Steroid' but the text at 1-8"),
        ("relations", "11\tCPR:4\tY\tINHIBITOR\tArg1:T1\tArg2:T9", "'Arg2:T9' is not an entity"),
        ("relations", "11\tCPR:4\tY\tINHIBITOR\tT1\tArg2:T3", "'T1' is not an entity"),
        ("relations", "11\tCPR:4\t?\tINHIBITOR\tArg1:T1\tArg2:T3", "'?' in the third column"),
        ("relations", "12\tCPR:4\tY\tINHIBITOR\tArg1:T1\tArg2:T3", "'Arg1:T1' is not an entity"),
    ],
)
def test_bad_lines_are_named_with_file_and_line(tmp_path, kind, line, what):
    contents = {"abstracts": ABSTRACTS, "entities": ENTITIES, "relations": RELATIONS}
    number = contents[kind].count("\n") + 1
    write(tmp_path, **{kind: contents[kind] + line + "\n"})
    where = rf"chemprot_training_{kind}\.tsv:{number}: "
    with pytest.raises(BiomedError, match=where + f".*{re.escape(what)}"):
        list(read_chemprot(tmp_path))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"abstracts": None}, r"no \.\.\._abstracts\.tsv here"),
        ({"entities": None}, r"_entities\.tsv: no such file"),
        ({"relations": ""}, r"_relations\.tsv: the file is empty"),
    ],
)
def test_missing_and_empty_files_are_named(tmp_path, changes, what):
    with pytest.raises(BiomedError, match=what):
        list(read_chemprot(write(tmp_path, **changes)))


def test_a_wrong_encoding_is_named_with_its_line(tmp_path):
    write(tmp_path)
    path = tmp_path / "chemprot_training_abstracts.tsv"
    path.write_bytes(ABSTRACTS.encode() + "13\tNaïve\tx".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"_abstracts\.tsv:3: the byte at offset \d+ is not UTF"):
        list(read_chemprot(tmp_path))
