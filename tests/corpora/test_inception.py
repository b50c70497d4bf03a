import io
import json
import re
import zipfile
from random import Random

import pytest
from damaged_corpora import SOUND

from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.formats import Mention, Relation, inception, read_inception
from spacy_biomed.formats.repairs import keeping_log

pytest.importorskip("cassis", reason="dkpro-cassis is not installed")

TYPES = SOUND["inception"]["TypeSystem.xml"]
XMI = SOUND["inception"]["a.xmi"]
ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
METADATA = "de.tudarmstadt.ukp.dkpro.core.api.metadata.type.DocumentMetaData"
SENTENCE = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence"


def feature(range="uima.cas.String"):
    return {"%RANGE": range}


def make_json(text, *annotations, types=None):
    """The JSON of a CAS: an annotation is `(type, begin, end, features)`, the first has id 2."""
    types = types or {"custom.Span": {"label": feature()}}
    system = {
        name: {
            "%NAME": name,
            "%SUPER_TYPE": "uima.tcas.Annotation",
            **{key: {"%NAME": key, **value} for key, value in features.items()},
        }
        for name, features in types.items()
    }
    sofa = {"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaNum": 1, "sofaID": "_InitialView"}
    structures = [{**sofa, "mimeType": "text", "sofaString": text}]
    for id, (kind, begin, end, features) in enumerate(annotations, start=2):
        place = {"@sofa": 1, "begin": begin, "end": end} if begin is not None else {}
        structures.append({"%ID": id, "%TYPE": kind, **place, **features})
    members = [one["%ID"] for one in structures[1:] if "@sofa" in one]
    views = {"_InitialView": {"%SOFA": 1, "%MEMBERS": members}}
    return json.dumps({"%TYPES": system, "%FEATURE_STRUCTURES": structures, "%VIEWS": views})


def read(folder, files, on_error="stop"):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with keeping_log(on_error) as log:
        documents = list(read_inception(folder))
    return documents, [change.kind for change in log.changes]


