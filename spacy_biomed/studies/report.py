"""The report of a study: tables in Markdown, LaTeX and HTML with diagrams, and all numbers."""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, get_args

from ..files.outputs import replace_text
from ..files.templates import read_template
from ..training.config import read_description
from .figures import Dot, ScoredRow, draw_effects, draw_scatter, draw_scores
from .results import Cell, Results, name_metric, related_metrics
from .runs import describe_settings
from .study_config import MEAN, PublishedTable, Statistic, find_table

CSV, MARKDOWN, LATEX = "runs.csv", "table.md", "table.tex"
PAGE, RESULTS = "report.html", "results.json"
FILES = (MARKDOWN, LATEX, PAGE, CSV, RESULTS)

# Smallest change, in points, that counts as an effect in the diagram of companions.
MARGIN = 0.5
OTHERS = "Other published figures"
STATISTICS = {"best": "the run that is best", "median": "the median", "mean": "the mean"}


class Table(NamedTuple):
    """A table, with so many columns of texts on the left, numbers on the right and a note below."""

    title: str
    header: list[str]
    rows: list[list[str]]
    texts: int = 1
    note: str = ""


def write_report(results: Results, output: Path, speeds: dict[str, Any] | None = None) -> str:
    """Write all files of the report; return the table in Markdown.

    Args:
        speeds: measurements of pipelines in JSON, by row.
    """
    about = results.study.study
    published = find_table(about.paper, about.table or "") if about.paper else None
    tables = list(create_tables(results, published, speeds))
    figures = draw_figures(results, published, speeds)
    markdown = to_markdown(about.title, about.note, tables)
    contents = {
        CSV: write_csv(results),
        MARKDOWN: markdown,
        LATEX: "\n".join(map(to_latex, tables)),
        PAGE: render_page(about.title, about.note, tables, figures),
        RESULTS: json.dumps(describe_results(results, speeds), ensure_ascii=False, indent=2) + "\n",
    }
    for name, content in contents.items():
        replace_text(output / name, content)
    return markdown


# --- Tables ---


def create_tables(
    results: Results, published: PublishedTable | None, speeds: dict[str, Any] | None
) -> Iterator[Table]:
    """The tables that a study has something for."""
    yield create_main_table(results)
    details, means = create_details(results, published), create_means(results, published)
    yield from (details, means)
    if any(len(cell.settings) > 1 for cell in results.cells.values()):
        yield create_settings_table(results)
    if any(trial.fold is not None for cell in results.cells.values() for trial in cell.trials):
        yield create_folds_table(results)
    if (majorities := create_majorities(results)).rows:
        yield majorities
    if results.study.comparisons.pairs:
        yield create_comparisons(results)
    if speeds:
        yield create_speeds(results, speeds)
    if published:
        printed = [line[:3] for line in details.rows] + [[*line[:2], MEAN] for line in means.rows]
        others = {key: one for key, one in published.values.items() if [*key] not in printed}
        if others:
            yield create_others(others)


def create_others(figures: dict[tuple[str, str, str], float]) -> Table:
    """Published figures without one of ours beside them, by row, corpus and metric."""
    metrics = list(dict.fromkeys(metric for _, _, metric in figures))
    rows = dict.fromkeys((row, corpus) for row, corpus, _ in figures)
    lines = [[*row, *(_number(figures.get((*row, one)), "g") for one in metrics)] for row in rows]
    return Table(OTHERS, ["row", "corpus", *metrics], lines, texts=2, note="As printed.")


def create_main_table(results: Results) -> Table:
    """A line for each corpus, and a column for each row of the study, as the papers have it."""
    study = results.study
    lines = [
        [name, *(_show_cell(results, results.cells.get((row, name))) for row in study.rows)]
        for name in study.corpora
    ]
    header = ["corpus", *map(study.title, study.rows)]
    return Table(study.study.title, header, lines, note=_describe(results))


def _show_cell(results: Results, cell: Cell | None) -> str:
    if cell is None:
        return ""
    spread = cell.spread(cell.metric) if results.statistic == "mean" else None
    shown = _number(cell.value(cell.metric, results.statistic))
    return shown if spread is None else f"{shown} ± {spread:.2f}"


def _number(value: float | None, form: str = ".2f") -> str:
    return "" if value is None else f"{value:{form}}"


