"""`biomed_qa`: loss, decoding, documents without annotation, scores of a pipeline."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from thinc.api import Model, Ragged

from spacy_biomed.annotations.pairs import PAIR_SEPARATOR, get_pair, pair
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.encoders.batching.encoded import get_encoding
from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.pipeline.qa.scores import answer_scorer_v1, score_answers
from spacy_biomed.training.config import fill_config
from spacy_biomed.training.optimizer import AdamW_v1

QA, NER, ENCODER = "biomed_qa", "biomed_ner", "biomed_transformer"
ONNX = "biomed_onnx_transformer"
REPOSITORY = Path(__file__).parents[2]
CONTEXT = "Aspirin reduced the risk of colorectal cancer in patients."
OTHER = "Mutations of BRCA1 were found in breast tumours."
TOY = [
    ("the risk of?", CONTEXT, ["colorectal cancer"]),
    ("Aspirin?", CONTEXT, ["reduced"]),
    ("Mutations of?", OTHER, ["BRCA1"]),
    ("found in?", OTHER, ["breast tumours"]),
]


def make_example(nlp, question, context, answers=None, **user_data):
    """An example with answers annotated at all their positions; None for no annotation."""
    reference = pair(nlp, question, context)
    reference.user_data.update(user_data)
    if answers is not None:
        shift = reference.spans["pair"][1].start_char
        spans = []
        for answer in answers:
            start = context.find(answer)
            while start >= 0:
                spans.append(reference.char_span(start + shift, start + shift + len(answer)))
                start = context.find(answer, start + 1)
        reference.spans["answer"] = spans
    return Example(nlp.make_doc(reference.text), reference)


def make_examples(nlp, questions=TOY):
    return [make_example(nlp, *question) for question in questions]


def trained(make_pipeline, steps=60, questions=TOY, **config):
    nlp = make_pipeline({QA: config})
    examples = make_examples(nlp, questions)
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(1e-2)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


def ready(make_pipeline, **config):
    """A sized, untrained head."""
    return trained(make_pipeline, steps=0, **config)


def answers_of(doc):
    return [span.text for span in doc.spans["answer"]]


def softmax(scores):
    exp = np.exp(np.asarray(scores, dtype="float64"))
    return exp / exp.sum()


def row_a_token(docs, scores):
    """Scores in the model's format, with a row for each token."""
    return Ragged(np.array(scores, dtype="float32"), np.ones(sum(map(len, docs)), dtype="int32"))


# Learning


def test_it_learns_a_toy_task(make_pipeline, tmp_path):
    """There are two questions on each context, so the answer depends on the question."""
    nlp = trained(make_pipeline, steps=40)
    assert nlp.evaluate(make_examples(nlp))["qa_exact"] == 1.0
    docs = [pair(nlp, question, context) for question, context, _ in TOY]
    expected = [nlp(doc) for doc in docs]
    nlp.to_disk(tmp_path)
    from_bytes = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for again in (spacy.load(tmp_path), from_bytes):
        for (question, context, _), doc in zip(TOY, expected, strict=True):
            found = again(pair(again, question, context))
            assert answers_of(found) == answers_of(doc)
            np.testing.assert_allclose(
                found.spans["answer"].attrs["scores"],
                doc.spans["answer"].attrs["scores"],
                atol=1e-5,
            )


@pytest.mark.slow
def test_it_learns_from_a_row_for_each_token_too(make_pipeline):
    nlp = trained(make_pipeline, steps=40, model={"tok2vec": {"pooling": "first"}})
    assert nlp.evaluate(make_examples(nlp))["qa_exact"] == 1.0


@pytest.mark.slow
def test_it_learns_that_a_context_has_no_answer(make_pipeline):
    questions = [*TOY[:2], ("the risk of?", OTHER, []), ("Mutations of?", OTHER, ["BRCA1"])]
    nlp = trained(make_pipeline, steps=40, questions=questions, no_answer=True)
    assert nlp.evaluate(make_examples(nlp, questions))["qa_exact"] == 1.0
    group = nlp(pair(nlp, *questions[2][:2])).spans["answer"]
    assert len(group) == 0 and group.attrs["no_answer"] > 0.5
    group = nlp(pair(nlp, *questions[3][:2])).spans["answer"]
    assert group.attrs["no_answer"] < 0.5 and group.attrs["scores"][0] > 0.5
    assert min(group.attrs["scores"]) >= group.attrs["no_answer"]


