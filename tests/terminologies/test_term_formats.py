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
    language = "en" if format in ("rrf", "rf2") else None
    terms, _ = read_terms(write(tmp_path, content), format, language)
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


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffid,name\n1,Asma grave\n",
        "id,name\r1,Asma grave\r",
        "ID, Name\n1, Asma grave\n,\n \n",
        'id,name\n1,"Asma\ngrave"\n',
    ],
    ids=["byte-order mark", "CR", "header, empty rows", "line end in a field"],
)
def test_what_spreadsheets_write_is_read(tmp_path, content):
    path = tmp_path / "terms.csv"
    path.write_bytes(content.encode())
    assert read_terms(path, "csv")[0] == [Term("1", ("Asma grave",))]


def test_each_file_of_descriptions_is_read(tmp_path):
    spanish = description("22", FULL, "infarto de miocardio (trastorno)", language="es")
    files = {**RF2, "Terminology/sct2_Description_Snapshot-es_1.txt": spanish}
    folder = write(tmp_path, files)
    names = ("Myocardial infarction", "Heart attack", "Infarto", "infarto de miocardio")
    assert read_terms(folder, "rf2")[0] == [Term("22", names, "disorder", "11")]
    assert read_terms(folder, "rf2", "es")[0][0].names == ("infarto de miocardio", "Infarto")


def test_the_english_name_is_preferred_among_all_languages(tmp_path):
    names = read_terms(write(tmp_path, RRF), "rrf")[0][0].names
    assert names == ("Myocardial Infarction", "Heart attack", "Infarto de miocardio")


def test_files_of_a_folder_may_be_compressed(tmp_path):
    for name, text in RRF.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert read_terms(tmp_path, "rrf", "en")[0] == EXPECTED["rrf"][1]


def test_parts_of_a_file_are_read_also_where_one_of_them_is_given(tmp_path):
    lines = RRF["MRCONSO.RRF"].splitlines(keepends=True)
    for part, own in (("aa", lines[:1]), ("ab", lines[1:])):
        (tmp_path / f"MRCONSO.RRF.{part}.gz").write_bytes(gzip.compress("".join(own).encode()))
    (tmp_path / "MRSTY.RRF").write_text(RRF["MRSTY.RRF"])
    for path in (tmp_path, tmp_path / "MRCONSO.RRF.aa.gz", tmp_path / "MRCONSO.RRF.ab.gz"):
        assert read_terms(path, "rrf", "en")[0] == EXPECTED["rrf"][1]


OLD_GRAPH = [
    {
        "id": "http://x/HP_1",
        "type": "CLASS",
        "lbl": "Seizure",
        "meta": {"basicPropertyValues": [{"pred": "http://x/o#hasAlternativeId", "val": "HP:8"}]},
    },
    {
        "id": "http://x/HP_9",
        "type": "CLASS",
        "meta": {
            "deprecated": True,
            "basicPropertyValues": [{"pred": "http://x/IAO_0100001", "val": "http://x/HP_8"}],
        },
    },
]


def association(kind, old, present):
    return f"1\t1\t1\t9\t{kind}\t{old}\t{present}\n"


@pytest.mark.parametrize(
    ("format", "content", "former"),
    [
        (
            "obo",
            f"{OBO}\n[Term]\nid: HP:9\nis_obsolete: true\nreplaced_by: HP:8 ! Fit\n".replace(
                "is_a:", "alt_id: HP:8 ! Fit\nis_a:"
            ),
            ("HP:8", "HP:9"),
        ),
        ("owl-json", json.dumps({"graphs": [{"nodes": OLD_GRAPH}]}), ("HP:8", "HP:9")),
        ("rrf", {**RRF, "MRCUI.RRF": "C8|2020AA|SY|||C1|Y|\nC9|2020AA|RO|||C1|Y|\n"}, ("C8",)),
        (
            "rf2",
            {
                **RF2,
                "Terminology/der2_cRefset_AssociationSnapshot_1.txt": "id\tt\ta\tm\tr\to\tt\n"
                + association("900000000000526001", "33", "22")
                + association("900000000000523009", "44", "22"),
            },
            ("33",),
        ),
        (
            "taxonomy",
            {**TAXONOMY, "merged.dmp": "8\t|\t9\t|\n9\t|\t561\t|\n561\t|\t562\t|\n7\t|\t7\t|\n"},
            ("8", "9"),
        ),
    ],
)
def test_a_concept_has_the_ids_of_those_that_were_merged_into_it(format, content, former, tmp_path):
    terms, _ = read_terms(write(tmp_path, content), format)
    assert [one.former for one in terms] == [former, *[()] * (len(terms) - 1)]


def rxnorm(id, source, kind, name, suppressed="N"):
    return f"{id}|ENG||||||9|9|9||{source}|{kind}|9|{name}||{suppressed}|4096|\n"


