import json
import re
from time import perf_counter

import pytest

from spacy_biomed.corpora.convert import create_pipeline
from spacy_biomed.corpora.gold import create_gold_doc
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.bioc import read_bioc
from spacy_biomed.formats.documents import Relation, list_concepts
from spacy_biomed.formats.repairs import keeping_log

TITLE = "Lung and breast cancer"


def annotation(id="T1", label="D", locations=((0, 4),), text="Lung"):
    return {
        "id": id,
        "infons": {"type": label, "MESH": "D1"} if label else {},
        "locations": [{"offset": offset, "length": length} for offset, length in locations],
        "text": text,
    }


def passage(offset=0, text=TITLE, annotations=()):
    return {"offset": offset, "text": text, "annotations": list(annotations)}


def write_json(folder, *passages, relations=()):
    document = {"id": "12", "passages": list(passages), "relations": list(relations)}
    path = folder / "part.json"
    path.write_text(json.dumps({"documents": [document]}, indent=1), encoding="utf-8")
    return path


def write_xml(folder, *passages, relations=()):
    """Write the same collection as XML, an element a line."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<!DOCTYPE collection SYSTEM 'BioC.dtd'>"]
    lines += ["<collection><source>x</source>", "<document>", "<id>12</id>"]
    for one in passages:
        lines += ["<passage>", f"<offset>{one['offset']}</offset>", f"<text>{one['text']}</text>"]
        for each in one["annotations"]:
            lines.append(f'<annotation id="{each["id"]}">')
            lines += [
                f'<infon key="{key}">{value}</infon>' for key, value in each["infons"].items()
            ]
            for place in each["locations"]:
                lines.append(f'<location offset="{place["offset"]}" length="{place["length"]}"/>')
            lines += [f"<text>{each['text']}</text>", "</annotation>"]
        lines.append("</passage>")
    for relation in relations:
        lines.append(f'<relation id="{relation["id"]}">')
        lines += [
            f'<infon key="{key}">{value}</infon>' for key, value in relation["infons"].items()
        ]
        lines += [f'<node refid="{n["refid"]}" role="r"/>' for n in relation.get("nodes", ())]
        lines.append("</relation>")
    path = folder / "part.xml"
    path.write_text("\n".join([*lines, "</document>", "</collection>"]), encoding="utf-8")
    return path


both_forms = pytest.mark.parametrize("write", [write_json, write_xml], ids=["json", "xml"])


@both_forms
def test_offsets_count_from_the_passages_own(tmp_path, write):
    second = annotation("T2", "D", ((44, 4),), "pain")
    path = write(tmp_path, passage(annotations=[annotation()]), passage(40, "😀 – pain", [second]))
    (document,) = read_bioc(path)
    assert document.id == "12"
    assert document.text == f"{TITLE} 😀 – pain"
    assert [document.text[m.start : m.end] for m in document.mentions] == ["Lung", "pain"]
    assert document.mentions[0].id == "T1"
    assert document.mentions[0].attributes == {"MESH": "D1"}
    assert document.relations is None


def test_infons_with_one_key_are_several_values(tmp_path):
    path = write_xml(tmp_path, passage(annotations=[annotation()]))
    infon = '<infon key="MESH">D1</infon>'
    path.write_text(path.read_text().replace(infon, infon + infon.replace("D1", "D2"), 1))
    (document,) = read_bioc(path)
    assert document.mentions[0].attributes == {"MESH": "D1; D2"}
    assert list_concepts(document.mentions[0]) == ["D1", "D2"]


def test_a_list_in_an_infon_is_several_values(tmp_path):
    infons = {"type": "Gene", "ids": ["G1", 2], "valid": True, "none": None, "inner": {"a": 1}}
    path = write_json(tmp_path, passage(annotations=[{**annotation(), "infons": infons}]))
    (document,) = read_bioc(path)
    assert document.mentions[0].attributes == {"ids": "G1; 2", "valid": "true"}


@both_forms
def test_several_locations_are_a_discontinuous_mention(tmp_path, write):
    one = annotation(locations=((16, 6), (0, 4)), text="Lung cancer")
    (document,) = read_bioc(write(tmp_path, passage(annotations=[one])))
    assert document.mentions[0].fragments == ((0, 4), (16, 22))


@both_forms
def test_an_annotation_of_no_place_is_left_out(tmp_path, write):
    (document,) = read_bioc(
        write(tmp_path, passage(annotations=[annotation(locations=(), text="")]))
    )
    assert document.mentions == []


@both_forms
def test_relations_join_annotations_or_concepts(tmp_path, write):
    nodes = {"id": "R1", "infons": {"type": "X"}, "nodes": [{"refid": "T1"}, {"refid": "T2"}]}
    concepts = {"id": "R2", "infons": {"relation": "CID", "Chemical": "D1", "Disease": "D2"}}
    other = annotation("T2", "D", ((16, 6),), "cancer")
    path = write(tmp_path, passage(annotations=[annotation(), other]), relations=[nodes, concepts])
    (document,) = read_bioc(path)
    assert document.relations == [
        Relation("X", "T1", "T2", "R1"),
        Relation("CID", "D1", "D2", "R2"),
    ]


@both_forms
def test_files_in_a_folder_are_all_read(tmp_path, write):
    write(tmp_path, passage())
    assert [document.text for document in read_bioc(tmp_path)] == [TITLE]


def test_sentences_give_the_text_where_passages_have_none(tmp_path):
    path = tmp_path / "part.json"
    sentences = [
        passage(0, "Lung."),
        passage(6, "Pain.", [annotation("T1", "D", ((6, 4),), "Pain")]),
    ]
    path.write_text(json.dumps({"id": "1", "passages": [{"offset": 0, "sentences": sentences}]}))
    (document,) = read_bioc(path)
    assert document.text == "Lung. Pain."
    assert document.sentences == [(0, 5), (6, 11)]
    assert document.mentions[0].fragments == ((6, 10),)


def line_of(path, part):
    lines = path.read_text(encoding="utf-8").split("\n")
    return next(number for number, line in enumerate(lines, start=1) if part in line)


@both_forms
@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"locations": ((16, 60),), "text": "tongue"}, "beyond the text's end at 22"),
        ({"locations": ((16, 6),), "text": "cancel"}, "the annotation reads 'cancel'"),
        ({"locations": ((16, 0),), "text": ""}, "covers nothing"),
        ({"locations": (("x", 6),), "text": "cancer"}, "'offset' with a whole number"),
        ({"label": "", "locations": ((16, 6),), "text": "cancer"}, "has no type"),
    ],
)
def test_a_bad_annotation_is_named_with_its_line(tmp_path, write, bad, what):
    path = write(tmp_path, passage(annotations=[annotation(), annotation("T2", **bad)]))
    line = line_of(path, '"T2"')
    if "x" in str(bad["locations"]):
        line = line_of(path, '"x"')
    # A JSON object begins on the line before its first key.
    line -= write is write_json
    with pytest.raises(BiomedError, match=rf"{path.name}:{line}: .*{re.escape(what)}"):
        list(read_bioc(path))


@both_forms
def test_a_relation_of_an_unknown_annotation_is_named_with_its_line(tmp_path, write):
    bad = {"id": "R1", "infons": {"type": "X"}, "nodes": [{"refid": "T1"}, {"refid": "T9"}]}
    path = write(tmp_path, passage(annotations=[annotation()]), relations=[bad])
    line = line_of(path, '"T9"') - (write is write_json)
    with pytest.raises(BiomedError, match=rf"{path.name}:{line}: there is no annotation 'T9'"):
        list(read_bioc(path))


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.xml", "<collection>\n<document>\n</collection>", r"a\.xml:3: no XML at column"),
        ("a.xml", "<articles/>", r"a\.xml:1: expected <collection>, found <articles>"),
        ("a.xml", "<collection/>", r"a\.xml: no document in this file"),
        ("a.xml", "", r"a\.xml: the file is empty"),
        ("a.json", '{"documents": [\n', r"a\.json:2: not JSON"),
        ("a.json", "[]", r"a\.json: no document in this file"),
        ("a.json", "[1]", r"a\.json: 1 in place of a document"),
        ("a.json", '{"documents": [1]}', r"a\.json:1: expected 'documents' to be a list"),
        ("a.json", "", r"a\.json: the file is empty"),
    ],
)
def test_a_file_that_is_no_bioc_is_named(tmp_path, name, content, what):
    (tmp_path / name).write_text(content)
    with pytest.raises(BiomedError, match=what):
        list(read_bioc(tmp_path / name))


@both_forms
def test_a_missing_and_a_wrongly_encoded_file_are_named(tmp_path, write):
    path = write(tmp_path, passage(text="ñ" * 3))
    line = line_of(path, "\\u00f1" if write is write_json else "ñ")
    content = path.read_text(encoding="utf-8").replace("\\u00f1", "ñ")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(BiomedError, match=rf"{path.name}:{line}: the byte at offset \d+ is not"):
        list(read_bioc(path))
    path.unlink()
    with pytest.raises(BiomedError, match="no such file"):
        list(read_bioc(path))


def test_a_declared_encoding_goes_before_the_given_one(tmp_path):
    path = write_xml(tmp_path, passage(text="ñ"))
    content = path.read_text(encoding="utf-8").replace("UTF-8", "ISO-8859-1")
    path.write_bytes(content.encode("latin-1"))
    assert next(read_bioc(path)).text == "ñ"


def document_json(relation=None):
    annotations = [
        {
            "id": id,
            "infons": {"type": "Gene", "identifier": concept},
            "locations": [{"offset": start, "length": 3}],
            "text": text,
        }
        for id, concept, start, text in (("1", "G1", 0, "one"), ("2", "G2", 4, "two"))
    ]
    passage = {"offset": 0, "text": "one two", "annotations": annotations}
    return {"id": "7", "passages": [passage], "relations": [relation] if relation else []}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda document: {"documents": [document]},
        lambda document: [{"source": "PMC", "documents": [document]}],
        lambda document: [document],
        lambda document: {"PubTator3": [document]},
        lambda document: document,
    ],
)
def test_json_is_read_as_the_services_give_it(tmp_path, wrap):
    (tmp_path / "a.json").write_text(json.dumps(wrap(document_json())))
    (document,) = read_bioc(tmp_path / "a.json")
    assert (document.id, len(document.mentions)) == ("7", 2)


def test_documents_a_line_are_read_and_a_bad_one_named_with_its_line(tmp_path):
    lines = [json.dumps(document_json() | {"id": id}) for id in ("7", "8")]
    path = tmp_path / "a.json"
    path.write_text("\n".join([*lines, ""]))
    assert [document.id for document in read_bioc(path)] == ["7", "8"]
    path.write_text("\n".join([lines[0], lines[1].replace('"one"', '"six"')]))
    with pytest.raises(BiomedError, match=r"a\.json:2: the annotation reads 'six'"):
        list(read_bioc(path))
    path.write_text("\n".join([lines[0], lines[1][:-1]]))
    with pytest.raises(BiomedError, match=r"a\.json:2: not JSON"):
        list(read_bioc(path))


def test_infons_of_a_relation_that_are_no_concepts_are_left_out(tmp_path):
    infons = {"entity1": "G1", "entity2": "G2", "type": "Association", "novel": "Novel"}
    (tmp_path / "a.json").write_text(json.dumps(document_json({"id": "R0", "infons": infons})))
    (document,) = read_bioc(tmp_path / "a.json")
    assert document.relations == [Relation("Association", "G1", "G2", "R0")]


def test_relations_of_pubtator3_are_between_the_concepts_of_their_roles(tmp_path):
    roles = {f"role{n}": {"identifier": f"G{n}", "type": "Gene"} for n in (1, 2)}
    relation = {"id": "R1", "infons": {"score": "0.9", **roles, "type": "Bind"}}
    relation["nodes"] = [{"refid": "0", "role": "0,1"}]
    (tmp_path / "a.json").write_text(json.dumps({"PubTator3": [document_json(relation)]}))
    (document,) = read_bioc(tmp_path / "a.json")
    assert document.relations == [Relation("Bind", "G1", "G2", "R1")]


@pytest.mark.parametrize("has_roles", [True, False])
def test_a_concept_is_not_the_annotation_of_its_number(tmp_path, has_roles):
    named = {f"role{n}": {"identifier": str(n)} for n in (1, 2)} if has_roles else {"a": 1, "b": 2}
    infons = {"type": "Bind", "score": "3", **named}
    document = document_json({"id": "R1", "infons": infons})
    (annotations,) = (passage["annotations"] for passage in document["passages"])
    annotations[0]["infons"]["identifier"], annotations[1]["infons"]["identifier"] = "2", "1"
    annotations.append({**annotations[0], "id": "3", "infons": {"type": "Gene"}})
    (tmp_path / "a.json").write_text(json.dumps(document))
    (document,) = read_bioc(tmp_path / "a.json")
    ((head, tail, label, _),) = create_gold_doc(create_pipeline("en"), document)._.relations
    assert (head.text, label, tail.text) == ("two", "Bind", "one")


def test_many_relations_of_concepts_are_read_in_seconds(tmp_path):
    count = 2000
    annotations = [
        {
            "id": str(number),
            "infons": {"type": "Gene", "identifier": f"G{number}"},
            "locations": [{"offset": 4 * number, "length": 3}],
            "text": "one",
        }
        for number in range(count)
    ]
    relations = [
        {"infons": {"type": "Bind", "entity1": f"G{number}", "entity2": f"G{number + 1}"}}
        for number in range(count - 1)
    ]
    path = write_json(tmp_path, passage(0, "one " * count, annotations), relations=relations)
    start = perf_counter()
    (document,) = read_bioc(path)
    assert len(document.relations) == count - 1
    assert perf_counter() - start < 10


@pytest.mark.parametrize("write", [write_json, write_xml])
@pytest.mark.parametrize("text", ["", "nowhere"])
def test_annotations_of_no_length_are_left_out_and_the_others_stay(tmp_path, write, text):
    annotations = [annotation(), annotation("T2", locations=((5, 0),), text=text)]
    path = write(tmp_path, passage(annotations=annotations))
    with keeping_log("skip") as log:
        (document,) = read_bioc(path)
    assert [mention.id for mention in document.mentions] == ["T1"]
    assert [change.kind for change in log.changes] == ["left out"]


@pytest.mark.parametrize("id", ["7", "8"])
def test_two_documents_with_one_id_are_refused(tmp_path, id):
    documents = [{"id": one, "passages": [passage()]} for one in ("7", id)]
    content = json.dumps({"documents": documents}, indent=1)
    (tmp_path / "c.json").write_text(content)
    if id == "8":
        assert [document.id for document in read_bioc(tmp_path)] == ["7", "8"]
        return
    line = [number for number, text in enumerate(content.splitlines(), 1) if '"id": "7"' in text][1]
    with pytest.raises(BiomedError, match=f"c.json:{line - 1}: there is a document '7' already"):
        list(read_bioc(tmp_path))
    with keeping_log("stop") as log:
        assert [document.id for document in read_bioc(tmp_path)] == ["7"]
    assert [(change.kind, change.line) for change in log.changes] == [("left out", line - 1)]


def test_offsets_may_count_from_the_beginning_of_the_passage(tmp_path):
    places = [annotation(locations=((0, 4),)), annotation("T2", "D", ((16, 6),), "cancer")]
    path = write_json(tmp_path, passage(text="Cancer of lung"), passage(15, TITLE, places))
    (document,) = read_bioc(path)
    assert [one.fragments for one in document.mentions] == [((15, 19),), ((31, 37),)]
    assert [one.read(document.text) for one in document.mentions] == ["Lung", "cancer"]