def _describe(results: Results) -> str:
    """A paragraph on what the numbers are."""
    study = results.study
    about, cells = study.study, results.cells.values()
    trials = [trial for cell in cells for trial in cell.trials]
    repetitions = f"seeds {', '.join(dict.fromkeys(str(trial.seed) for trial in trials))}"
    if any(trial.fold is not None for trial in trials):
        repetitions += " and folds"
    shown = f"{STATISTICS[about.statistic]} over {repetitions}"
    if about.statistic == "best":
        shown = f"{STATISTICS['best']} on the {about.select} part, of {repetitions}"
    words = [f"Scores on the test parts, of 100 points: {shown}."]
    if any(len(cell.settings) > 1 for cell in cells):
        words.append(f"The setting of each cell was chosen on the {about.select} part.")
    if about.select == "test":
        words.append("Nothing was held out for choosing, so these scores are too good.")
    if study.grid.documents:
        words.append(f"A trial: only the first {study.grid.documents} documents of each part.")
    metrics = {cell.corpus: cell.metric for cell in cells}
    words.append(f"Metrics: {', '.join(f'{name} {metric}' for name, metric in metrics.items())}.")
    if results.plan.missing:
        words.append(f"Not there, and left empty: {', '.join(results.plan.missing)}.")
    return " ".join(words)


def create_details(results: Results, published: PublishedTable | None) -> Table:
    """All statistics of each cell, and of the scores that papers print with the main one."""
    header = ["row", "corpus", "metric", "setting", "runs", *get_args(Statistic), "± sd"]
    lines = []
    for title, cell in _titled(results):
        setting, runs = describe_settings(*cell.chosen[0].setting), str(len(cell.chosen))
        for metric in related_metrics(cell.metric):
            if not cell.scores(metric):
                continue
            key = title, cell.corpus, name_metric(metric)
            values = [cell.value(metric, kind) for kind in get_args(Statistic)]
            numbers = map(_number, [*values, cell.spread(metric)])
            shown = cell.value(metric, results.statistic)
            lines.append([*key, setting, runs, *numbers, *_beside(shown, published, *key)])
    for title, cell in _titled(results):
        if len(cell.settings) > 1:
            key = title, cell.corpus, f"{name_metric(cell.metric)} of all settings"
            runs = str(len(cell.scores(cell.metric, trials=cell.trials)))
            mean = cell.mean("test", cell.trials)
            numbers = map(_number, [None, None, mean, cell.spread(cell.metric, cell.trials)])
            lines.append([*key, "all", runs, *numbers, *_beside(mean, published, *key)])
    note = f"Published: {published.source}." if published else ""
    return Table("All statistics", [*header, *_header(published)], lines, texts=4, note=note)


def _titled(results: Results) -> Iterator[tuple[str, Cell]]:
    """The cells, each with the title of its row."""
    for cell in results.cells.values():
        yield results.study.title(cell.row), cell


def _header(published: PublishedTable | None) -> list[str]:
    return ["published", "difference"] if published else []


def _beside(
    ours: float | None, published: PublishedTable | None, row: str, corpus: str, metric: str
) -> list[str]:
    """The published figure, and the difference of ours from it."""
    if published is None:
        return []
    figure = published.find(row, corpus, metric)
    difference = "" if ours is None or figure is None else f"{ours - figure:+.2f}"
    return [_number(figure), difference]


def create_means(results: Results, published: PublishedTable | None) -> Table:
    """The means over each group of corpora and over all."""
    lines = []
    for row in results.study.rows:
        title = results.study.title(row)
        for group, corpora in results.groups.items():
            if found := results.mean(row, corpora):
                value, count = found
                # Else the two are of other corpora.
                compared = value if count == len(corpora) else None
                line = [title, group, f"{count} of {len(corpora)}", _number(value)]
                lines.append([*line, *_beside(compared, published, title, group, MEAN)])
    header = ["row", "mean", "corpora", "ours", *_header(published)]
    return Table("Means over corpora", header, lines, texts=2)


def create_settings_table(results: Results) -> Table:
    """The mean scores of each setting of the grid, on the development and the test part."""
    lines = []
    for title, cell in _titled(results):
        for trials in cell.settings.values():
            mark = "chosen" if trials == cell.chosen else ""
            setting = describe_settings(*trials[0].setting)
            means = cell.mean("dev", trials), cell.mean("test", trials)
            numbers = map(_number, [*means, cell.spread(cell.metric, trials)])
            lines.append([title, cell.corpus, setting, mark, str(len(trials)), *numbers])
    header = ["row", "corpus", "setting", "", "runs", "dev", "test", "± sd"]
    return Table("By setting", header, lines, texts=4)


def create_folds_table(results: Results) -> Table:
    """The mean test score of each fold with the chosen setting."""
    lines = []
    for title, cell in _titled(results):
        for fold in sorted({trial.fold for trial in cell.chosen if trial.fold is not None}):
            mean = cell.mean("test", [trial for trial in cell.chosen if trial.fold == fold])
            lines.append([title, cell.corpus, str(fold + 1), _number(mean)])
    return Table("By fold", ["row", "corpus", "fold", "test"], lines, texts=2)