def test_rxnorm_is_read_as_rrf(tmp_path):
    files = {
        "RXNCONSO.RRF": rxnorm("6809", "MSH", "MH", "Metformin HCl")
        + rxnorm("6809", "RXNORM", "IN", "metformin")
        + rxnorm("6809", "RXNORM", "TMSY", "metFORMIN")
        + rxnorm("6809", "DRUGBANK", "SY", "Old name", "O")
        + rxnorm("151827", "RXNORM", "BN", "Glucophage"),
        "RXNSTY.RRF": "6809|T109|A1.4.1.2.1|Organic Chemical|AT1|256|\n",
        "RXNCUI.RRF": "7|06AA|07AB|1|6809|\n8|06AA|07AB|2|6809|\n",
    }
    names = ("metformin", "Metformin HCl", "metFORMIN")
    metformin = Term("6809", names, "Organic Chemical", "", ("7",))
    folder = write(tmp_path, files)
    for path in (folder, folder / "RXNCONSO.RRF"):
        terms, _ = read_terms(path, "rrf", "en")
        assert terms == [metformin, Term("151827", ("Glucophage",))]


@pytest.mark.parametrize("format", sorted(FORMATS.keys() - {"rrf", "rf2"}))
def test_a_language_is_refused_for_formats_without_one(format, tmp_path):
    path = write(tmp_path, EXPECTED[format][0])
    with pytest.raises(BiomedError, match="--language 'es': names .* have no language; leave"):
        read_terms(path, format, "es")


@pytest.mark.parametrize("name", TAXONOMY)
def test_a_file_of_the_folder_may_be_given(tmp_path, name):
    path = write(tmp_path, TAXONOMY) / name
    assert read_terms(path, "taxonomy")[0] == EXPECTED["taxonomy"][1]


def test_lines_of_obo_may_have_no_space_or_a_comment(tmp_path):
    path = write(tmp_path, "property_value: license\n[Term]\nid:HP:1 ! Fever\nname:Fever\n")
    assert read_terms(path, "obo")[0] == [Term("HP:1", ("Fever",))]


def test_names_of_obo_are_without_escapes_and_sources(tmp_path):
    lines = [
        "[Term]\nid: C:1",
        'name: a\\{b\\} {source="X:1", xref="Y:2"}',
        'synonym: "a\\,b" EXACT []',
        'synonym: "new\\nline\\Wand\\ttab \\\\n" EXACT []',
        "[Term]\nid: C:2",
        "name: beta{x}",
    ]
    names = ("a{b}", "a,b", "new line and tab \\n")
    terms, _ = read_terms(write(tmp_path, "\n".join(lines)), "obo")
    assert terms == [Term("C:1", names), Term("C:2", ("beta{x}",))]


def test_the_id_of_owl_is_the_end_of_its_iri(tmp_path):
    iris = ["http://x/Thesaurus.owl#C3262", "http://x/ORDO/Orphanet_558"]
    nodes = [{"id": iri, "type": "CLASS", "lbl": "X"} for iri in iris]
    path = write(tmp_path, json.dumps({"graphs": [{"nodes": nodes}]}))
    assert [one.id for one in read_terms(path, "owl-json")[0]] == ["C3262", "Orphanet:558"]


def test_names_of_another_language_are_left_out(tmp_path):
    terms, _ = read_terms(write(tmp_path, RRF), "rrf", "es")
    assert terms == [Term("C1", ("Infarto de miocardio",), "Disease or Syndrome")]


@pytest.mark.parametrize(
    ("format", "content", "problem"),
    [
        ("csv", "code,name\nC1,Fever\n", "file:1: not one column id and one column name"),
        ("csv", "id,name,name\nC1,Fever,x\n", "file:1: not one column id and one column name"),
        ("csv", "id,name\nC1,Fever,x\n", "file:2: 3 of 2 fields"),
        ("csv", 'id,name\nC1,"Fever\nC2,Cold\n', "file:2: a quotation mark opens a field and none"),
        ("csv", "id,name,type,type\nC1,Fever,a,b\n", "file: two columns are named type"),
        ("obo", "\n[Term]\nname: Fever\n", "file:2: a \\[Term\\] has no id; correct the file"),
        ("csv", "id,name\n", "no concepts of the format csv"),
        ("obo", "nothing", "no concepts of the format obo"),
        ("owl-json", "{}", "not OBO Graphs in JSON"),
        ("owl-json", "[" * 100_000, "not OBO Graphs in JSON"),
        ("mesh-xml", "<DescriptorRecordSet>", "not readable as XML"),
        ("rrf", {"MRCONSO.RRF": "C1|ENG\n"}, "MRCONSO.RRF:1: fewer than 17 fields"),
        ("xlsx", "", "--format 'xlsx'"),
    ],
)
def test_a_wrong_file_is_one_line(format, content, problem, tmp_path):
    with pytest.raises(BiomedError, match=problem) as error:
        read_terms(write(tmp_path, content), format)
    assert "\n" not in str(error.value)


