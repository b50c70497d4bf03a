"""Scores of answers, compared with values by hand and with other implementations."""

import random
import re

import pytest

from spacy_biomed.pipeline.qa.scores import (
    Question,
    find_rank,
    normalize_answer,
    score_question,
    score_questions,
)

WORDS = ["the", "BRCA1", "brca1", "gene", "Gene,", "a", "MYC", "(MYC)", "an", "c-Myc", "p53.", "of"]


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The BRCA1 gene", "brca1 gene"),
        ("an  aspirin,\n81 mg/day", "aspirin 81 mgday"),
        ("theory of a and the", "theory of and"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation is removed
        ("The", ""),
        ("", ""),
    ],
)
def test_normalisation_is_squads(text, normalized):
    assert normalize_answer(text) == normalized


@pytest.mark.parametrize(
    ("answers", "gold", "exact", "f1"),
    [
        (["the BRCA1"], ["BRCA1"], 1.0, 1.0),
        # brca1 gene / brca1: precision 1/2, recall 1
        (["BRCA1 gene"], ["BRCA1"], 0.0, 2 / 3),
        # shared: of, of, x; 3 of 4 and 3 of 5
        (["of x of y"], ["of of of x z"], 0.0, 2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5)),
        (["MYC"], ["BRCA1", "MYC gene", "c-Myc"], 0.0, 2 / 3),
        (["MYC", "BRCA1"], ["BRCA1"], 0.0, 0.0),  # only the first answer counts
        ([], ["BRCA1"], 0.0, 0.0),
        ([], [], 1.0, 1.0),
        (["BRCA1"], [], 0.0, 0.0),
        (["the"], ["a", "MYC"], 0.0, 0.0),  # annotated answers that become empty are ignored
        (["the"], ["a"], 1.0, 1.0),
    ],
)
def test_exact_match_and_f1_by_hand(answers, gold, exact, f1):
    scores = score_question(Question(answers, gold))
    assert (scores["exact"], scores["f1"]) == (exact, pytest.approx(f1))


@pytest.mark.parametrize(
    ("answers", "gold", "rank"),
    [
        (["MYC", "BRCA1"], ["brca1", "breast cancer 1"], 2),
        (["Breast  cancer 1"], ["brca1", "breast\ncancer 1"], 1),
        (["the BRCA1"], ["BRCA1"], None),  # BioASQ does not normalise
        (["a", "b", "c", "d", "e", "MYC"], ["MYC"], None),  # only five answers count
        (["a", "b", "c", "d", "MYC"], ["MYC"], 5),
        ([], ["MYC"], None),
        ([], [], 1),
        (["MYC"], [], None),
    ],
)
def test_the_rank_of_the_first_right_answer_among_five(answers, gold, rank):
    assert find_rank(Question(answers, gold)) == rank


def test_scores_are_means_over_questions_by_hand():
    questions = [
        Question(["MYC"], ["MYC"]),
        Question(["the MYC gene", "x", "myc"], ["MYC"]),
        Question(["a", "b"], ["MYC"]),
        Question(["the MYC", "b", "c", "d", "e", "MYC"], ["MYC"]),
    ]
    assert score_questions(questions) == {
        "exact": 2 / 4,
        "f1": pytest.approx((1 + 2 / 3 + 0 + 1) / 4),
        "strict": 1 / 4,
        "lenient": 2 / 4,
        "mrr": pytest.approx((1 + 1 / 3) / 4),
    }


def test_no_questions_have_no_scores():
    assert set(score_questions([]).values()) == {None}


def reference_squad(answer, gold):
    """SQuAD's scores, removing shared words from lists one by one."""

    def words(text):
        kept = "".join(c for c in text.lower() if c.isalnum() or c.isspace())
        return [word for word in re.split(r"\s+", kept) if word not in ("a", "an", "the", "")]

    best_exact, best_f1 = 0, 0.0
    for one in [one for one in gold if words(one)] or [""]:
        given, expected = words(answer), words(one)
        best_exact = max(best_exact, int(given == expected))
        rest, shared = list(expected), 0
        for word in given:
            if word in rest:
                rest.remove(word)
                shared += 1
        if given and expected and shared:
            precision, recall = shared / len(given), shared / len(expected)
            best_f1 = max(best_f1, 2 * precision * recall / (precision + recall))
        elif not given and not expected:
            best_f1 = 1.0
    return best_exact, best_f1


def test_scores_are_those_of_an_independent_implementation():
    rng = random.Random(0)

    def text():
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 2)))

    questions = [
        Question([text() for _ in range(rng.randint(1, 7))], [text() for _ in range(4)])
        for _ in range(400)
    ]
    exact, f1, strict, lenient, mrr = [], [], [], [], []
    for answers, gold in questions:
        one_exact, one_f1 = reference_squad(answers[0], gold)
        exact.append(one_exact)
        f1.append(one_f1)
        right = [a.casefold() in {g.casefold() for g in gold} for a in answers[:5]]
        strict.append(right[0])
        lenient.append(any(right))
        mrr.append(max((is_right / (i + 1) for i, is_right in enumerate(right)), default=0))
    scores = score_questions(questions)
    for name, values in zip(
        ("exact", "f1", "strict", "lenient", "mrr"), (exact, f1, strict, lenient, mrr), strict=True
    ):
        assert 0.05 < sum(values) / len(values) < 0.95
        assert scores[name] == pytest.approx(sum(values) / len(values))
