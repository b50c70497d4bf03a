import gzip
import json

import pytest

from spacy_biomed import BiomedError
from spacy_biomed.terminologies import Term, read_terms
from spacy_biomed.terminologies.term_formats import FORMATS

CSV = 'id,name,synonyms,type\nC1,Myocardial infarction,"heart attack|MI",disorder\nC2,Fever,,\n'

OBO = """format-version: 1.2
data-version: hp/releases/2025-01-16
property_value: http://purl.org/dc/terms/license https://example.org/licence

[Term]
id: HP:1
name: Seizure
synonym: "Epileptic \\"fit\\"" EXACT layperson []
synonym: "Nervous system sign" BROAD []
is_a: HP:0 ! All

[Term]
id: HP:2
name: Gone
is_obsolete: true

[Typedef]
id: part_of
name: part of
"""

GRAPHS = {
    "graphs": [
        {
            "meta": {"version": "2025"},
            "nodes": [
                {"id": "http://x/HP_1", "type": "CLASS", "lbl": "Seizure"},
                {
                    "id": "http://x/HP_2",
                    "type": "CLASS",
                    "lbl": "Fever",
                    "meta": {
                        "synonyms": [
                            {"pred": "hasExactSynonym", "val": "Pyrexia"},
                            {"pred": "hasBroadSynonym", "val": "Sign"},
                        ]
                    },
                },
                {"id": "http://x/P", "type": "PROPERTY", "lbl": "part of"},
            ],
            "edges": [{"sub": "http://x/HP_1", "pred": "is_a", "obj": "http://x/HP_2"}],
        }
    ]
}


def concept(cui, language, preferred, text, suppressed="N"):
    status = ("P", "PF", "Y") if preferred else ("S", "VO", "N")
    fields = [
        cui,
        language,
        status[0],
        "L",
        status[1],
        "S",
        status[2],
        "A",
        "",
        "",
        "",
        "MSH",
        "MH",
    ]
    return "|".join([*fields, "D1", text, "0", suppressed, "", "\n"])


RRF = {
    "MRCONSO.RRF": concept("C1", "ENG", False, "Heart attack")
    + concept("C1", "ENG", True, "Myocardial Infarction")
    + concept("C1", "SPA", True, "Infarto de miocardio")
    + concept("C1", "ENG", False, "Old name", "O"),
    "MRSTY.RRF": "C1|T047|B2|Disease or Syndrome|AT1|256|\n",
}


def description(concept, kind, name, active="1", language="en"):
    return f"1\t20240101\t{active}\t9\t{concept}\t{language}\t{kind}\t{name}\t9\n"


FULL, SYNONYM = "900000000000003001", "900000000000013009"
RF2 = {
    "Terminology/sct2_Concept_Snapshot_1.txt": "id\teffectiveTime\tactive\n22\t1\t1\n33\t1\t0\n",
    "Terminology/sct2_Description_Snapshot-en_1.txt": "id\ttime\tactive\tm\tc\tl\tt\tterm\tcase\n"
    + description("22", SYNONYM, "Heart attack")
    + description("22", FULL, "Myocardial infarction (disorder)")
    + description("22", SYNONYM, "Old", active="0")
    + description("22", SYNONYM, "Infarto", language="es")
    + description("33", FULL, "Gone (disorder)"),
    "Terminology/sct2_Relationship_Snapshot_1.txt": "1\t1\t1\t9\t22\t11\t0\t116680003\t9\t9\n",
}

MESH = """<?xml version="1.0"?><DescriptorRecordSet LanguageCode="eng">
<DescriptorRecord><DescriptorUI>D1</DescriptorUI>
<DescriptorName><String>Heart Diseases</String></DescriptorName>
<TreeNumberList><TreeNumber>C14.280</TreeNumber></TreeNumberList>
<ConceptList><Concept><TermList><Term><String>Heart Diseases</String></Term>
<Term><String>Cardiac Disorders</String></Term></TermList></Concept></ConceptList>
</DescriptorRecord>
<DescriptorRecord><DescriptorUI>D2</DescriptorUI>
<DescriptorName><String>Myocardial Infarction</String></DescriptorName>
<TreeNumberList><TreeNumber>C14.280.647</TreeNumber></TreeNumberList>
</DescriptorRecord></DescriptorRecordSet>
"""