def test_a_row_for_the_document_is_refused(make_pipeline):
    with pytest.raises(BiomedError, match="pooling = 'cls'.*use first, mean or pieces"):
        make_pipeline({QA: {"model": {"tok2vec": {"pooling": "cls"}}}})


# The loss

# Tokens: Which gene ? SEP MYC or MYC and p53
QUESTION = ("Which gene?", "MYC or MYC and p53")


def test_the_loss_is_the_mean_cross_entropy_over_the_contexts_of_annotated_pairs(make_pipeline):
    nlp = ready(make_pipeline)
    head = nlp.get_pipe(QA)
    one = make_example(nlp, *QUESTION, ["or MYC"])
    both = make_example(nlp, *QUESTION, ["MYC", "and p53"])  # MYC occurs twice
    absent = make_example(nlp, *QUESTION)
    examples = [one, absent, both]
    docs = [example.predicted for example in examples]
    assert [len(doc) for doc in docs] == [9, 9, 9]
    scores = np.random.default_rng(0).normal(size=(27, 2))
    loss, d_scores = head.get_loss(examples, row_a_token(docs, scores))
    start, end = softmax(scores[4:9, 0]), softmax(scores[4:9, 1])
    by_hand = -np.log(start[1]) - np.log(end[2])
    expected = np.zeros((27, 2))
    expected[4:9, 0] = start - [0, 1, 0, 0, 0]
    expected[4:9, 1] = end - [0, 0, 1, 0, 0]
    start, end = softmax(scores[22:, 0]), softmax(scores[22:, 1])
    of_starts, of_ends = start[0] + start[2] + start[3], end[0] + end[2] + end[4]
    by_hand += -np.log(of_starts) - np.log(of_ends)
    expected[22:, 0] = start - start * [1, 0, 1, 1, 0] / of_starts
    expected[22:, 1] = end - end * [1, 0, 1, 0, 1] / of_ends
    assert loss == pytest.approx(by_hand / 4, rel=1e-5)
    np.testing.assert_allclose(d_scores, expected / 4, atol=1e-6)
    assert d_scores.dtype == "float32"


def test_the_loss_of_no_answer_has_the_first_word_of_the_question_as_its_target(make_pipeline):
    nlp = ready(make_pipeline, no_answer=True)
    head = nlp.get_pipe(QA)
    examples = [make_example(nlp, *QUESTION, []), make_example(nlp, *QUESTION, ["or"])]
    docs = [example.predicted for example in examples]
    scores = np.random.default_rng(1).normal(size=(18, 2))
    loss, d_scores = head.get_loss(examples, row_a_token(docs, scores))
    places = np.array([0, 4, 5, 6, 7, 8])
    of_none = [softmax(scores[places, column])[0] for column in (0, 1)]
    of_answer = [softmax(scores[9 + places, column])[2] for column in (0, 1)]
    assert loss == pytest.approx(-np.log([*of_none, *of_answer]).sum() / 4, rel=1e-5)
    assert np.flatnonzero(d_scores.any(axis=1)).tolist() == [*places, *(9 + places)]
    head.cfg["no_answer"] = False
    loss, d_scores = head.get_loss(examples, row_a_token(docs, scores))
    of_answer = [softmax(scores[13:, column])[1] for column in (0, 1)]
    assert loss == pytest.approx(-np.log(of_answer).sum() / 2, rel=1e-5)
    assert not d_scores[:9].any()


