"""The statistics of a study's runs: the chosen setting, and what its repetitions scored."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from ..errors import list_choices
from .paired_tests import PairedTest, Tallies, compare_tallies, score_tallies
from .planning import Plan, Trial
from .runs import find_result
from .study_config import MEAN, MEAN_OF, Statistic, Study

# Two rows, a corpus, and the test of them, if the scores are made of documents' contributions.
Comparison = tuple[tuple[str, str], str, PairedTest | None]

# What the endings of scores are called in the papers' tables.
METRICS = {
    "acc": "accuracy",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "strict": "strict accuracy",
    "lenient": "lenient accuracy",
    "mrr": "MRR",
    "exact": "exact match",
    "score": "F1",
    "f1": "F1",
    "p": "P",
    "r": "R",
    "f": "F1",
}
_OF_BIOASQ = ("strict", "lenient", "mrr")
# How far a score of the documents' contributions may be from the scorer's.
_SAME = 1e-6


def name_metric(ending: str) -> str:
    """A score's name in the papers' tables, by the ending of its name here."""
    return METRICS.get(ending) or METRICS.get(ending.rpartition("_")[2], ending)


def related_metrics(metric: str) -> list[str]:
    """A score and those that papers print with it: F1 with precision and recall, BioASQ's three."""
    if metric in _OF_BIOASQ:
        return list(_OF_BIOASQ)
    begin = "macro_" if metric == "score" else metric[:-1]
    if metric == "score" or metric.rpartition("_")[2] == "f":
        return [f"{begin}p", f"{begin}r", metric]
    return [metric]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the table: a row's runs with a corpus.

    Attributes:
        metric: ending of the main score's name.
        trials: what each run left for this corpus.
        select: part that chooses, "dev" or "test".
    """

    row: str
    corpus: str
    metric: str
    trials: dict[Trial, dict[str, Any]]
    select: str

    def scores(
        self, metric: str, part: str = "test", trials: Iterable[Trial] | None = None
    ) -> list[float]:
        """The scores of trials on a part, 0 to 1; by default of those with the chosen setting."""
        chosen = self.chosen if trials is None else trials
        found = (self.trials[trial].get(part, {}) for trial in chosen)
        return [scores[metric] for scores in found if metric in scores]

    def mean(self, part: str, trials: Iterable[Trial]) -> float | None:
        """The mean of the main score over trials, of 100 points; None without scores."""
        scores = self.scores(self.metric, part, trials)
        return 100 * fmean(scores) if scores else None

    @property
    def settings(self) -> dict[tuple[float | None, int | None], list[Trial]]:
        """The trials of each setting."""
        settings: dict[tuple[float | None, int | None], list[Trial]] = {}
        for trial in self.trials:
            settings.setdefault(trial.setting, []).append(trial)
        return settings

    @property
    def chosen(self) -> list[Trial]:
        """The trials of the setting with the best mean on the part that chooses."""

        def rank(trials: list[Trial]) -> float:
            mean = self.mean(self.select, trials)
            return -inf if mean is None else mean

        return max(self.settings.values(), key=rank)

    def value(self, metric: str, statistic: Statistic) -> float | None:
        """A statistic of the chosen trials' test scores, of 100 points; None without scores.

        The best trial is that with the best score on the part that chooses.
        """
        trials = self.chosen
        if statistic == "best" and len(trials) > 1:
            ranking = {one: self.mean(self.select, [one]) for one in trials}
            known = {one: mean for one, mean in ranking.items() if mean is not None}
            trials = [max(known, key=lambda one: known[one])] if known else []
        scores = self.scores(metric, trials=trials)
        if not scores:
            return None
        return 100 * (median(scores) if statistic == "median" else fmean(scores))

    def spread(self, metric: str, trials: Iterable[Trial] | None = None) -> float | None:
        """The standard deviation of the test scores, in points; None of a single one."""
        scores = self.scores(metric, trials=trials)
        return 100 * stdev(scores) if len(scores) > 1 else None

    def tallies(self) -> list[Tallies]:
        """The documents' contributions with each seed of the chosen setting, of all folds."""
        by_seed: dict[int, Tallies] = {}
        for trial in self.chosen:
            by_seed.setdefault(trial.seed, []).extend(self.trials[trial]["tallies"])
        return list(by_seed.values())

    def is_made_of_documents(self) -> bool:
        """Whether the documents' contributions give the score that the scorer gave."""
        result = self.trials[self.chosen[0]]
        score = score_tallies(result["tallies"], self.metric)
        return score is not None and abs(score - result["test"][self.metric]) < _SAME


@dataclass(frozen=True)
class Results:
    """The results of a study: its cells by row and corpus, and by its digest what each run left."""

    study: Study
    plan: Plan
    cells: dict[tuple[str, str], Cell]
    runs: dict[str, dict[str, Any]]

    @property
    def statistic(self) -> Statistic:
        return self.study.study.statistic

    @property
    def groups(self) -> dict[str, list[str]]:
        """The corpora of each mean: those of each group, and all."""
        groups = {f"{MEAN_OF}{name}": names for name, names in self.study.groups.items()}
        return {**groups, MEAN: list(self.study.corpora)}

    def value(self, row: str, corpus: str) -> float | None:
        """What a cell shows; None if there is none, or it has no scores."""
        cell = self.cells.get((row, corpus))
        return cell.value(cell.metric, self.statistic) if cell else None

    def mean(self, row: str, corpora: list[str]) -> tuple[float, int] | None:
        """The mean of a row's values over corpora, and of how many; None if there are none."""
        values = (self.value(row, corpus) for corpus in corpora)
        found = [value for value in values if value is not None]
        return (fmean(found), len(found)) if found else None

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The paired tests of the study's pairs of rows, on each corpus that both have."""
        settings = self.study.comparisons
        options: dict[str, Any] = settings.model_dump(include={"resamples", "level"})
        compared: list[Comparison] = []
        for (first, second), corpus in product(settings.pairs, self.study.corpora):
            own, other = (self.cells.get((row, corpus)) for row in (first, second))
            if own is None or other is None:
                continue
            test = None
            if own.is_made_of_documents() and other.is_made_of_documents():
                test = compare_tallies(own.tallies(), other.tallies(), own.metric, **options)
            compared.append(((first, second), corpus, test))
        return compared


def collect_results(study: Study, plan: Plan, output: Path) -> Results:
    """Read what the runs of a study left, which are all finished.

    Raises:
        BiomedError: if the metric of a corpus is not among its scores.
    """
    found = {digest: find_result(output, run) for digest, run in plan.runs.items()}
    runs = {digest: result for digest, result in found.items() if result is not None}
    cells = {}
    for (row, corpus), trials in plan.cells.items():
        left = {trial: runs[trial.run]["corpora"][corpus] for trial in trials}
        first = left[trials[0]]
        metric, known = study.corpora[corpus].metric or first["metric"], first["test"]
        if metric not in known:
            advice = list_choices(metric, known) if known else "its test part has nothing to score"
            raise study.error(f"corpora.{corpus}.metric", f"no score '{metric}'; {advice}")
        cells[row, corpus] = Cell(row, corpus, metric, left, study.study.select)
    return Results(study, plan, cells, runs)