TAXONOMY = {
    "names.dmp": "561\t|\tEscherichia\t|\t\t|\tscientific name\t|\n"
    "562\t|\tBacterium coli\t|\t\t|\tsynonym\t|\n"
    "562\t|\tEscherichia coli\t|\t\t|\tscientific name\t|\n"
    "562\t|\tEschericia coli\t|\t\t|\tmisspelling\t|\n"
    "562\t|\tATCC 11775\t|\t\t|\ttype material\t|\n",
    "nodes.dmp": "561\t|\t543\t|\tgenus\t|\n562\t|\t561\t|\tspecies\t|\n",
}

INFARCTION = Term("C1", ("Myocardial infarction", "heart attack", "MI"), "disorder")
EXPECTED = {
    "csv": (CSV, [INFARCTION, Term("C2", ("Fever",))]),
    "obo": (OBO, [Term("HP:1", ("Seizure", 'Epileptic "fit"'), "", "HP:0")]),
    "owl-json": (
        json.dumps(GRAPHS),
        [Term("HP:1", ("Seizure",), "", "HP:2"), Term("HP:2", ("Fever", "Pyrexia"))],
    ),
    "rrf": (RRF, [Term("C1", ("Myocardial Infarction", "Heart attack"), "Disease or Syndrome")]),
    "rf2": (RF2, [Term("22", ("Myocardial infarction", "Heart attack"), "disorder", "11")]),
    "mesh-xml": (
        MESH,
        [
            Term("D1", ("Heart Diseases", "Cardiac Disorders"), "C"),
            Term("D2", ("Myocardial Infarction",), "C", "D1"),
        ],
    ),
    "taxonomy": (
        TAXONOMY,
        [
            Term("561", ("Escherichia",), "genus", "543"),
            Term(
                "562", ("Escherichia coli", "Bacterium coli", "Eschericia coli"), "species", "561"
            ),
        ],
    ),
}


def write(folder, content):
    files = {"file": content} if isinstance(content, str) else content
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf8")
    return folder / "file" if isinstance(content, str) else folder


def test_every_format_is_tested():
    assert EXPECTED.keys() == FORMATS.keys()


@pytest.mark.parametrize("format", EXPECTED)
def test_names_types_and_parents_of_a_format_are_read(format, tmp_path):
    content, expected = EXPECTED[format]
    terms, _ = read_terms(write(tmp_path, content), format, "en")
    assert terms == expected


def test_version_and_licence_are_those_of_the_file(tmp_path):
    _, meta = read_terms(write(tmp_path, OBO), "obo")
    assert meta == {"version": "hp/releases/2025-01-16", "licence": "https://example.org/licence"}


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "terms.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    assert read_terms(path, "csv")[0][0] == INFARCTION


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_columns_have_other_delimiters_too(tmp_path, delimiter):
    content = f"id{delimiter}name\nC2{delimiter}Fever, high\n"
    assert read_terms(write(tmp_path, content), "csv")[0] == [Term("C2", ("Fever, high",))]


def test_names_of_another_language_are_left_out(tmp_path):
    terms, _ = read_terms(write(tmp_path, RRF), "rrf", "es")
    assert terms == [Term("C1", ("Infarto de miocardio",), "Disease or Syndrome")]


@pytest.mark.parametrize(
    ("format", "content", "problem"),
    [
        ("csv", "code,name\nC1,Fever\n", "file:1: no columns id and name"),
        ("csv", "id,name\nC1,Fever,x\n", "file:2: 3 fields and not 2"),
        ("csv", "id,name\n", "no concepts of the format csv"),
        ("obo", "nothing", "no concepts of the format obo"),
        ("owl-json", "{}", "not OBO Graphs in JSON"),
        ("mesh-xml", "<DescriptorRecordSet>", "not readable as XML"),
        ("rrf", "C1|ENG\n", "file:1: 2 fields and not 17"),
        ("xlsx", "", "--format 'xlsx'"),
    ],
)
def test_a_wrong_file_is_one_line(format, content, problem, tmp_path):
    with pytest.raises(BiomedError, match=problem) as error:
        read_terms(write(tmp_path, content), format)
    assert "\n" not in str(error.value)


def test_a_folder_without_the_release_is_named(tmp_path):
    with pytest.raises(BiomedError, match=r"no file MRCONSO\.RRF"):
        read_terms(tmp_path, "rrf")