def test_an_answer_starts_at_its_first_word_piece_and_ends_at_its_last(make_pipeline):
    nlp = ready(make_pipeline)
    head = nlp.get_pipe(QA)
    example = make_example(nlp, "Where?", "In Rome now", ["Rome now"])
    lengths = np.array([1, 1, 0, 2, 3, 1], dtype="int32")  # Where ? SEP In Rome now
    scores = Ragged(np.zeros((8, 2), dtype="float32"), lengths)
    loss, d_scores = head.get_loss([example], scores)
    assert loss == pytest.approx(np.log(3))
    expected = np.zeros((8, 2))
    expected[[2, 4, 7], 0] = np.array([1, 1 - 3, 1]) / 6
    expected[[3, 6, 7], 1] = np.array([1, 1, 1 - 3]) / 6
    np.testing.assert_allclose(d_scores, expected, atol=1e-6)


def test_the_loss_is_that_of_pytorch_with_scores_of_any_size(make_pipeline):
    nlp = ready(make_pipeline)
    example = make_example(nlp, *QUESTION, ["p53"])
    scores = np.zeros((9, 2), dtype="float32")
    scores[4:, 0], scores[4:, 1] = [1e4, -50.0, 3.0, 0.0, 80.0], [-1e4, 1.0, 2.0, 0.0, 99.0]
    given = torch.tensor(scores[4:], requires_grad=True)
    expected = torch.nn.functional.cross_entropy(given.T, torch.tensor([4, 4]))
    expected.backward()
    with np.errstate(all="raise", under="ignore"):
        loss, d_scores = nlp.get_pipe(QA).get_loss(
            [example], row_a_token([example.predicted], scores)
        )
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    np.testing.assert_allclose(d_scores[4:], given.grad, atol=1e-6)


def test_answers_that_no_span_of_words_holds_teach_nothing(make_pipeline):
    """They do not even teach that there is no answer."""
    nlp = ready(make_pipeline, no_answer=True)
    lost = make_example(nlp, *QUESTION, [])
    lost.reference._.unaligned_answers = [(12, 14, "answer")]
    outside = make_example(nlp, *QUESTION, [])
    outside.reference.spans["answer"] = [outside.reference[0:2]]  # in the question
    text = make_example(nlp, *QUESTION, ["p53"])
    text = Example(nlp.make_doc("No pair."), text.reference)
    examples = [lost, outside, text]
    docs = [example.predicted for example in examples]
    scores = np.ones((sum(map(len, docs)), 2))
    loss, d_scores = nlp.get_pipe(QA).get_loss(examples, row_a_token(docs, scores))
    assert loss == 0.0 and not d_scores.any()


# What is not annotated


def test_documents_without_annotation_leave_the_head_as_it_is(make_pipeline, learns_nothing_from):
    nlp = trained(make_pipeline, steps=3)
    absent = [make_example(nlp, *QUESTION), make_example(nlp, "", "Aspirin")]
    absent.append(Example(nlp.make_doc("Aspirin"), nlp.make_doc("Aspirin")))
    learns_nothing_from(nlp, QA, make_examples(nlp), absent)


# Decoding


def test_answers_have_the_product_of_the_probabilities_of_their_start_and_end(make_pipeline):
    nlp = trained(make_pipeline, steps=10)
    doc = nlp(pair(nlp, *TOY[0][:2]))
    group = doc.spans["answer"]
    assert len(group) == 5
    assert [span._.confidence for span in group] == group.attrs["scores"]
    assert group.attrs["scores"] == sorted(group.attrs["scores"], reverse=True)
    assert {span.label_ for span in group} == {"answer"}
    docs = [pair(nlp, *TOY[0][:2])]
    encoder, head = nlp.get_pipe(ENCODER), nlp.get_pipe(QA)
    encoder.set_annotations(docs, encoder.predict(docs))
    scores = head.model.predict(docs)
    lasts = np.cumsum(scores.lengths) - 1
    firsts = lasts - scores.lengths + 1
    context = docs[0].spans["pair"][1]
    inside = slice(context.start, context.end)
    start = softmax(scores.dataXd[firsts[inside], 0])
    end = softmax(scores.dataXd[lasts[inside], 1])
    for span in group:
        first, last = span.start - context.start, span.end - 1 - context.start
        assert 0 <= first <= last
        assert span._.confidence == pytest.approx(start[first] * end[last], rel=1e-4)


