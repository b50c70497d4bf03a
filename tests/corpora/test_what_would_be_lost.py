"""What a reader would pass over, or read as something else, is an error with its place."""

import gzip
import json

import pytest

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats import read_documents
from spacy_biomed.formats.repairs import keeping_log

TEXT = "Aspirin for cancer"
SPANS = '"spans": [{"start": 0, "end": 7, "label": "C"}]'
PUBTATOR = "1|t|Aspirin.\n1|a|Cancer.\n1\t0\t7\tAspirin\tC\tD1\n"


def read(tmp_path, format, name, content):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_documents(format, [path]))


def bioc(text="<text>Aspirin for</text>", beside=""):
    passage = f"<passage><offset>0</offset>{text}</passage>"
    return f"<collection><document><id>1</id>{passage}{beside}</document></collection>"


TASK = (
    '[{"id": 1, "data": {"text": "Aspirin"}, "annotations": [{"id": 1, "result": [{"id": "r", '
    '"type": "labels", "from_name": "l", "to_name": "text", '
    '"value": {"start": 0, "end": 7, "labels": []}}]}]}]'
)
ANNOTATION = (
    '<annotation id="1"><infon key="type">C</infon><location offset="0" length="7"/>'
    "<text>Aspirin</text></annotation>"
)


RELATION = (
    '<relation id="R1"><infon key="type">X</infon><node refid="1"/><node refid="2"/></relation>'
)


@pytest.mark.parametrize(
    ("format", "name", "content", "message"),
    [
        # The lines of old Macintoshes: a file was one token, or one title.
        ("columns", "a.tsv", "Aspirin\tB-C\rfor\tO\r", r"a\.tsv: its lines end in CR alone"),
        ("columns", "a.tsv", "x\tO\nAspirin\tB-C\rfor\tO\n", r"a\.tsv:2: expected a token and"),
        ("pubtator", "a.pubtator", PUBTATOR.replace("\n", "\r"), "its lines end in CR alone"),
        ("jsonl", "a.jsonl", '{"text": "a"}\r{"text": "b"}\r', "its lines end in CR alone"),
        (
            "pubtator",
            "a.pubtator",
            "0|t|x\n\n" + PUBTATOR.replace("Cancer.\n", "Cancer.\r"),
            r"a\.pubtator:4: a line of '1\|a\|Cancer",
        ),
        # The number of a token is not the token.
        (
            "columns",
            "a.conllu",
            "# x = 1\n1\tAspirin\tB-C\n2\tfor\tO\n",
            r":2: the first column num",
        ),
        # Two documents, with the mentions in the wrong one.
        ("pubtator", "a.pubtator", "1|a|Cancer.\n1|t|Aspirin.\n", r":2: .* or a second title"),
        ("pubtator", "a.pubtator", "1|t|Cancer.\n1|t|Aspirin.\n", r":2: .* or a second title"),
        # Mentions of another column were gone, or those of a prediction were read.
        ("columns", "a.tsv", "Aspirin\tB-C\tO\ncancer\tO\tB-D\n", r":1: column 2 has tags of"),
        ("columns", "a.txt", "x NN B-NP O O\ny NN I-NP B-C B-D\n", r":1: column 4 has tags of"),
        # Mentions were relations.
        ("pubtator", "a.pubtator", PUBTATOR.replace("\t0\t7", "\t0 5\t4 7"), r":3: malformed line"),
        ("pubtator", "a.pubtator", PUBTATOR.replace("\t7", ".0\t7.0"), r":3: malformed line"),
        ("pubtator", "a.pubtator", PUBTATOR.replace("\t0", "\t-1"), r":3: malformed line"),
        # One of two fields was gone.
        ("jsonl", "a.jsonl", '{"text": "a", "text": "b"}', r":1: two fields of an object"),
        ("bioc", "a.json", '{"documents": [], "documents": []}', "two fields of an object"),
        # Annotations of other programs were gone.
        ("jsonl", "a.jsonl", '{"text": "a", "label": true}', "'label' without 'spans'"),
        ("jsonl", "a.jsonl", '{"text": "a", "annotations": {"C": []}}', "'annotations' without"),
        ("jsonl", "a.jsonl", '{"text": "a", "denotations": []}', "'denotations' without 'spans'"),
        ("jsonl", "a.jsonl", '{"text": "a", "relations": [{}]}', "'relations' without 'spans'"),
        # The text had no mentions, or some of them.
        ("jsonl", "a.jsonl", '{"text": "a", "spans": [], "ents": [[0, 1, "C"]]}', "'ents' beside"),
        ("jsonl", "a.jsonl", '{"text": "a", "ents": [], "label": [[0, 1, "C"]]}', "'label' beside"),
        (
            "jsonl",
            "a.jsonl",
            '{"text": "a", "entities": [[0, 1, "C"]], "annotations": [{"x": 1}]}',
            "'annotations' beside 'spans'",
        ),
        (
            "columns",
            "a.tsv",
            "#FORMAT=WebAnno TSV 3.3\n\n\n#Text=a\n",
            "WebAnno TSV has more columns",
        ),
        # A relation was between all of these.
        (
            "bioc",
            "a.xml",
            bioc(beside=RELATION).replace("<text>", ANNOTATION * 2 + "<text>", 1),
            "there are several annotations '1'",
        ),
        # Parts of a document were gone.
        ("bioc", "a.xml", bioc(beside=ANNOTATION), "an annotation on a document"),
        (
            "bioc",
            "a.xml",
            bioc(f"<text>Aspirin</text>{ANNOTATION.replace('location', 'loc')}"),
            "the annotation reads 'Aspirin' and has no locations",
        ),
        ("bioc", "a.xml", bioc("<text>Aspirin <b>for</b></text>"), "one with elements in it"),
        ("bioc", "a.xml", bioc("<text>Aspirin</text><text>for</text>"), "a second <text>"),
        ("bioc", "a.json", '{"documents": [{"id": "1", "passage": []}]}', "has no 'passages'"),
        ("label_studio", "a.json", TASK, "a region has no label"),
        # Text in a wrong encoding.
        ("jsonl", "a.jsonl", '{"text": "a\\u0000b"}', "has NUL characters"),
        ("columns", "a.tsv", "a\0\tO\n", "has NUL characters"),
        (
            "jsonl",
            "a.jsonl.gz",
            gzip.compress(b'{"text": "a"}', mtime=0),
            "compressed, which is not read",
        ),
    ],
)
def test_an_error_tells_what_would_be_lost(tmp_path, format, name, content, message):
    with pytest.raises(BiomedError, match=message) as error:
        read(tmp_path, format, name, content)
    assert str(error.value).startswith(str(tmp_path / name))


