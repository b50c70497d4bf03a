import json
import re

import pytest

from spacy_biomed.corpora.readers.jsonl import read_jsonl
from spacy_biomed.errors import BiomedError


def read(tmp_path, *records):
    path = tmp_path / "part.jsonl"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines), encoding="utf-8")
    return list(read_jsonl(path))


def test_spans_become_mentions(tmp_path):
    span = {"start": 2, "end": 8, "label": "D", "token_start": 1, "text": "cáncer"}
    documents = read(tmp_path, {"text": "😀 cáncer", "spans": [span], "meta": {"id": 5}}, "")
    assert documents[0].id == "5"
    assert [(m.label, m.fragments) for m in documents[0].mentions] == [("D", ((2, 8),))]
    assert documents[0].source.endswith("part.jsonl:1")


def test_a_missing_key_is_a_missing_annotation(tmp_path):
    absent, empty = read(tmp_path, {"text": "a"}, {"text": "a", "spans": [], "cats": {}})
    assert (absent.mentions, absent.cats) == (None, None)
    assert (empty.mentions, empty.cats) == ([], {})


def test_cats_and_accepted_options_become_numbers(tmp_path):
    options = [{"id": "A", "text": "a"}, {"id": "B", "text": "b"}]
    cats, choice = read(
        tmp_path,
        {"text": "a", "cats": {"A": True, "B": 0.25}},
        {"text": "a", "options": options, "accept": ["B"], "answer": "accept"},
    )
    assert cats.cats == {"A": 1.0, "B": 0.25}
    assert choice.cats == {"A": 0.0, "B": 1.0}


def test_only_accepted_lines_are_read(tmp_path):
    documents = read(
        tmp_path,
        {"text": "a", "answer": "reject"},
        {"text": "b", "answer": "ignore"},
        {"text": "c", "answer": "accept"},
    )
    assert [document.text for document in documents] == ["c"]


def test_tokens_are_kept(tmp_path):
    tokens = [{"text": "a", "start": 0, "end": 1, "id": 0}, {"text": "b", "start": 2, "end": 3}]
    (document,) = read(tmp_path, {"text": "a b", "tokens": tokens})
    assert document.tokens == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ('{"text": "a"', "no JSON at column"),
        ('["a"]', "expected 'text' with a string"),
        ({"spans": []}, "expected 'text' with a string"),
        ({"text": "a", "spans": {}}, "expected 'spans' with a list"),
        ({"text": "a", "spans": [{"start": 0, "end": 1}]}, "expected 'label'"),
        ({"text": "a", "spans": [{"start": "0", "end": 1, "label": "X"}]}, "expected 'start'"),
        ({"text": "a", "spans": [{"start": 0, "end": 2, "label": "X"}]}, "beyond the text's end"),
        ({"text": "a", "spans": [{"start": -1, "end": 1, "label": "X"}]}, "covers nothing"),
        (
            {"text": "a", "spans": [{"start": 0, "end": 1, "label": "X", "text": "b"}]},
            "the annotation reads 'b'",
        ),
        ({"text": "a", "cats": {"X": "yes"}}, "the class 'X' has the value 'yes'"),
        ({"text": "a", "options": [{"id": "A"}], "accept": ["B"]}, "'B' is accepted"),
        ({"text": "a b", "tokens": [{"start": 2, "end": 3}]}, "the token from 2 to 3"),
        ({"text": "a b", "tokens": [{"start": 0, "end": 1}]}, "the tokens end at 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path, record, what):
    with pytest.raises(BiomedError, match=rf"part\.jsonl:2: .*{re.escape(what)}"):
        read(tmp_path, {"text": "fine"}, record)


def test_an_empty_a_missing_and_a_wrongly_encoded_file_are_named(tmp_path):
    with pytest.raises(BiomedError, match=r"part\.jsonl: the file is empty"):
        read(tmp_path)
    with pytest.raises(BiomedError, match=r"absent\.jsonl: no such file"):
        list(read_jsonl(tmp_path / "absent.jsonl"))
    (tmp_path / "part.jsonl").write_bytes('{"text": "ñ"}'.encode("latin-1"))
    with pytest.raises(BiomedError, match=r"part\.jsonl:1: the byte at offset 10 is not UTF-8"):
        list(read_jsonl(tmp_path / "part.jsonl"))