def test_a_file_in_latin_1_is_to_be_converted(tmp_path):
    path = tmp_path / "terms.csv"
    path.write_bytes("id,name\n1,Diagnóstico\n".encode("latin-1"))
    with pytest.raises(BiomedError, match="convert it to UTF-8"):
        read_terms(path, "csv")


def test_a_folder_without_the_release_is_named(tmp_path):
    with pytest.raises(BiomedError, match=r"no file MRCONSO\.RRF"):
        read_terms(tmp_path, "rrf")


def test_a_field_may_have_many_synonyms(tmp_path):
    synonyms = [f"fever {number}" for number in range(20_000)]
    (term,), _ = read_terms(
        write(tmp_path, f"id,name,synonyms\n1,Fever,{'|'.join(synonyms)}\n"), "csv"
    )
    assert term.names == ("Fever", *synonyms)


def test_a_field_that_may_be_several_records_is_told(tmp_path, capsys):
    content = 'id,name\n1,Fever\n2,"Asthma\n3,Cold"\n4,"Cancer\nof the lung"\n'
    assert len(read_terms(write(tmp_path, content), "csv")[0]) == 3
    warning = capsys.readouterr().err
    assert "file:3: a quoted field of several lines" in warning and "(1 in the file)" in warning


def test_a_line_without_text_is_no_record(tmp_path):
    files = {name: f"{text}\n" for name, text in RRF.items()}
    assert read_terms(write(tmp_path, files), "rrf", "en")[0] == EXPECTED["rrf"][1]


def test_a_name_of_the_taxonomy_may_have_further_columns(tmp_path):
    files = {**TAXONOMY, "names.dmp": "561\t|\tEscherichia\t|\t\t|\tscientific name\t|\tx\t|\n"}
    assert read_terms(write(tmp_path, files), "taxonomy")[0] == [EXPECTED["taxonomy"][1][0]]


def test_a_term_of_obo_that_is_obsolete_for_a_reason_is_left_out(tmp_path):
    gone = '[Term]\r\nid: C:1\r\nname: Gone\r\nis_obsolete: true {source="a"}\r\n'
    path = write(tmp_path, f"{gone}[Term]\r\nid: C:2\r\nname: Fever\r\n")
    assert read_terms(path, "obo")[0] == [Term("C:2", ("Fever",))]


def test_all_graphs_of_owl_are_read_and_fields_may_be_null(tmp_path):
    synonyms = [{"pred": "hasExactSynonym", "val": None}]
    nodes = [
        {"id": "http://x/C_1", "type": "CLASS", "lbl": "Fever", "meta": None},
        {"id": "http://x/C_2", "type": "CLASS", "lbl": "Cold", "meta": {"synonyms": synonyms}},
    ]
    licence = {"pred": "http://purl.org/dc/terms/license", "val": "CC0-1.0"}
    meta = {"version": "2025", "basicPropertyValues": [licence]}
    edge = {"sub": "http://x/C_2", "pred": "is_a", "obj": "http://x/C_1"}
    graphs = [
        {"meta": meta, "nodes": nodes[:1]},
        {"meta": None, "nodes": nodes[1:], "edges": [edge]},
    ]
    terms, found = read_terms(write(tmp_path, json.dumps({"graphs": graphs})), "owl-json")
    assert terms == [Term("C:1", ("Fever",)), Term("C:2", ("Cold",), "", "C:1")]
    assert found == {"version": "2025", "licence": "CC0-1.0"}


def test_a_language_may_be_in_capitals(tmp_path):
    assert read_terms(write(tmp_path, RF2), "rf2", "ES")[0][0].names == ("Infarto",)


def test_what_a_descriptor_of_mesh_is_related_to_is_not_above_it(tmp_path):
    related = (
        "<SeeRelatedList><SeeRelatedDescriptor><DescriptorReferredTo><DescriptorUI>D2</DescriptorUI>"
        "</DescriptorReferredTo></SeeRelatedDescriptor></SeeRelatedList></DescriptorRecord>"
    )
    path = write(tmp_path, MESH.replace("</DescriptorRecord>", related, 1))
    assert read_terms(path, "mesh-xml")[0] == EXPECTED["mesh-xml"][1]


def test_a_supplement_of_mesh_is_below_what_it_is_mapped_to(tmp_path):
    path = write(
        tmp_path,
        "<Set><SupplementalRecord><SupplementalRecordUI>C1</SupplementalRecordUI>"
        "<SupplementalRecordName><String>x</String></SupplementalRecordName><HeadingMappedToList>"
        "<HeadingMappedTo><DescriptorReferredTo><DescriptorUI>*D1</DescriptorUI>"
        "</DescriptorReferredTo></HeadingMappedTo></HeadingMappedToList></SupplementalRecord></Set>",
    )
    assert read_terms(path, "mesh-xml")[0] == [Term("C1", ("x",), "", "D1")]
