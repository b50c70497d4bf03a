import json

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats import Mention, Relation, read_label_studio
from spacy_biomed.formats.repairs import keeping_log


def region(id, start, end, text, *labels, **others):
    value = {"start": start, "end": end, "text": text, "labels": list(labels)}
    names = {"from_name": "label", "to_name": "text", "type": "labels"}
    return {"id": id, **names, "value": value, **others}


def task(text, *results, **others):
    return {"id": 7, "data": {"text": text}, "annotations": [{"result": list(results)}], **others}


def read(tmp_path, *tasks, on_error="stop"):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    with keeping_log(on_error) as log:
        documents = list(read_label_studio(path))
    return documents, [change.kind for change in log.changes]


def test_regions_become_mentions_and_a_task_without_one_has_none(tmp_path):
    (first, second), changes = read(
        tmp_path, task("for cancer", region("a", 4, 10, "cancer", "D")), task("none")
    )
    assert (first.id, first.text) == ("7", "for cancer")
    assert first.mentions == [Mention("D", ((4, 10),), "a")]
    assert (second.mentions, second.relations, second.cats, changes) == ([], None, None, [])


def test_a_region_with_two_labels_is_two_mentions(tmp_path):
    ((document,), _) = read(tmp_path, task("cancer", region("a", 0, 6, "cancer", "D", "X")))
    assert [mention.label for mention in document.mentions] == ["D", "X"]


@pytest.mark.parametrize("start", [2, 3], ids=["code points", "UTF-16"])
def test_offsets_count_code_points_or_in_old_versions_utf_16(tmp_path, start):
    text = "\U0001f600 aspirin"
    ((document,), changes) = read(
        tmp_path, task(text, region("a", start, start + 7, "aspirin", "D"))
    )
    assert (document.mentions[0].fragments, changes) == (((2, 9),), [])


def test_without_covered_strings_offsets_count_code_points(tmp_path):
    given = region("a", 2, 9, None, "D")
    ((document,), _) = read(tmp_path, task("\U0001f600 aspirin", given))
    assert document.mentions[0].fragments == ((2, 9),)


def test_line_ends_are_counted_one_by_one_and_quoted_as_escapes(tmp_path):
    ((document,), changes) = read(
        tmp_path, task("lung\r\ncancer x", region("a", 0, 12, "lung\\n\\ncancer", "D"))
    )
    assert (document.mentions[0].fragments, changes) == (((0, 12),), [])


def test_attributes_come_from_meta_and_controls_for_a_region(tmp_path):
    ((document,), _) = read(
        tmp_path,
        task(
            "cancer",
            region("a", 0, 6, "cancer", "D", meta={"text": ["see note"], "id": "C1"}),
            {
                "id": "a",
                "type": "choices",
                "from_name": "status",
                "value": {"start": 0, "end": 6, "choices": ["past"]},
            },
        ),
    )
    assert document.mentions[0].attributes == {"text": "see note", "id": "C1", "status": "past"}
    assert document.cats is None


@pytest.mark.parametrize(
    ("direction", "pairs"),
    [("right", [("a", "b")]), ("left", [("b", "a")]), ("bi", [("a", "b"), ("b", "a")])],
)
def test_relations_have_a_direction(tmp_path, direction, pairs):
    ((document, other), _) = read(
        tmp_path,
        task(
            "aspirin cancer",
            region("a", 0, 7, "aspirin", "C"),
            region("b", 8, 14, "cancer", "D"),
            {
                "type": "relation",
                "from_id": "a",
                "to_id": "b",
                "direction": direction,
                "labels": ["treats"],
            },
        ),
        task("none"),
    )
    assert document.relations == [Relation("treats", head, tail) for head, tail in pairs]
    assert other.relations == []


def test_a_relation_without_a_label_is_named_relation(tmp_path):
    link = {"type": "relation", "from_id": "a", "to_id": "a"}
    ((document,), _) = read(tmp_path, task("x", region("a", 0, 1, "x", "C"), link))
    assert document.relations == [Relation("relation", "a", "a")]


def choices(name, *chosen):
    return {"id": name, "type": "choices", "from_name": name, "value": {"choices": list(chosen)}}


def test_choices_become_classes_and_no_answer_is_no_annotation(tmp_path):
    (documents, _) = read(
        tmp_path, task("a", choices("kind", "A")), task("b", choices("kind", "B")), task("c")
    )
    assert [document.cats for document in documents] == [
        {"A": 1.0, "B": 0.0},
        {"A": 0.0, "B": 1.0},
        None,
    ]


def test_no_choice_is_no_class_where_several_can_be_chosen(tmp_path):
    several, none = task("a", choices("kind", "A", "B")), task("b")
    (documents, _) = read(tmp_path, several, none, task("c", choices("kind", "B")))
    values = [{"A": 1.0, "B": 1.0}, {"A": 0.0, "B": 0.0}, {"A": 0.0, "B": 1.0}]
    assert [document.cats for document in documents] == values


def test_the_text_is_in_the_only_field_with_all_covered_strings(tmp_path):
    first, second = (
        task("", region("a", 0, 4, "Gout", "D")),
        task("", region("b", 5, 9, "Pain", "D")),
    )
    first["data"], second["data"] = ({"ward": "W", "note": "Gout Pain"} for _ in range(2))
    unlabelled = {**task(""), "data": {"ward": "Gout", "note": "Rest"}}
    documents, _ = read(tmp_path, unlabelled, first, second)
    assert [document.text for document in documents] == ["Rest", "Gout Pain", "Gout Pain"]
    first["data"] = {"ward": "Gout", "note": "Gout"}
    with pytest.raises(
        BiomedError, match=r"cannot tell which field of the data is the text \(ward"
    ):
        read(tmp_path, unlabelled, first)


