import json
import re

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats import Mention, Relation
from spacy_biomed.formats.assertion_attributes import list_said
from spacy_biomed.formats.jsonl import read_jsonl
from spacy_biomed.formats.repairs import keeping_log


def read(tmp_path, *records):
    path = tmp_path / "part.jsonl"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines), encoding="utf-8")
    return list(read_jsonl(path))


def test_a_file_of_white_space_has_no_document(tmp_path):
    assert read(tmp_path, "\u00a0", "\u2003") == []


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


def read_counting(tmp_path, *records):
    with keeping_log("stop") as log:
        documents = read(tmp_path, *records)
    return documents, [(change.kind, change.line) for change in log.changes]


def test_answers_other_than_accept_and_about_one_mention_are_counted_as_not_annotated(tmp_path):
    span = {"start": 0, "end": 1, "label": "X"}
    documents, changes = read_counting(
        tmp_path,
        {"text": "a", "answer": "reject"},
        {"text": "b", "spans": [span], "_view_id": "ner", "_is_binary": True, "answer": "accept"},
        {"text": "c", "spans": [span], "_is_binary": False, "answer": "accept"},
    )
    assert [document.text for document in documents] == ["c"]
    assert changes == [("not annotated", 1), ("not annotated", 2)]


def test_the_last_accepted_answer_to_a_task_is_read(tmp_path):
    def answer(label, answer="accept", task=5):
        span = {"start": 0, "end": 1, "label": label}
        return {"text": "a", "spans": [span], "_task_hash": task, "answer": answer}

    documents, changes = read_counting(
        tmp_path, answer("A"), answer("B"), answer("C", "ignore"), answer("D", task=6)
    )
    assert [document.mentions[0].label for document in documents] == ["B", "D"]
    assert changes == [("not annotated", 3), ("other annotation", 1)]


WHOLE = {
    "text": "a b",
    "spans": [{"start": 0, "end": 1, "label": "X"}],
    "relations": [],
    "options": [{"id": 1, "text": "one"}, {"id": 2, "text": "two"}],
    "accept": [2],
    "answer": "accept",
}


@pytest.mark.parametrize(
    ("view", "has_mentions", "has_relations", "cats"),
    [
        ("ner_manual", True, False, None),
        ("spans_manual", True, False, None),
        ("relations", True, True, None),
        ("choice", False, False, {"1": 0.0, "2": 1.0}),
        ("blocks", True, True, {"1": 0.0, "2": 1.0}),
        (["no name"], True, True, {"1": 0.0, "2": 1.0}),
    ],
)
def test_only_what_an_interface_shows_is_annotated(
    tmp_path, view, has_mentions, has_relations, cats
):
    (document,) = read(tmp_path, {**WHOLE, "_view_id": view})
    assert (document.mentions is not None) == has_mentions
    assert (document.relations is not None) == has_relations
    assert document.cats == cats


@pytest.mark.parametrize(
    "shown",
    [
        {"_view_id": "ner_manual"},
        {"tokens": [{"start": 0, "end": 1}], "_task_hash": 5},
    ],
    ids=["new", "old"],
)
def test_a_text_without_spans_in_an_interface_for_spans_has_no_mentions(tmp_path, shown):
    (document,) = read(tmp_path, {"text": "a", "answer": "accept", **shown})
    assert document.mentions == []


def test_a_class_is_accepted_or_rejected(tmp_path):
    given = {"text": "a", "label": "X", "_view_id": "classification"}
    answers = [{**given, "text": one, "answer": one} for one in ("accept", "reject")]
    documents = read(tmp_path, *answers)
    assert [document.cats for document in documents] == [{"X": 1.0}, {"X": 0.0}]
    assert read(tmp_path, {**given, "answer": "ignore"}) == []


def test_questions_on_one_text_give_one_document(tmp_path):
    asked = [("X", "accept", 1), ("Y", "reject", 2), ("Z", "ignore", 3), ("Y", "accept", 2)]
    records = [
        {"text": "a", "label": label, "answer": answer, "_task_hash": task}
        for label, answer, task in asked
    ]
    other = {"text": "b", "label": "X", "answer": "reject"}
    documents = read(tmp_path, *records, other)
    assert [(document.text, document.cats) for document in documents] == [
        ("a", {"X": 1.0, "Y": 1.0}),
        ("b", {"X": 0.0}),
    ]


