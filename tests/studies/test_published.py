"""The papers' figures: their form, and that each stands in its paper's text."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from pytest import approx

from spacy_biomed.corpora.corpus_catalogue import find_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.studies.study_config import find_table, list_studies, read_published, read_study

# A folder of .txt files, whose names, sorted, are in the order of the papers' numbers.
TEXTS = os.environ.get("SPACY_BIOMED_PAPERS")
# The tables with figures, and how many: rows by columns, less the empty cells.
COUNTS = {
    ("lewis_2020", "2"): 23 * 8,
    ("lewis_2020", "3"): 8 * 5,
    ("lewis_2020", "5"): 18 * 2,
    ("lewis_2020", "6"): 5 * 5,
    ("rohanian_2023", "1"): 8 * 3 * 5,
    ("rohanian_2023", "2"): 8 * 3 * 6,
    ("rohanian_2023", "3"): 2 * 3 * 5,
    ("rohanian_2023", "4"): 2 * 3 * 6,
    ("rohanian_2023", "5"): 3 * 5,
    ("rohanian_2023", "6"): 3 * 6,
    ("mulyar_2020", "2"): 8 * 3 - 4,
    ("carrino_2022", "2"): 24 * 6,
    ("carrino_2022", "4"): 13,
    ("peng_2020", "2"): 3 * 5,
    ("peng_2020", "3"): 3 * 5,
    ("peng_2020", "4"): 4 * 5,
    ("peng_2020", "5"): 3 * 5,
    ("peng_2020", "6"): 9 * 5,
}
NOT_SCORES = {"learning rate", "epoch", "hyper-parameter"}


def facts():
    return read_published()["facts"]


def test_each_table_has_all_its_figures_and_each_figure_is_there_once():
    assert Counter((fact["paper"], fact["table"]) for fact in facts()) == COUNTS
    keys = Counter(
        (fact["paper"], fact["table"], fact["row"], fact["corpus"], fact["metric"])
        for fact in facts()
        if fact["metric"] != "hyper-parameter"
    )
    assert max(keys.values()) == 1


def test_each_figure_is_of_a_paper_a_known_corpus_and_a_possible_score():
    papers = read_published()["papers"]
    for fact in facts():
        unit = papers[fact["paper"]]["unit"]
        if fact["metric"] not in NOT_SCORES:
            assert 0.1 * unit < fact["value"] < unit, fact
            name = fact["corpus"]
            if not name.startswith("mean"):
                find_corpus("bc5cdr" if name.startswith("bc5cdr_") else name)


def test_f1_is_that_of_the_precision_and_recall_beside_it_where_it_is_not_an_average():
    """A slip in copying a number would show."""
    wrong = []
    for number in ("1", "2"):
        values = find_table("rohanian_2023", number).values
        for (row, corpus, metric), f1 in values.items():
            if metric == "F1":
                p, r = values[row, corpus, "P"], values[row, corpus, "R"]
                if abs(2 * p * r / (p + r) - f1) > 0.02:
                    wrong.append((number, row, corpus))
    assert wrong == []


def test_the_means_that_the_papers_print_are_those_of_their_rows():
    values = find_table("lewis_2020", "2").values
    for row in {row for row, _, _ in values}:
        scores = [
            value for (one, _, metric), value in values.items() if one == row and metric != "mean"
        ]
        assert len(scores) == 18
        assert sum(scores) / 18 == approx(values[row, "mean", "mean"], abs=0.11)


def test_scores_are_of_100_points_whatever_the_paper_prints():
    assert find_table("carrino_2022", "2").find("bsc-bio-es", "cantemist", "F1") == approx(83.51)
    assert find_table("mulyar_2020", "2").find("MT-Clinical BERT", "quaero", "F1") == 49.1
    assert find_table("peng_2020", "2").find("no such row", "quaero", "F1") is None
    with pytest.raises(BiomedError, match="no paper 'lewis': use lewis_2020, "):
        find_table("lewis", "2")


@pytest.mark.parametrize("name", list_studies())
def test_a_study_of_a_table_has_its_rows_and_corpora(name):
    study = read_study(name)
    if study.study.paper is None:
        return
    values = find_table(study.study.paper, study.study.table).values
    published = {(row, corpus) for row, corpus, metric in values if metric not in NOT_SCORES}
    if not published:
        return
    titles = {study.title(row) for row in study.rows}
    corpora = {corpus for _, corpus in published if not corpus.startswith("mean")}
    if name.endswith("_public"):  # the paper's protocol with other encoders, on what is public
        assert not corpora or corpora & set(study.corpora)
        return
    assert titles <= {row for row, _ in published}
    assert corpora in (set(), set(study.corpora))
    groups = {corpus for _, corpus in published if corpus.startswith("mean of ")}
    assert groups <= {f"mean of {group}" for group in study.groups}


@pytest.mark.skipif(not TEXTS, reason="SPACY_BIOMED_PAPERS names no folder of the papers' texts")
def test_each_figure_stands_in_the_text_of_its_paper():
    papers = read_published()["papers"]
    texts = [path.read_text(encoding="utf8") for path in sorted(Path(TEXTS).glob("*.txt"))]
    numbers = [set(re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)) for text in texts]
    for fact in facts():
        value = fact["value"]
        written = {f"{value:.{digits}f}" for digits in range(5)} | {f"{value:g}", f"{value:.0e}"}
        written |= {form.replace("e-0", "e-") for form in written}
        if fact["row"] == "Learning Rates":
            written.add(f"{value * 1e5:g}")
        assert written & numbers[papers[fact["paper"]]["number"] - 1], fact