def test_no_two_answers_have_the_same_text_and_none_is_too_long(make_pipeline):
    nlp = trained(make_pipeline, steps=10, max_answer_words=2, n_best=9)
    doc = nlp(pair(nlp, "Which?", "BRCA1 or brca1 or\nBRCA1 or BRCA1"))
    folded = [" ".join(text.lower().split()) for text in answers_of(doc)]
    assert sorted(folded) == ["brca1", "brca1 or", "or", "or brca1"]
    one = nlp(pair(nlp, "Which?", "BRCA1 BRCA1"))
    assert len(one.spans["answer"]) == 2


def test_a_pair_is_told_from_its_text_alone(make_pipeline):
    nlp = trained(make_pipeline, steps=10)
    marked = nlp(pair(nlp, *TOY[0][:2]))
    plain = nlp(PAIR_SEPARATOR.join(TOY[0][:2]))
    assert answers_of(plain) == answers_of(marked)


def test_what_is_no_pair_is_left_alone(make_pipeline):
    nlp = ready(make_pipeline)
    for doc in nlp.pipe([CONTEXT, "", pair(nlp, *TOY[0][:2])]):
        assert ("answer" in doc.spans) == (get_pair(doc) is not None)
        assert get_encoding(doc) is None


# Documents of every kind


@pytest.mark.slow
@pytest.mark.parametrize("no_answer", [False, True])
@pytest.mark.parametrize("context", ["", " ", "\n\n\t", "😀", "\u0301", "a"])
def test_contexts_of_hardly_anything_are_read(make_pipeline, context, no_answer):
    nlp = ready(make_pipeline, no_answer=no_answer)
    nlp.get_pipe(QA).model.get_ref("output").set_param("W", np.zeros((2, 16), dtype="float32"))
    docs = [pair(nlp, question, context) for question in ("Which?", "", " ")]
    docs = list(nlp.pipe([*docs, pair(nlp, *TOY[0][:2])]))
    has_word = bool(context.strip())
    for doc in docs[:3]:
        assert answers_of(doc) == has_word * [context]
        assert ("no_answer" in doc.spans["answer"].attrs) == no_answer
    assert len(docs[3].spans["answer"]) == 5
    examples = [make_example(nlp, "Which?", context, []), make_example(nlp, "", context, [])]
    nlp.update(examples, sgd=AdamW_v1(1e-3))


def test_no_documents_have_no_answers(make_pipeline):
    nlp = ready(make_pipeline)
    assert nlp.get_pipe(QA).predict([]) == []
    assert list(nlp.pipe([])) == []


def test_an_answer_is_found_anywhere_in_a_hundred_thousand_words(make_pipeline):
    head = ready(make_pipeline).get_pipe(QA)
    words = ["the", "?", PAIR_SEPARATOR, *["risk", "of"] * 50_000, "breast", "tumours", "."]
    doc = Doc(head.vocab, words=words)
    scores = np.random.default_rng(0).normal(size=(len(words), 2)).astype("float32")
    scores[-3, 0] = scores[-2, 1] = 30.0
    head.model = Model("scores", lambda model, docs, is_train: (row_a_token([doc], scores), None))
    begin = time.process_time()
    (found,) = head.predict([doc])
    assert time.process_time() - begin < 5.0
    head.set_annotations([doc], [found])
    best, *others = doc.spans["answer"]
    assert best.text == "breast tumours" and best._.confidence > 0.99
    assert len(others) == 4 and all(span.start > 2 and len(span) <= 30 for span in others)


# On the exported encoder, in several processes, in files


