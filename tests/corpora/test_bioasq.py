import json

import pytest
from refusals import refused

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.bioasq import find_answers, read_bioasq

SNIPPETS = [{"text": "Imatinib inhibits BCR-ABL."}, {"text": "It binds Abl, ABL and Ablation."}]


def question(exact=(), type="factoid", snippets=SNIPPETS, **more):
    return {
        "id": "55031181e9bde69634000014",
        "type": type,
        "body": "What does imatinib inhibit?",
        "snippets": snippets,
        "exact_answer": exact,
        **more,
    }


def write(tmp_path, *questions):
    path = tmp_path / "7B1_golden.json"
    path.write_text(json.dumps({"questions": questions}), encoding="utf-8")
    return path


def read(tmp_path, *questions):
    return list(read_bioasq(write(tmp_path, *questions)))


def texts(document):
    return [document.text[one.start : one.end] for one in document.answers]


@pytest.mark.parametrize(
    "exact", ["abl", ["ABL", "x"], [["ABL"], ["x", "y"]], [["ABL", "x"]]], ids=str
)
def test_answers_and_synonyms_are_found_as_whole_words_in_any_case(tmp_path, exact):
    first, second = read(tmp_path, question(exact))
    assert (texts(first), texts(second)) == (["ABL"], ["Abl", "ABL"])
    assert [first.id, second.id] == [f"55031181e9bde69634000014:{i}" for i in (1, 2)]
    (a, b), (c, d) = first.pair
    assert (first.text[a:b], first.text[c:d]) == (
        "What does imatinib inhibit?",
        "Imatinib inhibits BCR-ABL.",
    )


def test_a_snippet_without_the_answer_has_an_empty_list_and_a_test_set_has_none(tmp_path):
    unlabelled = question()
    del unlabelled["exact_answer"]
    documents = read(tmp_path, question("BCR-ABL"), unlabelled)
    assert [texts(one) for one in documents[:2]] == [["BCR-ABL"], []]
    assert [one.answers for one in documents[2:]] == [None, None]


def test_other_types_of_questions_are_left_out(tmp_path):
    others = [question("yes", "yesno"), question([["ABL"]], "list"), question([], "summary")]
    assert len(read(tmp_path, *others, question("ABL"))) == 2


def test_a_snippet_that_is_given_twice_is_read_once_and_none_gives_no_document(tmp_path):
    twice = [SNIPPETS[0], SNIPPETS[0], SNIPPETS[1]]
    documents = read(tmp_path, question("ABL", snippets=twice), question("ABL", snippets=[]))
    assert [one.id[-2:] for one in documents] == [":1", ":3"]


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("type  2\ndiabetes", "Type 2 diabetes", ["type  2\ndiabetes"]),
        ("(p53) p53-like xp53", "p53", ["p53", "p53"]),
        ("dose (mg) (mg)x", "(mg)", ["(mg)", "(mg)"]),
        ("a.b aXb", "a.b", ["a.b"]),
        ("x", " ", []),
    ],
)
def test_where_answers_are_found(text, answer, found):
    assert [text[start:end] for start, end in find_answers(text, [answer])] == found


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"type": "factoid"}, r"questions\[0\]: expected 'id' with a string"),
        ({"id": "1"}, r"questions\[0\]: expected 'type'"),
        (question(body=3), r"questions\[0\]: expected 'body' with a string, found 3"),
        (question(snippets=[{}]), r"questions\[0\].snippets\[0\]: expected 'text'"),
        (question(snippets="x"), r"questions\[0\]: expected 'snippets' with a list"),
        (question({"a": 1}), r"questions\[0\]: .* in the exact_answer of a factoid question"),
        (question([["a", 1]]), r": 1 in the exact_answer"),
        (question("x", snippets=[{"text": "a\x1eb"}]), r"snippets\[0\]: .*U\+001E"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(tmp_path, record, message):
    path = write(tmp_path, record)
    with refused(message, path):
        list(read_bioasq(path))


def test_a_file_without_questions_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(BiomedError, match="expected 'questions' with a list"):
        list(read_bioasq(path))