@pytest.mark.parametrize("key", ["label", "labels", "cats"])
def test_named_classes_are_against_the_others_of_the_file(tmp_path, key):
    given = [["A"], [], ["B", "A"], "B"]
    entities = {"entities": [[0, 1, "D"]]}
    documents = read(tmp_path, *({"text": "a b", key: one, **entities} for one in given))
    assert [document.cats for document in documents] == [
        {"A": 1.0, "B": 0.0},
        {"A": 0.0, "B": 0.0},
        {"A": 1.0, "B": 1.0},
        {"A": 0.0, "B": 1.0},
    ]
    assert [len(document.mentions) for document in documents] == [1] * 4
    numbers = read(tmp_path, {"text": "a", "label": 0}, {"text": "b", "label": 1})
    assert [document.cats for document in numbers] == [{"0": 1.0, "1": 0.0}, {"0": 0.0, "1": 1.0}]
    assert read(tmp_path, {"text": "a", "cats": [], **entities})[0].cats is None


@pytest.mark.parametrize("key", ["ner_tags", "tags", "labels"])
def test_tokens_with_their_tags_are_read(tmp_path, key):
    tokens, tags = ["Gout", "hurts", "."], ["B-D", "O", "O"]
    documents = read(
        tmp_path,
        {"id": 7, "tokens": tokens, key: tags},
        {"tokens": ["lung", "cancer"], key: ["I-D", "I-D"]},
        {"tokens": ["lung", "cancer"], key: ["B-D", "E-D"]},
    )
    found = [(one.text, [mention.read(one.text) for mention in one.mentions]) for one in documents]
    assert found == [("Gout hurts .", ["Gout"]), *[("lung cancer", ["lung cancer"])] * 2]
    assert documents[0].id == "7" and documents[0].tokens == [(0, 4), (5, 10), (11, 12)]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ([1, 0], "'tokens' and 'ner_tags' need a string for each token; write names of tags"),
        (["B-D"], "'tokens' and 'ner_tags' need a string for each token"),
        (["B", "O"], "the tag 'B' has no label; write it, as B-DRUG"),
        (["X-D", "O"], "'X-D' is not a tag"),
        (["O", "E-D"], "E-D does not follow a token of the same mention"),
    ],
)
def test_wrong_tags_of_tokens_are_named(tmp_path, tags, message):
    with pytest.raises(BiomedError, match=rf"part\.jsonl:1: {re.escape(message)}"):
        read(tmp_path, {"tokens": ["a", "b"], "ner_tags": tags})


@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_records_is_read(tmp_path, indent):
    records = [{"text": "a", "spans": []}, {"text": "Gout", "label": [[0, 4, "D"]]}]
    path = tmp_path / "all.json"
    path.write_text(json.dumps(records, indent=indent), encoding="utf-8")
    documents = list(read_jsonl(path))
    assert [(one.id, one.text, len(one.mentions)) for one in documents] == [
        ("all-1", "a", 0),
        ("all-2", "Gout", 1),
    ]
    records[1] = {"text": 1}
    path.write_text(json.dumps(records, indent=indent), encoding="utf-8")
    with pytest.raises(BiomedError, match=r"all\.json: \[1\]: expected 'text' with a string"):
        list(read_jsonl(path))
    path.write_text('[\n{"text": "a"},\n{"text": }]', encoding="utf-8")
    with pytest.raises(BiomedError, match=r"all\.json:3: not JSON .*correct the list"):
        list(read_jsonl(path))


@pytest.mark.parametrize("is_list", [True, False])
def test_training_data_of_spacy_2_is_read(tmp_path, is_list):
    rows = [["Gout", {"entities": [[0, 4, "D"]]}], ["Rest", {"cats": {"A": True}}]]
    path = tmp_path / "part.jsonl"
    text = json.dumps(rows) if is_list else "\n".join(map(json.dumps, rows))
    path.write_text(text, encoding="utf-8")
    first, second = read_jsonl(path)
    assert ([one.label for one in first.mentions], second.cats) == (["D"], {"A": 1.0})


RELATED = {
    "text": "Aspirin and low dose heparin",
    "tokens": [
        {"start": 0, "end": 7},
        {"start": 8, "end": 11},
        {"start": 12, "end": 15},
        {"start": 16, "end": 20},
        {"start": 21, "end": 28},
    ],
    "spans": [
        {"start": 0, "end": 7, "token_start": 0, "token_end": 0, "label": "C"},
        {"start": 12, "end": 28, "token_start": 2, "token_end": 4, "label": "C"},
        {"start": 21, "end": 28, "token_start": 4, "token_end": 4, "label": "C"},
    ],
}


@pytest.mark.parametrize(
    "relation",
    [
        {"head": 4, "child": 0},
        {
            "head": 4,
            "child": 0,
            "head_span": {"start": 21, "end": 28, "label": "C"},
            "child_span": {"start": 0, "end": 7, "label": "C"},
        },
    ],
    ids=["tokens", "spans"],
)
def test_relations_are_between_the_spans_of_head_and_child(tmp_path, relation):
    (document,) = read(tmp_path, {**RELATED, "relations": [{**relation, "label": "with"}]})
    assert [mention.id for mention in document.mentions] == ["T1", "T2", "T3"]
    assert document.relations == [Relation("with", "T3", "T1")]


