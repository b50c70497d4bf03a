import json
import time

import pytest
from refusals import refused

from spacy_biomed.formats.squad import read_squad

CONTEXT = "Mutations of BRCA1 and of brca2 cause breast cancer. BRCA1 repairs DNA."


def answer(text, start):
    return {"text": text, "answer_start": start}


def question(id="q", answers=(), **more):
    return {"id": id, "question": "Which gene?", "answers": list(answers), **more}


def write(tmp_path, content):
    path = tmp_path / "train.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def squad(*questions, context=CONTEXT):
    return {"version": "1.1", "data": [{"paragraphs": [{"context": context, "qas": questions}]}]}


def read(tmp_path, *questions, **more):
    return list(read_squad(write(tmp_path, squad(*questions, **more))))


def texts(document):
    return [document.text[one.start : one.end] for one in document.answers]


def test_a_question_is_a_pair_with_all_its_answers(tmp_path):
    given = [answer("BRCA1", 53), answer("BRCA1", 13), answer("brca2", 26), answer("BRCA1", 13)]
    (document,) = read(tmp_path, question(7, given))
    (a, b), (c, d) = document.pair
    assert (document.text[a:b], document.text[c:d]) == ("Which gene?", CONTEXT)
    assert document.text[b:c] == "\x1e" and d == len(document.text)
    assert [one.start - c for one in document.answers] == [13, 26, 53]
    assert texts(document) == ["BRCA1", "brca2", "BRCA1"]
    assert {one.label for one in document.answers} == {"answer"}
    assert (document.id, document.mentions, document.cats) == ("7", None, None)
    assert document.source.endswith("train.json: data[0].paragraphs[0].qas[0]")


def test_an_impossible_question_has_no_answer_and_a_missing_list_is_not_annotated(tmp_path):
    missing = {"id": "c", "question": "Which?"}
    plausible = question("a", is_impossible=True, plausible_answers=[answer("BRCA1", 13)])
    impossible, empty, absent = read(tmp_path, plausible, question("b"), missing)
    assert (impossible.answers, empty.answers, absent.answers) == ([], [], None)


def test_white_space_around_an_answer_is_left_out(tmp_path):
    (document,) = read(tmp_path, question(answers=[answer(" of brca2 ", 22), answer("DNA.", 67)]))
    assert texts(document) == ["of brca2", "DNA."]


@pytest.mark.parametrize(
    ("text", "start", "place"),
    [
        ("BRCA1", 10, 13),
        ("BRCA1", 40, 53),
        ("BRCA1", 10_000, 53),
        ("BRCA1", -1, 13),
        (" BRCA1", 13, 13),  # the offset of its first letter
        ("BRCA2", 50, 26),  # of another case
    ],
)
def test_an_answer_beside_its_offset_is_taken_where_it_is_nearest(tmp_path, text, start, place):
    (document,) = read(tmp_path, question(answers=[answer(text, start)]))
    assert [one.start - document.pair[1][0] for one in document.answers] == [place]


def test_offsets_count_characters(tmp_path):
    (document,) = read(tmp_path, question(answers=[answer("IL-6", 5)]), context="😀 Éa IL-6 raised")
    assert texts(document) == ["IL-6"]


def test_ids_of_biobert_keep_the_question_before_the_colon(tmp_path):
    ids = ["56b76d916e3f8eaf4c000001_003", "a_001", "a:b"]
    documents = read(tmp_path, *(question(id) for id in ids))
    assert [one.id for one in documents] == ["56b76d916e3f8eaf4c000001:003", "a_001", "a:b:1"]


def test_files_in_a_folder_are_read_in_order(tmp_path):
    for name in ("b", "a"):
        content = json.dumps(squad(question(name)))
        (tmp_path / f"{name}.json").write_text(content, encoding="utf-8-sig")
    assert [one.id for one in read_squad(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ('{"data": [\n}', r"train.json:2: not JSON"),
        ([], "train.json: expected 'data' with a list, found none"),
        ({"data": {}}, "expected 'data' with a list, found {}"),
        ({"data": [1]}, r"data\[0\]: expected 'paragraphs'"),
        (squad(context=None), r"data\[0\].paragraphs\[0\]: expected 'context'"),
        (squad(question(None)), r"qas\[0\]: expected 'id' with a string or a whole number"),
        (squad(question(), {"id": "b"}), r"qas\[1\]: expected 'question'"),
        (squad(question(answers=["BRCA1"])), r"answers\[0\]: expected 'text'"),
        (squad(question(answers=[answer("x", "1")])), "'answer_start' with a whole number"),
        (squad(question(answers=[answer("x", True)])), "'answer_start' with a whole number"),
        (squad(question(answers=[answer(" ", 1)])), r"answers\[0\]: the answer's text is empty"),
        (squad(question(answers=[answer("TP53", 1)])), r"answers\[0\]: the context has no 'TP53'"),
        (
            squad(question(answers=[answer("BRCA1", 13)], is_impossible=True)),
            r"qas\[0\]: it is_impossible but has answers",
        ),
        (squad(question() | {"answers": {}}), "expected 'answers' with a list, found {}"),
        (squad(question(), context="a\x1eb"), r"qas\[0\]: .*U\+001E"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(tmp_path, content, message):
    path = write(tmp_path, content)
    with refused(message, path):
        list(read_squad(path))


def test_covid_qa_is_read_whole(corpora_dir):
    documents = list(read_squad(corpora_dir("covid_qa") / "covid_qa.json"))
    assert len(documents) == 1380
    assert len({document.text[slice(*document.pair[1])] for document in documents}) == 98
    assert all(len(document.answers) == 1 for document in documents)
    assert all(one == one.strip() for document in documents for one in texts(document))


def test_an_answer_of_a_hundred_thousand_characters_is_found_at_once(tmp_path):
    context = "A" * 100_001
    begin = time.process_time()
    document, other = read(
        tmp_path,
        question("a", [answer(context[1:].lower(), 7)]),
        question("b", [answer("A" * 100_000, 5)] * 100),
        context=context,
    )
    assert [len(text) for text in texts(document) + texts(other)] == [100_000] * 2
    assert time.process_time() - begin < 2
