"""Reports of studies: statistics by hand, and the files."""

import csv
import json
import re
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import pytest

from spacy_biomed.studies.planning import Plan, Trial
from spacy_biomed.studies.report import (
    Table,
    create_majorities,
    create_tables,
    draw_figures,
    escape_latex,
    find_changes,
    to_latex,
    to_markdown,
    write_csv,
    write_report,
)
from spacy_biomed.studies.results import Cell, Results, name_metric, related_metrics
from spacy_biomed.studies.runs import CorpusOfRun, Run
from spacy_biomed.studies.study_config import PublishedTable, Study

STUDY = {
    "study": {"title": "A & B", "paper": "rohanian_2023", "table": "1", "statistic": "median"},
    "grid": {"learn_rates": [0.1, 0.2], "seeds": [0, 1, 2]},
    "rows": {
        "a": {"encoder": "x", "title": "BioBERT-v1.1"},
        "with_b": {"encoder": "x", "training": "together", "companions": ["bc2gm"]},
    },
    "corpora": {
        "ncbi_disease": {"groups": ["PubMed"]},
        "bc2gm": {"groups": ["PubMed"]},
    },
    "comparisons": {"pairs": [["a", "with_b"]], "resamples": 50},
}
# On the development part the first rate is better, on the test part the second.
SCORES = {0.1: [(0.7, 0.5), (0.9, 0.4), (0.8, 0.6)], 0.2: [(0.6, 0.9), (0.6, 0.9), (0.6, 0.9)]}


def make_cell(row, corpus, scores=SCORES, select="dev"):
    trials = {}
    for rate, pairs in scores.items():
        for seed, (dev, test) in enumerate(pairs):
            found = round(10 * test)
            trials[Trial(rate, None, seed, None, f"{row}-{corpus}-{rate}-{seed}")] = {
                "dev": {"f": dev},
                "test": {"f": test, "p": test, "r": test},
                "tallies": [
                    {"X": [float(i < found), float(i >= found), float(i >= found)]}
                    for i in range(10)
                ],
            }
    return Cell(row, corpus, "f", trials, select)


@pytest.fixture
def results():
    study = Study.model_validate(STUDY)
    cells = {("a", name): make_cell("a", name) for name in study.corpora}
    better = {0.1: [(dev, test + 0.3) for dev, test in SCORES[0.1]], 0.2: SCORES[0.2]}
    cells["with_b", "ncbi_disease"] = make_cell("with_b", "ncbi_disease", better)
    runs = {trial.run: {"train_seconds": 1.5} for cell in cells.values() for trial in cell.trials}
    return Results(study, Plan({}, {}, {}), cells, runs)


def test_the_setting_is_chosen_on_the_development_part():
    cell = make_cell("a", "c")
    assert {trial.learn_rate for trial in cell.chosen} == {0.1}
    assert cell.value("f", "best") == 40.0  # of the seed that is best on the development part
    assert cell.value("f", "median") == 50.0
    assert cell.value("f", "mean") == pytest.approx(50.0)
    assert cell.spread("f") == pytest.approx(10.0)
    cell = make_cell("a", "c", select="test")
    assert {trial.learn_rate for trial in cell.chosen} == {0.2} and cell.value("f", "best") == 90.0


def test_a_run_without_a_score_on_the_development_part_is_not_the_best():
    """As one of a fold without annotation there."""
    cell = make_cell("a", "c", {0.1: SCORES[0.1]})
    next(iter(cell.trials.values()))["dev"] = {}
    assert cell.value("f", "best") == 40.0


def test_means_are_of_the_corpora_that_are_there(results):
    assert results.groups == {
        "mean of PubMed": ["ncbi_disease", "bc2gm"],
        "mean": ["ncbi_disease", "bc2gm"],
    }
    assert results.mean("a", ["ncbi_disease", "bc2gm"]) == (50.0, 2)
    assert results.mean("with_b", ["ncbi_disease", "bc2gm"]) == (pytest.approx(80.0), 1)
    assert results.mean("with_b", ["bc2gm"]) is None


def test_the_published_figure_is_beside_ours_with_the_difference(results):
    published = PublishedTable(
        "A paper", 1, {("BioBERT-v1.1", "bc2gm", "F1"): 0.8762, ("Other", "bc2gm", "F1"): 0.5}
    )
    tables = {table.title: table for table in create_tables(results, published, None)}
    [line] = [
        line
        for line in tables["All statistics"].rows
        if line[:3] == ["BioBERT-v1.1", "bc2gm", "F1"]
    ]
    assert line[3:] == ["rate 0.1", "3", "40.00", "50.00", "50.00", "10.00", "87.62", "-37.62"]
    assert tables["Other published figures"].rows == [["Other", "bc2gm", "0.5"]]
    settings = tables["By setting"].rows
    assert settings[0] == [
        "BioBERT-v1.1",
        "ncbi_disease",
        "rate 0.1",
        "chosen",
        "3",
        "80.00",
        "50.00",
        "10.00",
    ]
    assert settings[1][3:7] == ["", "3", "60.00", "90.00"]