def test_columns_of_phrases_and_copies_of_the_tags_are_passed_over(tmp_path):
    content = "x NN B-NP B-C I-C\ny NN I-NP I-C I-C\n\nz IN B-PP O O\n"
    first, _ = read(tmp_path, "columns", "a.txt", content)
    assert [one.fragments for one in first.mentions] == [((0, 3),)]


def test_attributes_of_relations_are_counted(tmp_path):
    lines = "T1\tC 0 7\tAspirin\nT2\tD 12 18\tcancer\nR1\ttreats Arg1:T1 Arg2:T2\nA1\tNegated R1\n"
    (tmp_path / "a.ann").write_text(f"{lines}#1\tAnnotatorNotes R1\tnote\n")
    with keeping_log("stop") as log:
        read(tmp_path, "brat", "a.txt", TEXT)
    assert [(one.kind, one.line) for one in log.changes] == [("left out", 4)]
    assert log.changes[0].what == "the attribute 'Negated' of R1"


def test_a_corpus_whose_annotations_no_reader_finds_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT, "anns": [{"label": "C"}]}))
    with pytest.raises(BiomedError, match=r"a\.jsonl: no document has annotations that the"):
        convert_corpus("own", tmp_path / "a.jsonl", tmp_path / "out", format="jsonl")
    assert not (tmp_path / "out").exists()


def test_a_type_that_is_a_list_is_no_label(tmp_path):
    (passage,) = [{"offset": 0, "text": TEXT, "annotations": []}]
    place = [{"offset": 0, "length": 7}]
    passage["annotations"] = [{"infons": {"type": ["C", "D"]}, "locations": place}]
    content = json.dumps({"documents": [{"id": "1", "passages": [passage]}]})
    with pytest.raises(BiomedError, match="has no type"):
        read(tmp_path, "bioc", "a.json", content)


