"""A label of nothing but white space is an error of its file, or left out."""

import json

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.repairs import keeping_log

SPANS = [
    {"id": "T1", "start": 0, "end": 7, "label": "DRUG"},
    {"id": "T2", "start": 8, "end": 11, "label": ""},
    {"id": "T3", "start": 12, "end": 18, "label": " "},
]
ROWS = {
    "mention": {"text": "Aspirin for cancer", "spans": SPANS},
    "class": {"text": "Aspirin for cancer", "cats": {"": 1.0}},
    "relation": {
        "text": "Aspirin for cancer",
        "spans": SPANS[:1],
        "relations": [{"label": "", "head_span": SPANS[0], "child_span": SPANS[0]}],
    },
}


def read(tmp_path, row, on_error):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps({"text": "Next"}), encoding="utf8")
    with keeping_log(on_error) as log:
        return list(read_documents("jsonl", [path])), [change.kind for change in log.changes]


@pytest.mark.parametrize("row", ROWS)
def test_an_empty_label_is_refused_with_its_line(tmp_path, row):
    with pytest.raises(BiomedError, match=r"a\.jsonl:1: .* has an empty label"):
        read(tmp_path, ROWS[row], "stop")


def test_mentions_with_an_empty_label_are_left_out_and_the_others_stay(tmp_path):
    documents, changes = read(tmp_path, ROWS["mention"], "skip")
    assert [mention.label for mention in documents[0].mentions] == ["DRUG"]
    assert changes == ["left out"] * 2 and len(documents) == 2


def test_marked_arguments_of_unknown_type_are_no_empty_labels(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "<< a >> in [[ b ]]", "label": "X"}), encoding="utf8")
    (document,) = read_documents("marked_relations", [path])
    assert [mention.label for mention in document.mentions] == ["", ""]
