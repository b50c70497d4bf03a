"""What readers make of values that no sound file has."""

import json
import time

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.registry import read_documents

DEEP = "[" * 100_000 + "]" * 100_000  # too deep for every version of Python
DIGITS = "9" * 5000

BIOC = """<collection><document><id>1</id><passage><offset>0</offset><text>aspirin</text>
<annotation id="T1"><infon key="type">DRUG</infon><location offset="0" length="7"/>
<text>aspirin</text></annotation></passage></document></collection>"""

BIOC_JSON = {
    "documents": [
        {
            "id": "1",
            "passages": [
                {
                    "offset": 0,
                    "text": "aspirin",
                    "annotations": [
                        {
                            "id": "T1",
                            "infons": {"type": "DRUG"},
                            "locations": [{"offset": 0, "length": 7}],
                            "text": "aspirin",
                        }
                    ],
                }
            ],
        }
    ]
}


def read(tmp_path, format, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_documents(format, [path]))


def refuse(tmp_path, format, name, content) -> str:
    with pytest.raises(BiomedError) as error:
        read(tmp_path, format, name, content)
    message = str(error.value)
    assert message.isprintable() and len(message) < 400 + len(str(tmp_path))
    return message.removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": 5}', "a.jsonl:1: expected 'text' with a string, found 5"),
        (
            '{"text": "a", "spans": [{"start": 0, "end": 1, "label": "X", "text": 5}]}',
            "a.jsonl:1: expected 'text' with a string, found 5",
        ),
        (
            '{"text": "a", "spans": [{"start": 0, "end": 1e999, "label": "X"}]}',
            "a.jsonl:1: expected 'end' with a whole number, found inf",
        ),
        ('{"text": "a", "cats": {"X": 1e999}}', "a.jsonl:1: the class 'X' has the value inf"),
        (f'{{"text": {DIGITS}}}', "a.jsonl:1: not JSON (a number of too many digits)"),
        (f'{{"text": {DEEP}}}', "a.jsonl:1: not JSON (nested too deeply)"),
        ('{"text": "a", "accept": [["X"]]}', "a.jsonl:1: ['X'] is accepted"),
    ],
)
def test_a_json_line_with_a_value_of_another_kind_is_named(tmp_path, text, message):
    assert refuse(tmp_path, "jsonl", "a.jsonl", text).startswith(message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"text": "aspirin"}]', '"text": 5}]', "a.json:1: expected 'text' with a string, found 5"),
        ('"length": 7', '"length": 1e999', "a.json:1: expected 'length' with a whole number"),
        ('"length": 7', '"length": true', "a.json:1: expected 'length' with a whole number"),
        ('"length": 7', f'"length": {DIGITS}', "a.json: not JSON (a number of too many digits)"),
        ('"type": "DRUG"', f'"type": {DEEP}', "a.json: not JSON (nested too deeply)"),
    ],
)
def test_bioc_json_with_a_value_of_another_kind_is_named(tmp_path, old, new, message):
    text = json.dumps(BIOC_JSON)
    assert text.count(old) == 1
    assert refuse(tmp_path, "bioc", "a.json", text.replace(old, new)).startswith(message)


def test_ids_and_infons_that_are_no_strings_are_left_out(tmp_path):
    text = json.dumps(BIOC_JSON).replace('"id": "T1"', '"id": [[1]]')
    deep = "[" * 900 + "]" * 900
    text = text.replace('"type": "DRUG"', f'"type": "DRUG", "deep": {deep}, "numbers": [1, 2]')
    ((mention,),) = [document.mentions for document in read(tmp_path, "bioc", "a.json", text)]
    assert (mention.id, mention.attributes) == ("", {"numbers": "1; 2"})


@pytest.mark.parametrize("format", ["squad", "bioasq"])
def test_deep_json_is_refused(tmp_path, format):
    assert "nested too deeply" in refuse(tmp_path, format, "a.json", DEEP)


def test_a_deep_exact_answer_is_refused(tmp_path):
    answer = "[" * 900 + '"x"' + "]" * 900
    question = f'{{"id": "1", "type": "factoid", "body": "?", "exact_answer": {answer}}}'
    message = refuse(tmp_path, "bioasq", "a.json", f'{{"questions": [{question}]}}')
    assert message.startswith("a.json: questions[0]: [[[...]]] in the exact_answer")