def create_majorities(results: Results) -> Table:
    """What the most frequent class of the training part scores, for corpora with an accuracy."""
    lines = []
    for corpus in results.study.corpora:
        cells = [cell for cell in results.cells.values() if cell.corpus == corpus]
        run = results.plan.runs.get(cells[0].chosen[0].run) if cells else None
        if run is None or cells[0].metric != "acc" or run.corpora[corpus].is_cut:
            continue
        parts = read_description(run.corpora[corpus].folder)["parts"]
        train, test = (parts.get(part, {}) for part in ("train", "test"))
        if train.get("classes") and test.get("documents"):  # else of the user's own making
            majority = max(train["classes"], key=train["classes"].get)
            share = test.get("classes", {}).get(majority, 0) / test["documents"]
            lines.append([corpus, majority, _number(100 * share)])
    note = "The accuracy of giving each text the most frequent class of the training part."
    return Table("Majority class", ["corpus", "class", "accuracy"], lines, texts=2, note=note)


def create_comparisons(results: Results) -> Table:
    """The paired tests of pairs of rows."""
    settings = results.study.comparisons
    lines = []
    for (first, second), corpus, test in results.comparisons:
        line = [f"{results.study.title(first)} against {results.study.title(second)}", corpus]
        if test is None:
            lines.append([*line, "", "", "", "no test of this metric"])
            continue
        interval = f"{100 * test.low:+.2f} to {100 * test.high:+.2f}"
        numbers = [f"{100 * test.difference:+.2f}", interval, f"{test.p_value:.4f}"]
        lines.append([*line, str(test.documents), *numbers])
    level = f"{100 * settings.level:g} % interval"
    header = ["rows", "corpus", "documents", "difference", level, "p"]
    note = (
        f"Permutation test and paired bootstrap over the documents of the test part, "
        f"{settings.resamples} samples each; a document's results with all seeds go together. "
        "p is two-sided, and not corrected for the number of tests."
    )
    return Table("Paired tests", header, lines, texts=2, note=note)


def create_speeds(results: Results, speeds: dict[str, Any]) -> Table:
    """Size, speed and memory of the timed pipelines, and what exporting costs."""
    lines = []
    for row, figures in speeds["pipelines"].items():
        cells = _cells_of(results, row)
        run = results.runs[cells[0].chosen[0].run]
        values = {name: figure["value"] for name, figure in figures["figures"].items()}
        speed, peak = values["words_per_second"], values["peak_bytes"]
        line = [results.study.title(row), f"{run['parameters'] / 1e6:.2f} M"]
        line += [f"{run['encoder_bytes'] / 1e6:.1f} MB", _number(speed, ",.0f")]
        line += [f"{peak / 1e6:,.0f} MB" if peak else ""]
        lines.append(line + [_number(_mean_of(cells, part)) for part in ("test", "exported")])
    header = ["row", "parameters", "encoder", "words/s", "peak memory", "mean", "exported: mean"]
    note = (
        f"Whole pipelines on the CPU, their encoders in {speeds['precision']}: {speeds['texts']}. "
        "Means are over the corpora and repetitions, before and after exporting."
    )
    return Table("Time and memory", header, lines, note=note)


def _cells_of(results: Results, row: str) -> list[Cell]:
    return [cell for cell in results.cells.values() if cell.row == row]


def _mean_of(cells: list[Cell], part: str) -> float:
    """The mean over cells of the means over the chosen runs, of 100 points."""
    return fmean(mean for cell in cells if (mean := cell.mean(part, cell.chosen)) is not None)


# --- Formats ---


def to_markdown(title: str, note: str, tables: list[Table]) -> str:
    """The tables as Markdown, each under its title."""
    parts = [f"# {title}\n"] + ([f"{note}\n"] if note else [])
    for number, table in enumerate(tables):
        if number:
            parts.append(f"## {table.title}\n")
        ruler = ["---"] * table.texts + ["---:"] * (len(table.header) - table.texts)
        lines = (table.header, ruler, *table.rows)
        cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
        parts.append("".join(f"| {' | '.join(line)} |\n" for line in cells))
        if table.note:
            parts.append(f"{table.note}\n")
    return "\n".join(parts)


def to_latex(table: Table) -> str:
    """A table in LaTeX, for the package booktabs."""
    columns = "l" * table.texts + "r" * (len(table.header) - table.texts)
    lines = [" & ".join(map(escape_latex, line)) + r" \\" for line in (table.header, *table.rows)]
    caption = escape_latex(f"{table.title}. {table.note}".rstrip(". ") + ".")
    begin = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    end = [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}", ""]
    return "\n".join([*begin, lines[0], r"\midrule", *lines[1:], *end])


