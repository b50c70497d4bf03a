import re

import pytest

from spacy_biomed.corpora.convert import create_pipeline
from spacy_biomed.corpora.gold import annotate, create_doc
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.ddi import read_ddi
from spacy_biomed.formats.documents import Relation

SENTENCES = (
    "Warfarin interacts with Bufferin and loop or thiazide diuretics.",
    "It is safe with honey.",
)


def sentence(number, text, inside=""):
    return f'<sentence id="d1.s{number}" text="{text}">\n{inside}</sentence>\n'


def entity(start, end, text, id="d1.s0.e0", label="drug"):
    return f'<entity id="{id}" charOffset="{start}-{end}" type="{label}" text="{text}"/>\n'


ENTITIES = (
    entity(0, 7, "Warfarin")
    + entity(24, 31, "Bufferin", "d1.s0.e1", "brand")
    + '<entity id="d1.s0.e2" charOffset="37-40;54-62" type="group" text="loop diuretics"/>\n'
)
PAIRS = (
    '<pair id="d1.s0.p0" e1="d1.s0.e0" e2="d1.s0.e1" ddi="true" type="effect"/>\n'
    '<pair id="d1.s0.p1" e1="d1.s0.e0" e2="d1.s0.e2" ddi="false"/>\n'
    '<pair id="d1.s0.p2" e1="d1.s0.e1" e2="d1.s0.e2" ddi="true"/>\n'
)


def write(folder, inside=ENTITIES + PAIRS, second=""):
    folder.mkdir(exist_ok=True)
    content = (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<document id="d1">\n'
        + sentence(0, SENTENCES[0], inside)
        + sentence(1, "")
        + sentence(2, SENTENCES[1], second)
        + "</document>\n"
    )
    (folder / "Warfarin_ddi.xml").write_text(content, encoding="utf-8")
    return folder


def read_one(folder, *contents):
    (document,) = read_ddi(write(folder, *contents))
    return document


def strings(document):
    return [
        (" ".join(document.text[start:end] for start, end in m.fragments), m.label)
        for m in document.mentions
    ]


def test_sentences_make_the_text_and_last_characters_belong_to_entities(tmp_path):
    document = read_one(tmp_path, ENTITIES + PAIRS, entity(16, 20, "honey", "d1.s2.e0", "drug_n"))
    assert document.text == " ".join(SENTENCES)
    assert [document.text[start:end] for start, end in document.sentences] == list(SENTENCES)
    assert strings(document) == [
        ("Warfarin", "drug"),
        ("Bufferin", "brand"),
        ("loop diuretics", "group"),
        ("honey", "drug_n"),
    ]
    assert document.mentions[2].is_discontinuous


def test_pairs_that_interact_are_relations_by_type(tmp_path):
    assert read_one(tmp_path).relations == [
        Relation("effect", "d1.s0.e0", "d1.s0.e1", "d1.s0.p0"),
        Relation("int", "d1.s0.e1", "d1.s0.e2", "d1.s0.p2"),
    ]


def test_a_relation_of_a_discontinuous_entity_has_no_span_and_is_counted(tmp_path):
    document = read_one(tmp_path)
    doc = create_doc(create_pipeline("en"), document)
    annotated = annotate(doc, document)
    assert [(r.head.text, r.tail.text, r.label) for r in doc._.relations] == [
        ("Warfarin", "Bufferin", "effect")
    ]
    assert [relation.id for relation in annotated.lost_relations] == ["d1.s0.p2"]


def test_interactions_in_place_of_pairs_are_relations_by_type(tmp_path):
    interactions = (
        '<ddi id="d1.s0.d0" e1="d1.s0.e0" e2="d1.s0.e1" type="advise"/>\n'
        '<ddi id="d1.s0.d1" e1="d1.s0.e1" e2="d1.s0.e2"/>\n'
    )
    assert read_one(tmp_path, ENTITIES + interactions).relations == [
        Relation("advise", "d1.s0.e0", "d1.s0.e1", "d1.s0.d0"),
        Relation("int", "d1.s0.e1", "d1.s0.e2", "d1.s0.d1"),
    ]