DDI = """<document id="1"><sentence text="one">
<entity id="1" charOffset="0-DIGITS" type="x" text="six"/></sentence></document>"""
I2B2 = """<a><TEXT>one</TEXT><TAGS>
<NAME id="1" start="0" end="DIGITS" text="six" TYPE="x"/></TAGS></a>"""


@pytest.mark.parametrize(
    ("format", "name", "content"),
    [
        ("pubtator", "a.txt", "1|t|one\n1|a|two\n1\t0\tDIGITS\tsix\tGENE\n"),
        ("ddi", "a.xml", DDI),
        ("i2b2_2014", "a.xml", I2B2),
        (
            "bioc",
            "a.xml",
            BIOC.replace('length="7"', 'length="DIGITS"').replace(
                "<text>aspirin</text></an", "<text>six</text></an"
            ),
        ),
    ],
)
def test_an_offset_of_too_many_digits_is_beyond_the_text(tmp_path, format, name, content):
    content = content.replace("DIGITS", DIGITS)
    assert "beyond the text's end" in refuse(tmp_path, format, name, content)


@pytest.mark.parametrize("offsets", ["20 24;0 3", "0 3;20 24", f"0 3;4 {DIGITS}"])
def test_every_fragment_of_a_mention_lies_in_the_text(tmp_path, offsets):
    (tmp_path / "a.txt").write_text("one two")
    (tmp_path / "a.ann").write_text(f"T1\tDRUG {offsets}\tone\n")
    with pytest.raises(BiomedError, match=r"a\.ann:1: the mention ends at \d+, beyond the text's"):
        list(read_documents("brat", [tmp_path]))


@pytest.mark.parametrize("encoding", ["utf-7", "punycode", "undefined", "idna", "unicode_escape"])
def test_an_encoding_that_no_file_has_is_refused(tmp_path, encoding):
    content = f'<?xml version="1.0" encoding="{encoding}"?>{BIOC}'
    assert refuse(tmp_path, "bioc", "a.xml", content).startswith(
        f"a.xml: unknown encoding '{encoding}'"
    )


def test_deep_xml_is_read_as_far_as_the_format_goes(tmp_path):
    deep = "<passage><offset>0</offset>" * 5000 + "</passage>" * 5000
    content = BIOC.replace("</document>", f"{deep}</document>")
    (document,) = read(tmp_path, "bioc", "a.xml", content)
    assert document.text.strip() == "aspirin"


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "aspirin"><!ENTITY b "&a;&a;&a;&a;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://localhost/">',
    ],
)
def test_xml_that_declares_entities_is_refused(tmp_path, declaration):
    content = f"<!DOCTYPE collection [{declaration}]>{BIOC}"
    assert refuse(tmp_path, "bioc", "a.xml", content).startswith("a.xml:1: declares the entity")


def test_xml_that_names_its_document_type_is_read(tmp_path):
    content = f'<?xml version="1.0"?><!DOCTYPE collection SYSTEM "BioC.dtd">{BIOC}'
    assert len(read(tmp_path, "bioc", "a.xml", content)) == 1


@pytest.mark.parametrize(
    "record",
    [
        '{"id": "note 7", "text": "a\\ud800b"}',
        '{"id": "note 7", "text": "a", "spans": [{"start": 0, "end": 1, "label": "\\udfff"}]}',
        '{"id": "note 7", "text": "a", "cats": {"\\ud83d": 1}}',
    ],
)
def test_half_of_a_surrogate_pair_is_refused_with_its_document(tmp_path, record):
    message = refuse(tmp_path, "jsonl", "a.jsonl", f'{{"text": "\\ud83d\\ude00"}}\n{record}\n')
    assert message.startswith("a.jsonl:2: document 'note 7' has half of a surrogate pair, \\ud")


def test_xml_is_parsed_in_linear_time(tmp_path):
    begin = time.process_time()
    texts = "x&#13;" * 200_000
    (document,) = read(
        tmp_path, "bioc", "a.xml", BIOC.replace("aspirin</text>\n", f"aspirin{texts}</text>\n", 1)
    )
    assert len(document.text) == len("aspirin") + 400_000
    assert time.process_time() - begin < 2