def escape_latex(text: str) -> str:
    """A text in which LaTeX sees no commands."""
    named = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    named["±"] = r"$\pm$"
    return re.sub(r"[\\~^±&%$#_{}]", lambda m: named.get(m[0], "\\" + m[0]), text)


def write_csv(results: Results) -> str:
    """A line for each run and corpus of it, with all scores of all parts."""
    lines = []
    for cell in results.cells.values():
        for trial, left in cell.trials.items():
            line: dict[str, object] = {"row": cell.row, "corpus": cell.corpus, **asdict(trial)}
            line["train_seconds"] = results.runs[trial.run]["train_seconds"]
            for part in ("dev", "test", "exported"):
                scores = left.get(part, {})
                line.update({f"{part}_{metric}": score for metric, score in scores.items()})
            lines.append(line)
    names = list(dict.fromkeys(name for line in lines for name in line))
    file = StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def describe_results(results: Results, speeds: dict[str, Any] | None) -> dict[str, Any]:
    """All statistics for other programs; scores are from 0 to 100."""
    study = results.study
    return {
        "title": study.study.title,
        "statistic": results.statistic,
        "missing": results.plan.missing,
        "cells": [
            {
                "row": cell.row,
                "corpus": cell.corpus,
                "metric": cell.metric,
                "learn_rate": cell.chosen[0].learn_rate,
                "batch_size": cell.chosen[0].batch_size,
                **{kind: cell.value(cell.metric, kind) for kind in get_args(Statistic)},
                "sd": cell.spread(cell.metric),
                "scores": [100 * score for score in cell.scores(cell.metric)],
            }
            for cell in results.cells.values()
        ],
        "means": {
            row: {
                group: mean[0]
                for group, names in results.groups.items()
                if (mean := results.mean(row, names))
            }
            for row in study.rows
        },
        "comparisons": [
            {"rows": rows, "corpus": corpus, **(asdict(test) if test else {})}
            for rows, corpus, test in results.comparisons
        ],
        "speed": speeds,
    }


# --- Diagrams ---


def draw_figures(
    results: Results, published: PublishedTable | None, speeds: dict[str, Any] | None
) -> list[str]:
    """The diagrams that a study has something for, as SVG documents."""
    study = results.study
    groups: dict[str, list[ScoredRow]] = {}
    for corpus, row in product(study.corpora, study.rows):
        if cell := results.cells.get((row, corpus)):
            title, value = study.title(row), cell.value(cell.metric, results.statistic) or 0.0
            scores = [100 * score for score in cell.scores(cell.metric)]
            metric = name_metric(cell.metric)
            figure = published.find(title, corpus, metric) if published else None
            groups.setdefault(corpus, []).append(ScoredRow(title, value, scores, figure))
    figures = [draw_scores(study.study.title, groups)]
    changes = find_changes(results)
    if changes:
        figures.append(draw_effects(list(study.corpora), changes, MARGIN))
    if speeds:
        figures.append(_draw_speeds(results, speeds))
    return figures


def find_changes(results: Results) -> dict[tuple[str, str], float]:
    """How scores change, in points, by corpus and its only companion, against training alone."""
    study = results.study
    rows = reversed(study.rows.items())  # of several of an encoder the first counts
    names = {row.encoder: name for name, row in rows if row.training == "alone"}
    changes = {}
    for (name, row), corpus in product(study.rows.items(), study.corpora):
        if row.companions is None or len(row.companions) != 1:
            continue
        alone = names.get(row.encoder, "")
        own, other = (results.value(one, corpus) for one in (name, alone))
        if own is not None and other is not None:
            changes[corpus, row.companions[0]] = own - other
    return changes


def _draw_speeds(results: Results, speeds: dict[str, Any]) -> str:
    speed, memory = [], []
    for row, figures in speeds["pipelines"].items():
        title, score = results.study.title(row), _mean_of(_cells_of(results, row), "exported")
        values = {name: figure["value"] or 0.0 for name, figure in figures["figures"].items()}
        speed.append(Dot(title, values["words_per_second"], score))
        memory.append(Dot(title, values["peak_bytes"] / 1e6, score))
    panels = [("words a second", speed), ("peak memory, MB", memory)]
    return draw_scatter("Exported pipelines: scores against time and memory", "mean score", panels)


def render_page(title: str, note: str, tables: list[Table], figures: list[str]) -> str:
    """Tables and diagrams as one HTML page that loads nothing."""
    # The diagrams are documents of their own, of which a page takes the element.
    drawn = [figure[figure.index("<svg") :] for figure in figures]
    page = read_template(Path(__file__).parent / "report.html.jinja")
    return page.render(title=title, note=note, tables=tables, figures=drawn)