@pytest.mark.parametrize(
    ("format", "name", "content"),
    [
        ("jsonl", "a.jsonl", json.dumps({"text": TEXT}).replace("}", f", {SPANS}}}")),
        ("pubtator", "a.pubtator", PUBTATOR),
        ("bioc", "a.xml", bioc(f"<text>{TEXT}</text>{ANNOTATION}")),
    ],
)
def test_white_space_around_a_label_is_removed(tmp_path, format, name, content):
    for old, new in (('"C"', '" C "'), ("\tC\t", "\t C \t"), (">C<", "> C <")):
        content = content.replace(old, new)
    assert " C " in content
    (document,) = read(tmp_path, format, name, content)
    assert [mention.label for mention in document.mentions] == ["C"]


def test_white_space_within_a_tag_is_removed(tmp_path):
    (document,) = read(tmp_path, "columns", "a.tsv", "lung\tB- D\ncancer\tI-D\n")
    assert [(one.label, one.fragments) for one in document.mentions] == [("D", ((0, 11),))]


def test_the_same_document_after_a_blank_line_is_an_error(tmp_path):
    with pytest.raises(BiomedError, match="there is a document '1' already"):
        read(tmp_path, "pubtator", "a.pubtator", f"{PUBTATOR}\n{PUBTATOR}")


def test_a_text_of_several_annotators_is_an_error_and_a_copy_is_left_out(tmp_path):
    one = {"id": 1, "text": TEXT, "label": [[0, 7, "C"]]}
    others = ({"id": 2}, {"text": "Aspirin"}, {"label": None, "cats": {"X": True}})
    rows = [one, one, *(one | other for other in others)]
    for name, row in enumerate(rows):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    with keeping_log("stop") as log:
        assert len(list(read_documents("jsonl", [tmp_path]))) == len(rows) - 1
    assert [(change.kind, change.file) for change in log.changes] == [
        ("left out", str(tmp_path / "1.jsonl"))
    ]
    (tmp_path / "2.jsonl").write_text(json.dumps({**one, "label": []}))
    with pytest.raises(BiomedError, match=r"2\.jsonl:1: there is a document '1' already"):
        list(read_documents("jsonl", sorted(tmp_path.iterdir())[1:]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("b.jsonl", "a link that leads nowhere"),
        ("more", "a link to a folder"),
        ("b.jsonl.gz", "compressed in a form that is not read here"),
        ("b.jsonl.zip", "compressed in a form that is not read here"),
    ],
)
def test_files_of_a_folder_that_cannot_be_read_are_errors(tmp_path, name, message):
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "a"}\n')
    if name == "more":
        (folder / name).symlink_to(tmp_path)
    elif name == "b.jsonl":
        (folder / name).symlink_to(tmp_path / "none")
    else:
        (folder / name).write_bytes(b"x")
    with pytest.raises(BiomedError, match=message) as error:
        list(read_documents("jsonl", [folder]))
    assert str(error.value).startswith(str(folder / name))


@pytest.mark.parametrize("line", ['{"text": 5}', '{"text": "a", "answer": "reject"}'])
def test_a_part_without_a_document_is_an_error(tmp_path, line):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.jsonl").write_text(f"{line}\n")
    with pytest.raises(BiomedError, match="no document of the part train could be read: "):
        convert_corpus("x", tmp_path / "source", tmp_path / "out", format="jsonl", on_error="skip")
    assert not (tmp_path / "out").exists()


def test_lines_of_annotate_with_a_second_title_are_an_error_of_the_document(tmp_path):
    from spacy_biomed.files.sources import Columns
    from spacy_biomed.formats.inputs import find_parts

    path = tmp_path / "a.pubtator"
    path.write_text(f"1|a|Cancer.\n1|t|Aspirin.\n2|t|x\n2|t|y\n\n{PUBTATOR.replace('1', '3')}")
    (part,) = find_parts(path, Columns())
    items = list(part.read_from(0, 0))
    assert [bool(item.error) for item in items] == [True, True, False]
    assert (items[-1].id, items[-1].text) == ("3", "Aspirin. Cancer.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"identifier": "mesh"},
            "mentions have no such attribute; they have: concept",
        ),
        ({"spans_key": ""}, "may not be empty"),
        ({"name": ""}, "may not be empty"),
    ],
)
def test_a_name_that_would_have_no_effect_is_refused(tmp_path, options, message):
    path = tmp_path / "a.pubtator"
    path.write_text(PUBTATOR)
    with pytest.raises(BiomedError, match=message):
        convert_corpus(
            **{"name": "x", "source": path, "output": tmp_path / "out", "format": "pubtator"}
            | options
        )