def test_rows_are_compared_on_the_corpora_that_both_have(results):
    [(pair, corpus, test)] = results.comparisons
    assert (pair, corpus) == (("a", "with_b"), "ncbi_disease")
    assert test.difference == pytest.approx(-0.3) and test.low <= -0.3 <= test.high


def test_a_companion_changes_scores_against_training_alone(results):
    assert find_changes(results) == {("ncbi_disease", "bc2gm"): pytest.approx(30.0)}
    assert len(draw_figures(results, None, None)) == 2
    results.study.rows["with_b"].__dict__["encoder"] = "y"  # which no row trains alone
    assert find_changes(results) == {}


def test_the_note_says_what_was_done_whichever_section_asked_for_it(results):
    cells = {("a", "bc2gm"): make_cell("a", "bc2gm", {0.1: SCORES[0.1]})}
    (table, *_) = create_tables(replace(results, cells=cells), None, None)
    assert "the median over seeds 0, 1, 2. Metrics" in table.note
    cell = make_cell("a", "bc2gm")
    trials = {replace(trial, seed=7, fold=trial.seed): left for trial, left in cell.trials.items()}
    cells = {("a", "bc2gm"): replace(cell, trials=trials)}
    (table, *_) = create_tables(replace(results, cells=cells), None, None)
    assert "the median over seeds 7 and folds. The setting of each cell was chosen" in table.note


def test_all_files_are_written(results, tmp_path):
    write_report(results, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "<h1>A &amp; B</h1>" in page and page.count("<svg") == 2
    assert not re.search(r'(?:src|href)="http', page)  # loads nothing
    for figure in draw_figures(results, None, None):
        ElementTree.fromstring(figure)
    summary = json.loads((tmp_path / "results.json").read_text())
    assert summary["cells"][0]["median"] == 50.0 and summary["cells"][0]["learn_rate"] == 0.1
    assert summary["means"]["a"]["mean"] == 50.0
    assert r"\caption{A \& B." in (tmp_path / "table.tex").read_text()


def test_each_run_is_a_line_of_the_csv(results):
    lines = list(csv.DictReader(StringIO(write_csv(results))))
    assert len(lines) == 18
    assert (lines[0]["row"], lines[0]["corpus"], lines[0]["seed"]) == ("a", "ncbi_disease", "0")
    assert (lines[0]["dev_f"], lines[0]["test_f"]) == ("0.7", "0.5")


def test_tables_in_markdown_and_latex():
    table = Table("T", ["a|b", "b"], [["x_1", "2.0 ± 0.1"]], note="n")
    assert (
        to_markdown("T", "", [table])
        == "# T\n\n| a\\|b | b |\n| --- | ---: |\n| x_1 | 2.0 ± 0.1 |\n\nn\n"
    )
    latex = to_latex(table)
    assert r"x\_1 & 2.0 $\pm$ 0.1 \\" in latex and r"\begin{tabular}{lr}" in latex
    assert escape_latex("50 % ~ \\") == r"50 \% \textasciitilde{} \textbackslash{}"


def test_metrics_have_the_names_of_the_papers():
    named = [name_metric(ending) for ending in ("f", "micro_p", "macro_f", "acc", "mrr", "score")]
    assert named == ["F1", "P", "F1", "accuracy", "MRR", "F1"]
    assert related_metrics("macro_f") == ["macro_p", "macro_r", "macro_f"]
    assert related_metrics("score") == ["macro_p", "macro_r", "score"]
    assert related_metrics("mrr") == ["strict", "lenient", "mrr"]
    assert related_metrics("acc") == ["acc"]


def test_the_most_frequent_class_is_beside_accuracies(tmp_path):
    parts = {
        "train": {"documents": 9, "classes": {"true": 5, "false": 4}},
        "test": {"documents": 8, "classes": {"true": 3, "false": 5}},
    }
    content = {"name": "ncbi_disease", "language": "en", "parts": parts}
    (tmp_path / "corpus.json").write_text(json.dumps(content))
    cell = replace(make_cell("a", "ncbi_disease"), metric="acc")
    corpus = CorpusOfRun(tmp_path, "")
    run = Run({"ncbi_disease": corpus}, False, "x", "", None, "", None, None, None, 0)
    plan = Plan({}, {trial.run: run for trial in cell.trials}, {})
    cells = {("a", "ncbi_disease"): cell}
    results = Results(Study.model_validate(STUDY), plan, cells, {})
    assert create_majorities(results).rows == [["ncbi_disease", "true", "37.50"]]
    results.cells["a", "ncbi_disease"] = replace(cell, metric="f")
    assert create_majorities(results).rows == []
    results.cells["a", "ncbi_disease"] = cell
    (tmp_path / "corpus.json").write_text(json.dumps({**content, "parts": {}}))  # of a user
    assert create_majorities(results).rows == []