@pytest.mark.slow
def test_it_predicts_the_same_on_the_exported_encoder_and_in_two_processes(make_pipeline, tmp_path):
    nlp = trained(make_pipeline, steps=30)
    write_compressed(nlp, tmp_path, "fp32", False)
    compressed = spacy.load(tmp_path)
    assert compressed.get_pipe_meta(ENCODER).factory == ONNX
    texts = [PAIR_SEPARATOR.join(question[:2]) for question in TOY] + ["", CONTEXT]
    alone = list(nlp.pipe(texts))
    for docs in (compressed.pipe(texts), compressed.pipe(texts, n_process=2, batch_size=2)):
        for doc, expected in zip(docs, alone, strict=True):
            assert ("answer" in doc.spans) == ("answer" in expected.spans)
            if "answer" in expected.spans:
                assert answers_of(doc) == answers_of(expected)
                scores = expected.spans["answer"].attrs["scores"]
                np.testing.assert_allclose(doc.spans["answer"].attrs["scores"], scores, atol=1e-4)
                assert [span._.confidence for span in doc.spans["answer"]] == (
                    doc.spans["answer"].attrs["scores"]
                )


def test_answers_survive_a_doc_bin(make_pipeline):
    nlp = trained(make_pipeline, steps=10)
    doc = nlp(pair(nlp, *TOY[0][:2]))
    content = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (read,) = DocBin().from_bytes(content).get_docs(nlp.vocab)
    assert answers_of(read) == answers_of(doc)
    assert read.spans["answer"].attrs == doc.spans["answer"].attrs
    assert read.spans["answer"][0]._.confidence == doc.spans["answer"][0]._.confidence


