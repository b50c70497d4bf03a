"""Scores of answers to questions, as in SQuAD and BioASQ.

A question without an answer is correct if no answer is given, as in SQuAD 2.0.
"""

import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from spacy.tokens import Doc
from spacy.training import Example

from ...annotations.document_keys import ANSWER_KEY, UNALIGNED_ANSWERS, get_unaligned, question_id
from ...annotations.pairs import get_pair

# BioASQ's systems give up to five answers to a factoid question.
LENIENT_ANSWERS = 5

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Question(NamedTuple):
    """The given and the annotated answers of a question; none if there is no answer."""

    answers: Sequence[str]  # the best first
    gold: Sequence[str]  # including synonyms


def score_questions(questions: Iterable[Question]) -> dict[str, float | None]:
    """The mean of each score over all questions.

    Returns:
        five scores from 0 to 1, each None if there are no questions.

        exact, f1: exact match and word F1 of the first answer with the most similar annotated
        answer, both normalised (Rajpurkar et al. 2016, "SQuAD", section 6.1).

        strict, lenient: share of questions with an annotated answer as the first answer, or among
        the first five. mrr: mean of 1 / rank of the first correct answer among the first five, 0 if
        there is none (Tsatsaronis et al. 2015, "An overview of the BIOASQ competition", task 1b,
        phase B).
    """
    scored = [score_question(question) for question in questions]
    if not scored:
        return dict.fromkeys(("exact", "f1", "strict", "lenient", "mrr"))
    return {name: fmean(one[name] for one in scored) for name in scored[0]}


def score_question(question: Question) -> dict[str, float]:
    """The scores of one question; an empty string stands for no answer."""
    answer = normalize_answer(question.answers[0]) if question.answers else ""
    gold = list(filter(None, map(normalize_answer, question.gold))) or [""]
    rank = find_rank(question)
    return {
        "exact": float(answer in gold),
        "f1": max(_words_f1(answer.split(), text.split()) for text in gold),
        "strict": float(rank == 1),
        "lenient": float(rank is not None),
        "mrr": 0.0 if rank is None else 1.0 / rank,
    }


def find_rank(question: Question) -> int | None:
    """The rank of the first correct answer among the first five, from 1; None if there is none.

    Case does not count, as in BioBERT's evaluation. No answer to a question without one has rank 1.
    """
    gold = {fold_answer(answer) for answer in question.gold}
    if not gold:
        return None if question.answers else 1
    for rank, answer in enumerate(question.answers[:LENIENT_ANSWERS], start=1):
        if fold_answer(answer) in gold:
            return rank
    return None


def fold_answer(text: str) -> str:
    """An answer in lower case, runs of white space as one space."""
    return " ".join(text.lower().split())


def normalize_answer(text: str) -> str:
    """Normalise as SQuAD does: lower case, no ASCII punctuation, no English articles, one space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _words_f1(answer: list[str], gold: list[str]) -> float:
    if not answer or not gold:
        return float(answer == gold)
    shared = (Counter(answer) & Counter(gold)).total()
    return 2.0 * shared / (len(answer) + len(gold))


def answer_scorer_v1() -> Callable:
    """`spacy_biomed.answer_scorer.v1`: see `score_answers`."""
    return score_answers


def gold_answers(reference: Doc) -> list[str]:
    """The texts of a document's annotated answers, including those that do not fit tokens."""
    lost = get_unaligned(reference, name=UNALIGNED_ANSWERS)
    return [
        *(span.text for span in reference.spans.get(ANSWER_KEY, ())),
        *(reference.text[start:end] for start, end, _ in lost),
    ]


def score_answers(examples: Iterable[Example], **cfg: object) -> dict[str, object]:
    """Exact match and F1 of SQuAD; strict and lenient accuracy and mean reciprocal rank of BioASQ.

    Documents with the same question and its identifier (`document_keys.question_id`) are scored as
    one question. The answers of all of them are ranked by probability; answers with the same
    text are merged and their probabilities summed, as in the evaluation of BioBERT (Lee et al.
    2020). Annotated answers are compared as text, including those that do not fit tokens.

    Returns:
        `qa_exact`, `qa_f1`, `qa_strict`, `qa_lenient`, `qa_mrr`, from 0 to 1 (`score_questions`);
        None if no document is annotated.
    """
    scores = score_questions(collect_questions(examples))
    return {f"qa_{name}": value for name, value in scores.items()}


def collect_questions(examples: Iterable[Example]) -> list[Question]:
    """The annotated questions with their ranked answers, as `score_answers` describes."""
    given: dict[object, dict[str, tuple[str, float]]] = defaultdict(dict)
    gold: dict[object, list[str]] = defaultdict(list)
    for example in examples:
        reference, predicted = example.reference, example.predicted
        if ANSWER_KEY not in reference.spans:
            continue
        id, pair = question_id(reference), get_pair(reference)
        # Files may number the questions of each context from 1.
        question = object() if id is None else (id, pair and pair[0].text)
        gold[question] += gold_answers(reference)
        totals = given[question]
        if ANSWER_KEY not in predicted.spans:
            continue
        answers = predicted.spans[ANSWER_KEY]
        scores = answers.attrs.get("scores", len(answers) * [0.0])
        for span, score in zip(answers, scores, strict=True):
            text, total = totals.get(fold_answer(span.text), (span.text, 0.0))
            totals[fold_answer(span.text)] = text, total + score
    ranked = (sorted(totals.values(), key=lambda one: -one[1]) for totals in given.values())
    return [
        Question([text for text, _ in answers], gold[question])
        for question, answers in zip(given, ranked, strict=True)
    ]
