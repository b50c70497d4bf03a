import re

import pytest
from refusals import refused

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Relation
from spacy_biomed.formats.i2b2_xml import read_i2b2_2012, read_i2b2_2014

TEXT_2012 = "\nAdmission Date :\n2014-03-02\nHe was admitted with chest\npain for two days ."
TAGS_2012 = (
    '<EVENT id="E0" start="1" end="10" text="Admission" modality="FACTUAL" polarity="POS" '
    'type="OCCURRENCE" />\n'
    '<EVENT id="E1" start="50" end="60" text="chest pain" modality="FACTUAL" polarity="POS" '
    'type="PROBLEM" />\n'
    '<TIMEX3 id="T0" start="18" end="28" text="2014-03-02" type="DATE" val="2014-03-02" mod="" />\n'
    '<TIMEX3 id="T1" start="65" end="73" text="two days" type="DURATION" val="P2D" mod="NA" />\n'
    '<TLINK id="TL0" fromID="E1" fromText="chest pain" toID="T1" toText="" type="OVERLAP" />\n'
    '<TLINK id="TL1" fromID="E1" fromText="chest pain" toID="S0" toText="" type="BEFORE" />\n'
    '<TLINK id="TL2" fromID="E0" fromText="Admission" toID="E1" toText="chest pain" type="" />\n'
    '<SECTIME id="S0" start="18" end="28" text="2014-03-02" type="ADMISSION" dvalue="" />\n'
)
TEXT_2014 = "\n\nRecord date: 2071-05-03\nSeen by Dr. Ana Ruiz at St. Mary's.\n"
TAGS_2014 = (
    '<DATE id="P0" start="15" end="25" text="2071-05-03" TYPE="DATE" comment="" />\n'
    '<NAME id="P1" start="38" end="46" text="Ana Ruiz" TYPE="DOCTOR" comment="" />\n'
    '<LOCATION id="P2" start="50" end="60" text="St. Mary\'s" TYPE="HOSPITAL" comment="sic" />\n'
)


def write(folder, text, tags, root="ClinicalNarrativeTemporalAnnotation", encoding="utf-8"):
    content = (
        f'<?xml version="1.0" encoding="UTF-8" ?>\n<{root}>\n<TEXT><![CDATA[{text}]]></TEXT>\n'
        f"<TAGS>\n{tags}</TAGS>\n</{root}>\n"
    )
    (folder / "101.xml").write_bytes(content.encode(encoding))
    # The owners put other files beside it.
    (folder / "101.xml.extent").write_text('EVENT="Admission" 1:0 1:0')
    return folder


def read_2012(folder, text=TEXT_2012, tags=TAGS_2012, **options):
    (document,) = read_i2b2_2012(write(folder, text, tags), **options)
    return document


def strings(document):
    return [(document.text[m.start : m.end], m.label) for m in document.mentions]


def test_events_are_mentions_by_type(tmp_path):
    document = read_2012(tmp_path)
    assert document.id == "101"
    assert strings(document) == [("Admission", "OCCURRENCE"), ("chest\npain", "PROBLEM")]
    assert document.mentions[1].attributes == {"modality": "FACTUAL", "polarity": "POS"}
    assert document.relations is None


def test_temporal_adds_times_sections_and_links(tmp_path):
    document = read_2012(tmp_path, temporal=True)
    assert strings(document)[2:] == [
        ("2014-03-02", "DATE"),
        ("two days", "DURATION"),
        ("2014-03-02", "ADMISSION"),
    ]
    assert document.relations == [
        Relation("OVERLAP", "E1", "T1", "TL0"),
        Relation("BEFORE", "E1", "S0", "TL1"),
    ]


def test_offsets_may_leave_out_the_first_line_end(tmp_path):
    moved = re.sub(r'(start|end)="(\d+)"', lambda m: f'{m[1]}="{int(m[2]) - 1}"', TAGS_2012)
    assert strings(read_2012(tmp_path, tags=moved)) == strings(read_2012(tmp_path))


def test_offsets_may_count_a_first_line_end_that_is_not_there(tmp_path):
    assert strings(read_2012(tmp_path, text=TEXT_2012[1:]))[0] == ("Admission", "OCCURRENCE")


def test_bare_ampersands_and_brackets_in_quoted_texts_are_read(tmp_path):
    tags = '<EVENT id="E0" start="1" end="13" text="C&S <2 &amp; E" modality="" type="TEST" />\n'
    document = read_2012(tmp_path, text="\nC&S <2 & E.", tags=tags.replace('"13"', '"11"'))
    assert strings(document) == [("C&S <2 & E", "TEST")]


def test_phi_has_its_type_as_label_and_its_category_as_attribute(tmp_path):
    (document,) = read_i2b2_2014(write(tmp_path, TEXT_2014, TAGS_2014, "deIdi2b2"))
    assert strings(document) == [
        ("2071-05-03", "DATE"),
        ("Ana Ruiz", "DOCTOR"),
        ("St. Mary's", "HOSPITAL"),
    ]
    assert [mention.attributes["category"] for mention in document.mentions] == [
        "DATE",
        "NAME",
        "LOCATION",
    ]
    assert document.mentions[2].attributes["comment"] == "sic"


BAD_TAGS = [
    (
        '<EVENT id="E0" start="1" end="99" text="Discharge by" type="TEST" />',
        "beyond the text's end",
    ),
    ('<EVENT id="E0" start="1" end="10" text="Discharge" type="TEST" />', "reads 'Discharge' but"),
    ('<EVENT id="E0" start="1" end="10" text="Admission" type="" />', "has no type="),
    ('<EVENT start="1" end="10" text="Admission" type="TEST" />', "has no id="),
    ('<EVENT id="E0" start="one" end="10" text="A" type="TEST" />', "start=.* whole number"),
    ('<EVENT id="E0" start="10" end="1" text="Discharge by" type="TEST" />', "covers nothing"),
    ('<TLINK id="TL0" fromID="E9" toID="E8" type="AFTER" />', "there is no E9 in this file"),
    ('<EVENT id="E0" start=1 />', "no XML at column"),
]


@pytest.mark.parametrize(("tags", "what"), BAD_TAGS)
def test_bad_tags_are_named_with_file_and_line(tmp_path, tags, what):
    # XML declaration, root, five lines of text, <TAGS>; then the tags.
    with refused(rf"101\.xml:9: .*{what}"):
        read_2012(tmp_path, tags=tags + "\n", temporal=True)


def test_phi_that_reads_differently_is_named_with_its_line(tmp_path):
    write(tmp_path, TEXT_2014, TAGS_2014.replace("Ana Ruiz", "Eva Ruiz"), "deIdi2b2")
    with pytest.raises(BiomedError, match=r"101\.xml:10: the annotation reads 'Eva Ruiz' but"):
        list(read_i2b2_2014(tmp_path))


@pytest.mark.parametrize("read", [read_i2b2_2012, read_i2b2_2014])
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "101.xml: the file is empty"),
        (b"<root><TEXT>a</TEXT></root>", "101.xml:1: expected <TEXT> and <TAGS> in <root>"),
        (b"no markup", "101.xml:1: no XML"),
        ("<root>\n<TEXT>é</TEXT></root>".encode("latin-1"), "101.xml:2: the byte at offset 13"),
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path, read, content, what):
    (tmp_path / "101.xml").write_bytes(content)
    with pytest.raises(BiomedError, match=re.escape(what)):
        list(read(tmp_path))