@pytest.mark.slow
def test_a_corpus_as_published_becomes_a_pipeline_that_the_docs_use(tiny_bert, tmp_path, capsys):
    """Train as `init-config` says, and run the snippet of docs/tasks/question_answering.md."""
    paragraphs = [
        {
            "context": context,
            "qas": [
                {
                    "id": f"{question} {context}",
                    "question": question,
                    "answers": [{"text": answers[0], "answer_start": context.index(answers[0])}],
                }
                for question, of, answers in TOY
                if of == context
            ],
        }
        for context in (CONTEXT, OTHER)
    ]
    for part in ("train", "dev"):
        content = json.dumps({"data": [{"paragraphs": paragraphs}]})
        (tmp_path / f"{part}.json").write_text(content, encoding="utf-8")
    convert_corpus("own", tmp_path, tmp_path / "own", format="squad")
    config = fill_config(tmp_path / "own", encoder=str(tiny_bert), epochs=40, learn_rate=1e-2)
    config["training"]["eval_frequency"] = 20
    config.to_disk(tmp_path / "config.cfg")
    train(tmp_path / "config.cfg", tmp_path / "out")
    best = tmp_path / "out" / "model-best"
    scores = json.loads((best / "meta.json").read_text(encoding="utf-8"))["performance"]
    assert {"qa_exact", "qa_f1", "qa_strict", "qa_lenient", "qa_mrr"} <= set(scores)
    assert scores["qa_f1"] == 1.0
    page = (REPOSITORY / "docs" / "tasks" / "question_answering.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    capsys.readouterr()
    exec(re.sub(r"training/\w+/model-best", best.as_posix(), snippet), {})
    assert len(capsys.readouterr().out.splitlines()) == 5


# Scores


def predicted(nlp, question, context, given, gold, **user_data):
    """An example with given answers and their probabilities."""
    example = make_example(nlp, question, context, gold, **user_data)
    doc = make_example(nlp, question, context, list(given)).reference
    example.predicted = doc
    doc.spans["answer"].attrs["scores"] = list(given.values())
    return example


def test_snippets_of_one_question_are_ranked_together():
    nlp = spacy.blank("en")
    examples = [
        # BRCA1 0.5 + 0.2 before TP53 0.6 and MYC 0.3; TP53 is annotated in the second snippet.
        predicted(nlp, "Q", "BRCA1 MYC", {"BRCA1": 0.5, "MYC": 0.3}, [], document_id="q:1"),
        predicted(nlp, "Q", "TP53 brca1", {"TP53": 0.6, "brca1": 0.2}, ["TP53"], document_id="q:2"),
        # A separate question, with a correct first answer.
        predicted(nlp, "Q", "BRCA1 MYC", {"MYC": 0.9}, ["MYC"], document_id="r:1"),
        # Not annotated: not scored.
        predicted(nlp, "Q", "BRCA1", {"BRCA1": 0.9}, None, document_id="s:1"),
    ]
    assert score_answers(examples) == {
        "qa_exact": 0.5,
        "qa_f1": 0.5,
        "qa_strict": 0.5,
        "qa_lenient": 1.0,
        "qa_mrr": 0.75,
    }


def test_other_questions_with_the_same_id_are_scored_alone():
    nlp = spacy.blank("en")
    examples = [
        predicted(nlp, "Which gene?", "BRCA1 MYC", {"BRCA1": 0.9}, ["BRCA1"], document_id="1"),
        predicted(nlp, "Which drug?", "MYC statin", {"MYC": 0.9}, ["statin"], document_id="1"),
    ]
    assert score_answers(examples)["qa_exact"] == 0.5


def test_a_question_id_of_its_own_groups_documents():
    nlp = spacy.blank("en")
    given = [("BRCA1", 0.6), ("MYC", 0.4)]
    for ids, exact in ((("a", "a"), 0.0), (("a", "b"), 0.5)):
        examples = [
            predicted(nlp, "Q", text, {text: score}, ["MYC"], question_id=id, document_id="x:1")
            for (text, score), id in zip(given, ids, strict=True)
        ]
        assert answer_scorer_v1()(examples)["qa_exact"] == exact
    examples = [predicted(nlp, "Q", text, {text: score}, ["MYC"]) for text, score in given]
    assert score_answers(examples)["qa_exact"] == 0.5  # without ids all are separate questions


def test_answers_that_fit_no_span_of_words_are_gold_too():
    nlp = spacy.blank("en")
    example = predicted(nlp, "Q", "the BRCA1gene", {"BRCA1gene": 0.9}, [])
    example.reference._.unaligned_answers = [(6, 11, "answer")]
    assert example.reference.text[6:11] == "BRCA1"
    assert set(score_answers([example]).values()) == {0.0}


def test_without_annotation_or_predictions():
    nlp = spacy.blank("en")
    absent = make_example(nlp, *QUESTION)
    assert set(score_answers([absent]).values()) == {None}
    disabled = make_example(nlp, *QUESTION, ["MYC"])
    assert set(score_answers([absent, disabled]).values()) == {0.0}


def test_a_component_of_another_name_has_it_in_its_scores(make_pipeline):
    nlp = make_pipeline({"biomed_qa-mine": {}})
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    scores = nlp.evaluate(examples)
    assert {f"qa_biomed_qa-mine_{name}" for name in ("exact", "f1", "mrr")} <= set(scores)
    assert not any(name == "qa_exact" for name in scores)


# Invalid settings and corpora


@pytest.mark.parametrize("setting", ["max_answer_words", "n_best"])
def test_a_number_below_1_is_refused(make_pipeline, setting):
    with pytest.raises(BiomedError, match=rf"\[components.biomed_qa\] {setting} = 0"):
        make_pipeline({QA: {setting: 0}})


def test_a_corpus_without_answers_is_refused_in_one_line(make_pipeline):
    nlp = make_pipeline({QA: {}})
    examples = [make_example(nlp, *QUESTION), make_example(nlp, *QUESTION, [])]
    with pytest.raises(BiomedError, match="no answer for 'biomed_qa' to learn") as error:
        nlp.initialize(lambda: examples)
    assert "\n" not in str(error.value)


def test_an_answer_of_no_pair_is_refused_in_one_line(make_pipeline):
    nlp = make_pipeline({QA: {}})
    reference = nlp.make_doc("MYC  or\np53")
    reference.spans["answer"] = [reference[0:1]]
    with pytest.raises(BiomedError, match="'MYC or p53' has an answer and is not a pair") as error:
        nlp.initialize(lambda: [Example(nlp.make_doc(reference.text), reference)])
    assert "\n" not in str(error.value)
