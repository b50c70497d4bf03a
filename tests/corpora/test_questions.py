"""Documents of questions: gold on the Doc, parts of a corpus, conversion."""

import json

import pytest
import spacy
from spacy.tokens import DocBin
from stored_docs import stored

from spacy_biomed.annotations.document_keys import question_id
from spacy_biomed.corpora.convert import convert_corpus, create_pipeline
from spacy_biomed.corpora.gold import create_doc, create_gold_doc
from spacy_biomed.corpora.splits import split_documents
from spacy_biomed.formats.documents import Document, create_question

TEXT = "Stage IV non-small cell lung cancer, p70I kappa"


@pytest.fixture(scope="module")
def nlp():
    return create_pipeline("en")


def asked(answers):
    """A question on TEXT, answered by strings of it."""
    if answers is not None:
        answers = [(TEXT.index(one), TEXT.index(one) + len(one)) for one in answers]
    return create_question("q:1", "Which cancer?", TEXT, answers, "x.json")


def test_a_pair_and_its_answers_become_span_groups(nlp):
    doc = stored(create_gold_doc(nlp, asked(["lung cancer", "small cell lung cancer"])))
    assert [span.text for span in doc.spans["pair"]] == ["Which cancer?", TEXT]
    texts = [(span.text, span.label_) for span in doc.spans["answer"]]
    assert texts == [("small cell lung cancer", "answer"), ("lung cancer", "answer")]
    assert doc._.unaligned_answers == [] and "unaligned_mentions" not in doc.user_data
    assert not doc.has_annotation("ENT_IOB")


def test_answers_that_token_boundaries_do_not_fit_are_kept_aside(nlp):
    doc = stored(create_gold_doc(nlp, asked(["ung cancer", "kappa"])))
    assert [span.text for span in doc.spans["answer"]] == ["kappa"]
    ((start, end, label),) = doc._.unaligned_answers
    assert (doc.text[start:end], label) == ("ung cancer", "answer")


def test_no_answer_is_an_empty_group_and_no_annotation_is_none(nlp):
    assert len(stored(create_gold_doc(nlp, asked([]))).spans["answer"]) == 0
    assert "answer" not in stored(create_gold_doc(nlp, asked(None))).spans


def test_the_id_of_a_question_is_before_the_last_colon_unless_it_is_given(nlp):
    doc = create_doc(nlp, Document("a:b:12", "x"))
    assert question_id(doc) == "a:b"
    assert question_id(create_doc(nlp, Document("a", "x"))) == "a"
    doc.user_data["question_id"] = "mine"
    assert question_id(doc) == "mine"
    assert question_id(nlp("x")) is None


def on(id, context):
    return create_question(id, "Which?", context, [(0, 1)], "x.json")


def test_questions_on_one_context_and_contexts_of_one_question_stay_in_one_part():
    articles = [on(f"{i}", f"article {i // 4}") for i in range(40)]
    snippets = [on(f"q{i // 4}:{i}", f"snippet {i}") for i in range(40)]
    # The second and the third question share an article, the third and fourth a question.
    chain = [on("a:1", "x"), on("b:1", "y"), on("c:1", "y"), on("c:2", "z")]
    for documents, groups in ((articles, 10), (snippets, 10), (chain, 2)):
        parts = split_documents(documents, {"dev": 0.2, "test": 0.2}, 1)
        assert sorted(map(id, sum(parts.values(), []))) == sorted(map(id, documents))
        texts = {part: {one.text.split("\x1e")[1] for one in parts[part]} for part in parts}
        ids = {part: {one.id.split(":")[0] for one in parts[part]} for part in parts}
        for part, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
            assert not texts[part] & texts[other]
            assert not ids[part] & ids[other]
        if groups == 10:
            assert [len(parts[part]) for part in ("train", "dev", "test")] == [24, 8, 8]


def test_questions_that_are_numbered_anew_for_each_context_are_not_one():
    documents = [
        create_question("1", f"Which {i}?", f"context {i}", [(0, 1)], "x") for i in range(9)
    ]
    parts = split_documents(documents, {"dev": 0.2, "test": 0.2}, 1)
    assert [len(parts[part]) for part in ("train", "dev", "test")] == [5, 2, 2]


@pytest.mark.parametrize("format", ["squad", "bioasq"])
def test_questions_are_converted(tmp_path, format):
    if format == "squad":
        answers = [{"text": "BRCA1", "answer_start": 4}]
        asked = {"id": 1, "question": "Which gene?", "answers": answers}
        content = {"data": [{"paragraphs": [{"context": "The BRCA1 gene", "qas": [asked]}]}]}
    else:
        asked = {"id": "1", "type": "factoid", "body": "Which gene?", "exact_answer": "BRCA1"}
        content = {"questions": [asked | {"snippets": [{"text": "The BRCA1 gene"}]}]}
    for part in ("train", "dev"):
        (tmp_path / f"{part}.json").write_text(json.dumps(content), encoding="utf-8")
    convert_corpus("own", tmp_path, tmp_path / "out", format=format)
    read = DocBin().from_disk(tmp_path / "out" / "train.spacy")
    (doc,) = read.get_docs(spacy.blank("en").vocab)
    assert [span.text for span in doc.spans["pair"]] == ["Which gene?", "The BRCA1 gene"]
    assert [span.text for span in doc.spans["answer"]] == ["BRCA1"]
