"""Measure which task helps which: train every pair of tasks together, and each task alone.

Peng et al. 2020, "An Empirical Study of Multi-Task Learning on BERT for Biomedical Text Mining",
section 4.4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import BiomedError
from .figures import draw_effects
from .reports import format_table, write_report_files
from .task_runs import RUNS, StudySettings, check_tasks, run_tasks
from .trainings import Progress

TABLE, RESULTS, FIGURE = "pairwise.md", "pairwise.json", "pairwise.svg"


@dataclass(frozen=True, slots=True)
class PairwiseStudy:
    """The scores of tasks trained alone and in pairs.

    Attributes:
        metrics: name of each task's score, in the order of the tasks.
        alone: by task, its score with each seed, 0 to 1.
        together: by task and companion, the task's score with each seed.
    """

    metrics: dict[str, str]
    alone: dict[str, list[float]]
    together: dict[tuple[str, str], list[float]]

    @property
    def tasks(self) -> list[str]:
        return list(self.metrics)

    def change(self, task: str, companion: str) -> float:
        """The change of a task's score with a companion, in points of 100, mean over seeds."""
        return 100 * (fmean(self.together[task, companion]) - fmean(self.alone[task]))


def study_pairs(
    folders: list[Path],
    output: Path,
    settings: StudySettings,
    *,
    margin: float = 0.5,
    progress: Progress | None = None,
) -> PairwiseStudy:
    """Train every task alone and every pair together, and report how the scores change.

    It writes `pairwise.md`, a table; `pairwise.json`, all scores; and `pairwise.svg`, a diagram. A
    finished run leaves its scores and config in `runs/`, but no pipeline. When run again, the study
    resumes the interrupted run and runs the missing ones. A run whose config, corpora or encoder
    have changed is run again.

    Args:
        folders: at least two converted corpora.
        output: folder for all files.
        settings: settings of all runs.
        margin: smallest change, in points, that counts as an effect in the diagram.
        progress: called with a description of each run before it.

    Raises:
        BiomedError: if there are fewer than two corpora, or as in `check_tasks` and `run_tasks`.
    """
    if len(folders) < 2:
        raise BiomedError("--tasks: a study of pairs needs at least two corpora")
    check_tasks(folders, settings)
    study = PairwiseStudy({}, {}, {})
    for chosen, seed in plan_runs(folders, settings.seeds):
        names = [folder.name for folder in chosen]
        if progress is not None:
            progress(f"{' + '.join(names)}, seed {seed}")
        place = output / RUNS / "+".join(names) / f"seed_{seed}"
        run = run_tasks(chosen, place, settings, seed)
        study.metrics.update(run.metrics)
        if len(names) == 1:
            study.alone.setdefault(names[0], []).append(run.scores[names[0]])
        for task, companion in permutations(names, 2):
            study.together.setdefault((task, companion), []).append(run.scores[task])
    write_study(study, output, settings, margin)
    return study


def plan_runs(folders: list[Path], seeds: tuple[int, ...]) -> list[tuple[tuple[Path, ...], int]]:
    """The corpora and the seed of each run: first each corpus alone, then all pairs."""
    chosen = [(folder,) for folder in folders] + list(combinations(folders, 2))
    return [(some, seed) for some in chosen for seed in seeds]


def write_study(study: PairwiseStudy, output: Path, settings: StudySettings, margin: float) -> None:
    """Write the table, all scores and the diagram."""
    changes = {(task, other): study.change(task, other) for task, other in study.together}
    contents = {
        TABLE: create_table(study, settings),
        RESULTS: _describe(study, settings),
        FIGURE: draw_effects(study.tasks, changes, margin),
    }
    write_report_files(output, contents)


def create_table(study: PairwiseStudy, settings: StudySettings) -> str:
    """The changes as a Markdown table, with a column for each task and a row for each companion."""
    tasks = study.tasks
    rows = [["alone", *(f"{100 * fmean(study.alone[task]):.2f}" for task in tasks)]]
    for companion in tasks:
        changes = [
            "" if task == companion else f"{study.change(task, companion):+.2f}" for task in tasks
        ]
        rows.append([f"with {companion}", *changes])
    return (
        f"{format_table(['', *tasks], rows)}\n"
        f"Scores on the {settings.part} parts, of 100 points, and what changes where a task is "
        "trained together with another; "
        f"{settings.encoder}, {settings.epochs} epochs, {settings.schedule}, "
        f"{settings.describe_mean(study.metrics)}\n"
    )


def _describe(study: PairwiseStudy, settings: StudySettings) -> dict[str, Any]:
    return {
        "encoder": settings.encoder,
        "schedule": settings.schedule,
        "epochs": settings.epochs,
        "part": settings.part,
        "seeds": list(settings.seeds),
        "tasks": {
            task: {"metric": metric, "alone": study.alone[task]}
            for task, metric in study.metrics.items()
        },
        "pairs": [
            {
                "task": task,
                "with": companion,
                "scores": scores,
                "change": round(study.change(task, companion), 4),
            }
            for (task, companion), scores in study.together.items()
        ],
    }