def test_choices_of_several_controls_are_named_after_them(tmp_path):
    ((document,), _) = read(tmp_path, task("a", choices("kind", "A"), choices("sure", "yes")))
    assert document.cats == {"kind=A": 1.0, "sure=yes": 1.0}


def annotation(label, **others):
    return {"result": [region("a", 0, 1, "x", label)], **others}


@pytest.mark.parametrize(
    ("annotations", "label", "left_out"),
    [
        ([annotation("A", updated_at="2024-02"), annotation("B", updated_at="2024-01")], "A", 1),
        ([annotation("A", created_at="2024-01"), annotation("B", created_at="2024-02")], "B", 1),
        ([annotation("A", ground_truth=True), annotation("B", updated_at="2024-01")], "A", 1),
        ([annotation("A"), annotation("B", was_cancelled=True, updated_at="2024-01")], "A", 0),
        ([annotation("A"), annotation("B")], "B", 1),
    ],
    ids=["latest change", "latest", "ground truth", "not skipped", "last"],
)
def test_one_of_several_annotations_is_read(tmp_path, annotations, label, left_out):
    ((document,), changes) = read(
        tmp_path, {"id": 1, "data": {"text": "x"}, "annotations": annotations}
    )
    assert [mention.label for mention in document.mentions] == [label]
    assert changes == ["other annotation"] * left_out


@pytest.mark.parametrize(
    "others",
    [
        {"annotations": [], "predictions": [{"result": [region("a", 0, 1, "x", "A")]}]},
        {"predictions": []},
        {"annotations": [annotation("A", was_cancelled=True)]},
    ],
    ids=["predictions", "nothing", "skipped"],
)
def test_a_task_that_nobody_has_annotated_is_left_out_and_counted(tmp_path, others):
    (documents, changes) = read(tmp_path, {"id": 3, "data": {"text": "x"}, **others}, task("y"))
    assert ([document.text for document in documents], changes) == (["y"], ["not annotated"])


def test_completions_of_old_versions_are_annotations(tmp_path):
    old = {"id": 1, "data": {"text": "x"}, "completions": [annotation("A")]}
    ((document,), _) = read(tmp_path, old)
    assert len(document.mentions) == 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"text": "x", "other": "y"}, "x"),
        ({"note": "x", "number": 5}, "x"),
        ({"note": "x", "title": "y"}, "x"),
        ({"text": "y", "note": "x"}, "x"),
    ],
)
def test_the_text_is_named_as_the_tag_or_text_or_the_only_string(tmp_path, data, text):
    given = {**region("a", 0, 1, "x", "A"), "to_name": "note"}
    ((document,), _) = read(tmp_path, {"data": data, "annotations": [{"result": [given]}]})
    assert document.text == text


def test_a_class_of_a_taxonomy_is_the_path_to_it(tmp_path):
    def choose(**value):
        return {"type": "taxonomy", "from_name": "codes", "value": value}

    one = choose(taxonomy=[["Lung", "Cancer"], ["Skin"]])
    of_region = {**choose(start=0, end=6, taxonomy=[["Drug", "Old"]]), "id": "a"}
    first, second = (
        task("cancer", one),
        task("cancer", choose(taxonomy=[["Skin"]]), region("a", 0, 6, "cancer", "D"), of_region),
    )
    (documents, _) = read(tmp_path, first, second)
    assert [document.cats for document in documents] == [
        {"Lung > Cancer": 1.0, "Skin": 1.0},
        {"Lung > Cancer": 0.0, "Skin": 1.0},
    ]
    assert documents[1].mentions[0].attributes == {"codes": "Drug > Old"}


def test_the_identifier_in_the_data_is_the_documents(tmp_path):
    ((document,), _) = read(tmp_path, {**task(""), "data": {"text": "", "id": "n/1"}})
    assert document.id == "n/1"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"id": 1}, "expected 'data' with an object"),
        ({"id": 1, "text": "x", "annotation_id": 3, "label": []}, "this is JSON-MIN"),
        ({"data": {"a": "x", "b": "y"}, "annotations": [{"result": []}]}, r"the text \(a, b\)"),
        (task("https://example.org/a.txt"), "in place of the text"),
        (task("/data/upload/1/a.txt"), "in place of the text"),
        (task("x", {**region("a", 0, 1, "x", "A"), "type": "hypertextlabels"}), "plain text"),
        (task("x", region("a", "/p[1]/text()[1]", "/p[1]/text()[1]", "x", "A")), "plain text"),
        (
            task("x", region("a", 0, 1, "x", "A"), {**region("b", 0, 1, "y", "A"), "to_name": "b"}),
            r"several texts have regions \(text, b\)",
        ),
        (task("x", region("a", 0, 2, None, "A")), "beyond the text's end"),
        (task("x", region("a", 0, 1, "y", "A")), "the annotation reads 'y'"),
        ({"data": {"text": "x"}, "annotations": [17]}, "export whole annotations"),
        (
            task(
                "x",
                region("a", 0, 1, "x", "A"),
                {"type": "relation", "from_id": "a", "to_id": "b"},
            ),
            "a relation with 'b'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place_or_left_out(tmp_path, given, what):
    with pytest.raises(BiomedError, match=rf"export\.json: \[1\]: .*{what}"):
        read(tmp_path, task("y", region("z", 0, 1, "y", "A")), given)
    documents, changes = read(tmp_path, task("y"), given, on_error="skip")
    assert documents[0].text == "y" and "left out" in changes
