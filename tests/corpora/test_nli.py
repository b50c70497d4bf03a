import json
import re

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.nli import read_nli


def record(label="neutral", **changes):
    parse = {"sentence1_parse": "(ROOT ...)", "sentence2_binary_parse": "( ... )"}
    pair = {"sentence1": "She has a cough. ", "sentence2": "She is ill.", "gold_label": label}
    return json.dumps({"pairID": "a1", **parse, **pair, **changes})


def read(folder, *lines):
    (folder / "mli_dev_v1.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return list(read_nli(folder / "mli_dev_v1.jsonl"))


def test_premise_and_hypothesis_are_a_pair_with_all_three_labels(tmp_path):
    (document,) = read(tmp_path, record())
    assert document.id == "a1"
    assert [document.text[start:end] for start, end in document.pair] == [
        "She has a cough.",
        "She is ill.",
    ]
    assert document.cats == {"contradiction": 0.0, "entailment": 0.0, "neutral": 1.0}
    assert document.mentions is None


def test_a_pair_without_agreed_label_is_left_out(tmp_path):
    assert [d.id for d in read(tmp_path, record("-"), record("entailment", pairID="b"))] == ["b"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not JSON"),
        ("[1]", "expected 'sentence1' with a string"),
        (record(sentence2=None), "expected 'sentence2' with a string, found none"),
        (record("maybe"), "unknown label 'maybe'; write one of contradiction, entailment"),
        (record(sentence2=" "), "the second text of the pair is empty"),
        (record(sentence1="a\x1eb"), "U+001E"),
    ],
)
def test_bad_lines_are_named_with_file_and_line(tmp_path, line, what):
    with pytest.raises(BiomedError, match=rf"mli_dev_v1\.jsonl:2: .*{re.escape(what)}"):
        read(tmp_path, record(), line)


def test_an_empty_file_and_a_wrong_encoding_are_named(tmp_path):
    with pytest.raises(BiomedError, match=r"mli_dev_v1\.jsonl: the file is empty"):
        read(tmp_path)
    (tmp_path / "mli_dev_v1.jsonl").write_bytes(record().encode() + "\n{é".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"mli_dev_v1\.jsonl:2: the byte at offset \d+ is not"):
        list(read_nli(tmp_path))