def test_files_of_the_first_task_are_read(tmp_path):
    pairs = (
        '<pair id="p0" e1="d1.s0.e0" e2="d1.s0.e1" interaction="true"/>\n'
        '<pair id="p1" e1="d1.s0.e0" e2="d1.s0.e2" interaction="false"/>\n'
    )
    entities = (
        entity(0, 8, "Warfarin")
        + entity(24, 32, "Bufferin", "d1.s0.e1")
        + entity(54, 63, "diuretics", "d1.s0.e2")
    )
    document = read_one(tmp_path, entities + pairs)
    assert strings(document) == [("Warfarin", "drug"), ("Bufferin", "drug"), ("diuretics", "drug")]
    assert document.relations == [Relation("int", "d1.s0.e0", "d1.s0.e1", "p0")]


def test_white_space_around_sentences_is_left_out(tmp_path):
    (tmp_path / "a.xml").write_text(
        '<document id="d1"><sentence id="s0" text="On warfarin.&#xd;&#xa;">'
        + entity(3, 10, "warfarin")
        + '</sentence><sentence id="s1" text=" &#xa;"/><sentence id="s2" text=" No honey. ">'
        + entity(4, 8, "honey", "e1")
        + "</sentence></document>",
        encoding="utf-8",
    )
    (document,) = read_ddi(tmp_path)
    assert document.text == "On warfarin. No honey."
    assert document.sentences == [(0, 12), (13, 22)]
    assert strings(document) == [("warfarin", "drug"), ("honey", "drug")]
    doc = create_doc(create_pipeline("en"), document)
    assert [sentence.text for sentence in doc.sents] == ["On warfarin.", "No honey."]


@pytest.mark.parametrize("shift", [-1, 1])
def test_offsets_that_are_off_by_one_are_moved(tmp_path, shift):
    document = read_one(tmp_path, entity(24 + shift, 31 + shift, "Bufferin"))
    assert strings(document) == [("Bufferin", "drug")]


def test_fragments_with_only_a_space_between_are_one(tmp_path):
    inside = '<entity id="e" charOffset="54-62;45-52" type="group" text="thiazide diuretics"/>'
    assert read_one(tmp_path, inside).mentions[0].fragments == ((45, 63),)


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        (entity(0, 99, "Aspirin"), "beyond the text's end at 64"),
        (entity(0, 7, "Aspirin"), "reads 'Aspirin' but the text at 0-8 reads 'Warfarin'"),
        (entity(0, "", "Warfarin"), 'charOffset="0-" is malformed'),
        ('<entity id="e" type="drug" text="Warfarin"/>', "<entity> has no charOffset"),
        ('<entity id="e" charOffset="0-5;3-9" type="x" text="Warfarrfarin"/>', "reads"),
        ('<entity id="e" charOffset="0-7"', "no XML at column"),
        ('<pair id="p" e1="x" e2="y" ddi="true"/>', "no entity 'x' in this sentence"),
        ('<pair id="p" e1="x" e2="y" ddi="yes"/>', 'ddi="yes"; write "true" or "false"'),
    ],
)
def test_bad_annotations_are_named_with_file_and_line(tmp_path, inside, what):
    with pytest.raises(BiomedError, match=rf"Warfarin_ddi\.xml:[45]: .*{re.escape(what)}"):
        read_one(tmp_path, inside)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "a.xml: the file is empty"),
        (b"<corpus>\n<document/></corpus>", "a.xml:1: expected <document>, found <corpus>"),
        ("<document\nid='é'/>".encode("latin-1"), "a.xml:2: the byte at offset 14 is not UTF-8"),
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path, content, what):
    (tmp_path / "a.xml").write_bytes(content)
    with pytest.raises(BiomedError, match=re.escape(what)):
        list(read_ddi(tmp_path))