def pack(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, one in files.items():
            archive.writestr(name, one)
    return content.getvalue()


def test_xmi_has_utf_16_offsets_and_line_ends(tmp_path):
    ((document,), _) = read(tmp_path, {"a.xmi": XMI, "TypeSystem.xml": TYPES})
    assert (document.id, document.text) == ("a", "the aspirin \U0001f600\r\nhelps")
    assert document.mentions == [
        Mention("DRUG", ((4, 11),), "2"),
        Mention("X", ((12, 13),), "3"),
    ]
    assert document.relations == [Relation("Relation", "2", "3", "4")]


def test_xml_1_1_is_read(tmp_path):
    xmi = XMI.replace('version="1.0"', 'version="1.1"', 1)
    ((document,), _) = read(tmp_path, {"a.xmi": xmi, "TypeSystem.xml": TYPES})
    assert len(document.mentions) == 2


def test_json_has_its_types_in_it(tmp_path):
    text = "\U0001f600 aspirin"
    ((document,), _) = read(
        tmp_path, {"a.json": make_json(text, ("custom.Span", 3, 10, {"label": "DRUG"}))}
    )
    assert document.mentions == [Mention("DRUG", ((2, 9),), "2")]
    assert document.relations is None


def test_custom_layers_and_named_entities_are_read_and_segmentation_is_not(tmp_path):
    types = {
        ENTITY: {"value": feature(), "identifier": feature()},
        SENTENCE: {},
        "webanno.custom.Phi": {"kind": feature(), "sure": feature("uima.cas.Boolean")},
        "custom.Plain": {},
    }
    content = make_json(
        "cancer",
        (ENTITY, 0, 6, {"value": "D", "identifier": "C1"}),
        (ENTITY, 0, 3, {"identifier": "C1"}),
        (SENTENCE, 0, 6, {}),
        ("webanno.custom.Phi", 0, 3, {"kind": "NAME", "sure": True}),
        ("custom.Plain", 3, 6, {}),
        types=types,
    )
    ((document,), _) = read(tmp_path, {"a.json": content})
    found = {mention.label: mention.attributes for mention in document.mentions}
    identified = {"identifier": "C1"}
    assert found == {
        "D": identified,
        "NamedEntity": identified,
        "NAME": {"sure": "true"},
        "Plain": {},
    }


def test_links_by_roles_are_relations(tmp_path):
    link = "custom.Link"
    types = {
        "custom.Span": {"label": feature(), "links": feature(f"{link}[]")},
        link: {"role": feature(), "target": feature("custom.Span")},
    }
    content = json.loads(
        make_json(
            "a b",
            ("custom.Span", 0, 1, {"label": "X", "@links": 5}),
            ("custom.Span", 2, 3, {"label": "Y"}),
            (link, None, None, {"role": "agent", "@target": 3}),
            (f"{link}[]", None, None, {"%ELEMENTS": [4]}),
            types=types,
        )
    )
    content["%TYPES"][link]["%SUPER_TYPE"] = "uima.cas.TOP"
    ((document,), _) = read(tmp_path, {"a.json": json.dumps(content)})
    assert document.relations == [Relation("agent", "2", "3")]


@pytest.mark.parametrize(
    "metadata",
    [
        {"documentId": "n/1.txt"},
        {"documentId": "n/1.txt", "documentTitle": "What we found"},
        {"documentId": "anna", "documentTitle": "n/1.txt"},  # as WebAnno has it
    ],
)
def test_the_identifier_is_that_in_the_metadata(tmp_path, metadata):
    types = {METADATA: {"documentId": feature(), "documentTitle": feature()}}
    content = json.loads(make_json("x", (METADATA, 0, 1, metadata), types=types))
    content["%TYPES"][METADATA]["%SUPER_TYPE"] = "uima.tcas.DocumentAnnotation"
    ((document,), _) = read(tmp_path, {"admin.json": json.dumps(content)})
    assert document.id == "n/1"


def span(label):
    return make_json("x", ("custom.Span", 0, 1, {"label": label}))


def test_a_projects_export_has_one_annotation_of_each_document(tmp_path):
    inner = pack({"anna.xmi": XMI, "TypeSystem.xml": TYPES})
    project = pack(
        {
            "exportedproject.json": "{}",
            "annotation/one.json/": "",  # a folder
            "annotation/one.json/anna.json": span("A"),
            "annotation/one.json/bob.json": span("B"),
            "annotation/one.json/INITIAL_CAS.json": span("I"),
            "curation/one.json/CURATION_USER.json": span("C"),
            "annotation/two.txt/anna.zip": inner,
            "annotation/two.txt/INITIAL_CAS.json": span("I"),
            "annotation/three.txt/INITIAL_CAS.json": span("I"),
            "annotation/four.txt/webanno1export.zip": pack({"INITIAL_CAS.json": span("I")}),
            "annotation/five.txt/webanno2export.zip": pack({"INITIAL_CAS.json": span("I")}),
            "annotation/five.txt/webanno3export.zip": pack({"anna.json": span("A")}),
        }
    )
    documents, changes = read(tmp_path, {"project.zip": project})
    found = {
        document.id: [mention.label for mention in document.mentions] for document in documents
    }
    assert found == {"one": ["C"], "two": ["DRUG", "X"], "five": ["A"]}
    assert changes == ["not annotated", "not annotated"]


def test_several_annotators_without_a_curation_are_named_or_left_out(tmp_path):
    files = {f"annotation/n.txt/{name}.json": span("A") for name in ("anna", "bob")}
    with pytest.raises(BiomedError, match=r"2 annotators and no curation; curate the document"):
        read(tmp_path, files)
    assert read(tmp_path, files, on_error="skip") == ([], ["left out"])


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"a.xmi": XMI}, r"a\.xmi: there is no TypeSystem\.xml beside it"),
        ({"a.json": "{}"}, r"a\.json: no UIMA CAS JSON"),
        ({"a.json": '{"%TYPES": {}'}, r"a\.json:1: not JSON"),
        ({"a.json": make_json(None)}, r"a\.json: the CAS has no text"),
        ({"a.zip": b"x"}, r"a\.zip: no zip file"),
        ({"a.txt": "x"}, r"no \.xmi or \.json or \.tsv file"),
        (
            {"a.json": make_json("x", ("custom.Span", 0, 2, {"label": "A"}))},
            r"a\.json: annotation 2: the mention ends at 2, beyond the text's end at 1",
        ),
        (
            {"a.json": make_json("x", ("custom.Other", 0, 1, {}))},
            r"a\.json: no UIMA CAS that can be read \(TypeNotFoundError: .*custom\.Other",
        ),
        (
            {"a.xmi": XMI, "TypeSystem.xml": TYPES.replace("custom.Span", "custom.Old")},
            r"a\.xmi: no UIMA CAS that can be read \(TypeNotFoundError",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, files, what):
    with pytest.raises(BiomedError, match=what):
        read(tmp_path, files)


@pytest.mark.parametrize("name", ["a.xmi", "TypeSystem.xml"])
@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "aspirin"><!ENTITY b "&a;&a;&a;&a;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://localhost/">',
    ],
)
def test_xml_that_declares_entities_is_refused(tmp_path, name, declaration):
    files = {"a.xmi": XMI, "TypeSystem.xml": TYPES}
    before, _, after = files[name].partition("?>")
    files[name] = f"{before}?><!DOCTYPE x [{declaration}]>{after}"
    with pytest.raises(BiomedError, match="declares the entity"):
        read(tmp_path, files)


