"""What readers say of a damaged line: short, and nothing that a terminal would obey."""

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.registry import read_documents

LONG = "x" * 1_000_000
HOSTILE = f"\x1b[2J\u202e\0{LONG}"


@pytest.mark.parametrize(
    ("format", "name", "content"),
    [
        ("iob2", "a.tsv", "one\tO\ntwo\tX-HOSTILE\n"),
        ("bioes", "a.tsv", "one\tB-HOSTILE\n\n"),
        ("iob2", "a.tsv", "HOSTILE\n"),
        ("pubtator", "a.txt", "1|t|one\nHOSTILE\n"),
        ("pubtator", "a.txt", "1|t|one\n1|a|two\n1\t0\t3\tHOSTILE\tGENE\n"),
        ("jsonl", "a.jsonl", '{"text": 5, "x": "LONG"}\n'),
        ("jsonl", "a.jsonl", '{"text": ["\\u001bLONG"]}\n'),
        ("nli", "a.jsonl", '{"sentence1": "a", "sentence2": "b", "gold_label": "\\u001b\\ud800"}'),
        ("marked_relations", "a.jsonl", '{"text": "\\u001bLONG", "label": "a"}\n'),
        ("sts", "a.tsv", "HOSTILE\tone\ttwo\n"),
        ("medrqe", "a.xml", "<LONG/>"),
        ("ddi", "a.xml", "<LONG/>"),
        ("bioc", "a.xml", "<LONG/>"),
    ],
)
def test_a_message_quotes_little_and_no_control_character(tmp_path, format, name, content):
    content = content.replace("HOSTILE", HOSTILE).replace("LONG", LONG)
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(BiomedError) as error:
        list(read_documents(format, [tmp_path / name]))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500 + len(str(tmp_path))


def test_a_malformed_line_of_brat_is_quoted_in_part(tmp_path):
    (tmp_path / "a.txt").write_text("one two")
    (tmp_path / "a.ann").write_text(f"T1\tDRUG {HOSTILE}\tone\n", encoding="utf-8")
    with pytest.raises(
        BiomedError, match=r"a\.ann:1: malformed line 'T1\\tDRUG \\x1b\[2J"
    ) as error:
        list(read_documents("brat", [tmp_path]))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("format", "name", "content", "line"),
    [("jsonl", "a.jsonl", '{"text": "ñ"}', 1), ("pubtator", "a.txt", "1|t|a\n1|a|ñ", 2)],
)
def test_an_absent_an_empty_and_a_wrongly_encoded_file_are_named(
    tmp_path, format, name, content, line
):
    path = tmp_path / name
    with pytest.raises(BiomedError, match=rf"{name}: no such file"):
        list(read_documents(format, [path]))
    path.write_bytes(b"")
    with pytest.raises(BiomedError, match=rf"{name}: the file is empty"):
        list(read_documents(format, [path]))
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(BiomedError, match=rf"{name}:{line}: the byte at offset 10 is not UTF-8"):
        list(read_documents(format, [path]))