@pytest.mark.parametrize(
    ("relation", "what"),
    [
        ({"head": 1, "child": 0}, "no span has the head of a relation, from 8 to 11"),
        ({"head": 9, "child": 0}, "there is no token 9"),
        ({"head": 0}, "expected 'child' with a whole number"),
        (
            {"head": 0, "child_span": {"start": 8, "end": 11, "label": None}},
            "no span has the child of a relation",
        ),
    ],
)
def test_a_relation_without_its_spans_is_named(tmp_path, relation, what):
    with pytest.raises(BiomedError, match=rf"part\.jsonl:1: .*{what}"):
        read(tmp_path, {**RELATED, "relations": [{**relation, "label": "with"}]})


def test_attributes_of_a_span_are_kept(tmp_path):
    given = {"kb_id": "C1", "Negation": True, "n": [5, 6], "none": None}
    span = {"start": 0, "end": 1, "label": "X", "id": "T1", "attributes": given}
    (document,) = read(tmp_path, {"text": "a", "spans": [span]})
    attributes = {"kb_id": "C1", "Negation": "true", "n": "5; 6"}
    assert document.mentions == [Mention("X", ((0, 1),), "T1", attributes)]
    assert list_said(attributes.items()) == {"is_negated"}


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ('{"text": "a"', "not JSON"),
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


def test_mentions_and_relations_of_doccano_are_read(tmp_path):
    texts = "Gout hurts. Rest helps."
    entities = [
        {"id": 7, "start_offset": 0, "end_offset": 4, "label": "D"},
        {"id": 3, "start_offset": 12, "end_offset": 16, "label": "T"},
    ]
    relations = [{"id": 1, "from_id": 3, "to_id": 7, "type": "treats"}]
    listed, named = read(
        tmp_path,
        {"id": 11, "text": texts, "label": [[0, 4, "D"], [12, 16, "T"]], "Comments": []},
        {"id": 12, "text": texts, "entities": entities, "relations": relations},
    )
    places = [("D", ((0, 4),)), ("T", ((12, 16),))]
    for document in (listed, named):
        assert [(one.label, one.fragments) for one in document.mentions] == places
    assert (listed.id, listed.relations, named.relations) == (
        "11",
        None,
        [Relation("treats", "3", "7")],
    )


def test_a_relation_of_doccano_needs_the_ids_of_its_entities_alone(tmp_path):
    entities = [
        {"id": 7, "start_offset": 0, "end_offset": 4, "label": "D"},
        {"id": 3, "start_offset": 12, "end_offset": 16, "label": "T"},
        {"start_offset": 5, "end_offset": 10, "label": "S"},
    ]
    relations = [{"from_id": 3, "to_id": 7, "type": "treats"}]
    record = {"text": "Gout hurts. Rest helps.", "entities": entities, "relations": relations}
    (document,) = read(tmp_path, record)
    labels = {mention.id: mention.label for mention in document.mentions}
    (relation,) = document.relations
    assert (labels[relation.head], labels[relation.tail]) == ("T", "D")
    entities[2]["id"] = 3
    with pytest.raises(BiomedError, match=r"part\.jsonl:1: several entities have the id '3'"):
        read(tmp_path, record)


def test_a_relation_of_doccano_without_its_entity_is_named(tmp_path):
    entity = {"id": 7, "start_offset": 0, "end_offset": 4, "label": "D"}
    record = {
        "text": "Gout",
        "entities": [entity],
        "relations": [{"from_id": 7, "to_id": 8, "type": "is"}],
    }
    with pytest.raises(BiomedError, match=r"part\.jsonl:1: there is no entity '8'"):
        read(tmp_path, record)
    with keeping_log("skip") as log:
        assert [len(document.mentions) for document in read(tmp_path, record)] == [1]
    assert len(log.changes) == 1


def test_mentions_of_doccano_and_spacy_are_read_beside_classes(tmp_path):
    entity = {"start": 0, "end": 4, "label": "D"}
    for key, entities in (("ents", [entity]), ("label", [[0, 4, "D"]])):
        (document,) = read(tmp_path, {"text": "Gout", key: entities, "cats": {"A": True}})
        assert (len(document.mentions), document.cats) == (1, {"A": 1.0})


def test_other_keys_of_a_mention_are_attributes(tmp_path):
    span = {"start": 0, "end": 7, "label": "C", "type": "span", "token_start": 0, "source": "m"}
    span |= {"cui": "C1", "is_negated": False, "section": None, "attributes": {"kb_id": "D1"}}
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "Aspirin", "entities": [span]}))
    ((mention,),) = [one.mentions for one in read_jsonl(tmp_path / "a.jsonl")]
    assert mention.attributes == {"cui": "C1", "is_negated": "false", "kb_id": "D1"}