@pytest.mark.parametrize("name", ["label=print(1)", "a b", "x:int", "[0]", "*label"])
def test_names_that_would_become_code_are_refused_before_they_are_compiled(
    tmp_path, monkeypatch, name
):
    monkeypatch.setattr(inception, "_parse", lambda *_, **__: pytest.fail("was parsed"))
    content = make_json("x", types={"custom.Span": {name: feature()}})
    types = TYPES.replace("<name>label</name>", f"<name>{name}</name>")
    for folder, files in (
        ("json", {"a.json": content}),
        ("xmi", {"a.xmi": XMI, "TypeSystem.xml": types}),
    ):
        with pytest.raises(BiomedError, match="names a type or a feature"):
            read(tmp_path / folder, files)


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(inception, "find_spec", lambda name: None)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(BiomedError, match=re.escape(install_command("inception"))):
        list(read_inception(tmp_path))


def test_a_zip_bomb_and_nested_zips_are_refused(tmp_path):
    bomb = pack({"a.json": " " * 50_000_000})
    with pytest.raises(BiomedError, match="over 200 times as large"):
        read(tmp_path / "bomb", {"a.zip": bomb})
    nested = span("A")
    for _ in range(4):
        nested = pack({"a.zip" if isinstance(nested, bytes) else "a.json": nested})
    with pytest.raises(BiomedError, match="zip files in zip files in zip files; unpack them"):
        read(tmp_path / "nested", {"a.zip": nested})


def test_names_in_zips_are_escaped_in_messages(tmp_path):
    for name in ("\x1b[2J\n\u202e.json", "/etc/x.json", "../x.json", f"{'x' * 5000}.json"):
        with pytest.raises(BiomedError) as error:
            read(tmp_path, {"a.zip": pack({name: "{"})})
        message = str(error.value)
        assert message.startswith(f"{tmp_path}/a.zip/") and message.isprintable()
        assert len(message) < 500


def test_damaged_zips_give_documents_or_one_line(tmp_path):
    sound = pack({"a.json": span("A"), "b.zip": pack({"b.json": span("B")})})
    errors = 0
    for seed in range(200):
        random, content = Random(seed), bytearray(sound)
        for _ in range(random.randint(1, 3)):
            content[random.randrange(len(content))] = random.randrange(256)
        cut = random.choice((len(content), random.randrange(len(content))))
        (tmp_path / "a.zip").write_bytes(content[:cut])
        try:
            list(read_inception(tmp_path / "a.zip"))
        except BiomedError as error:
            errors += 1
            assert str(error).isprintable(), seed
    assert 0 < errors < 200


UNTYPED = """<?xml version="1.0" encoding="UTF-8"?><xmi:XMI xmlns:cas="http:///uima/cas.ecore"
 xmlns:type4="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore"
 xmlns:custom="http:///webanno/custom.ecore" xmlns:xmi="http://www.omg.org/XMI" xmi:version="2.0">
<type4:Token xmi:id="5" sofa="1" begin="0" end="2"/>
<custom:CLINENTITY xmi:id="10" sofa="1" begin="3" end="9" entityID="C1" xtra=""/>
<custom:EVENT xmi:id="11" sofa="1" begin="3" end="9" TLINK="20 21" polarity="NEG"/>
<custom:TIMEX3 xmi:id="12" sofa="1" begin="15" end="19" value="10" timexLink=""/>
<custom:EVENT xmi:id="14" sofa="1" begin="0" end="2" TLINK=""/>
<custom:METADATA xmi:id="13" sofa="1" begin="0" end="0" docName="x"/>
<cas:Sofa xmi:id="1" sofaString="&#128512; asthma&#13;&#10; in 2019."/>
<custom:EVENTTLINKLink xmi:id="20" role="CONTAINS" target="12"/>
<custom:EVENTTLINKLink xmi:id="21" role="BEFORE" target="10"/>
<cas:View sofa="1" members="5 10 11 12 13"/></xmi:XMI>"""


def test_xmi_without_types_has_layers_as_labels(tmp_path):
    (document,), _ = read(tmp_path, {"EN1.xml": UNTYPED, "other.xml": "<a/>"})
    assert (document.id, document.text) == ("EN1", "\U0001f600 asthma\r\n in 2019.")
    assert [(one.label, one.read(document.text), one.attributes) for one in document.mentions] == [
        ("CLINENTITY", "asthma", {"entityID": "C1"}),
        ("EVENT", "asthma", {"polarity": "NEG"}),
        ("TIMEX3", "2019", {"value": "10"}),
    ]
    assert [(one.label, one.head, one.tail) for one in document.relations] == [
        ("CONTAINS", "11", "12"),
        ("BEFORE", "11", "10"),
    ]
    damaged = UNTYPED.replace('target="10"', 'target="99"')
    with pytest.raises(BiomedError, match=r"EN1\.xml:12: there is no span '99'"):
        read(tmp_path, {"EN1.xml": damaged})
