"""Measure refinement: train tasks together, then fine-tune each, and compare with each task alone.

Peng et al. 2020, "An Empirical Study of Multi-Task Learning on BERT for Biomedical Text Mining",
sections 3.3 and 4.2.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

from ..errors import BiomedError
from ..training.resumable import DIR_MODEL_BEST
from .reports import format_table, write_report_files
from .task_runs import RUNS, StudySettings, check_tasks, run_tasks
from .trainings import Progress

TABLE, RESULTS = "refinement.md", "refinement.json"
ALONE, TOGETHER, APART = STAGES = ("alone", "together", "together, then apart")

# Folder of the fine-tunings from refined encoders, and path of the encoder in a run's folder.
REFINED, ENCODER = "refined", Path(DIR_MODEL_BEST, "biomed_transformer", "encoder")


@dataclass(frozen=True, slots=True)
class FineTuning:
    """The settings for fine-tuning a refined encoder for one task.

    Attributes:
        epochs, learn_rate: as in `StudySettings`.
    """

    epochs: int
    learn_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Refinement:
    """The scores of tasks at each stage.

    Attributes:
        metrics: name of each task's score, in the order of the tasks.
        scores: by stage and task, the score with each seed, 0 to 1.
    """

    metrics: dict[str, str]
    scores: dict[str, dict[str, list[float]]]


def study_refinement(
    folders: list[Path],
    output: Path,
    settings: StudySettings,
    fine_tuning: FineTuning,
    *,
    progress: Progress | None = None,
) -> Refinement:
    """Train each task alone, all tasks together, and then each task from the refined encoder.

    It writes `refinement.md`, a table, and `refinement.json`, all scores. A finished run leaves its
    scores and config. The run of all tasks also leaves its pipeline, in
    `runs/A+B+.../seed_N/model-best`. Finished runs are not repeated. Runs of single tasks are
    shared with `study_pairs` in the same folder.

    Args:
        folders: at least two converted corpora.
        output: folder for all files.
        settings: settings of the runs alone and together.
        fine_tuning: settings of the fine-tuning afterwards.
        progress: called with a description of each run before it.

    Raises:
        BiomedError: if there are fewer than two corpora, or as in `check_tasks` and `run_tasks`.
    """
    if len(folders) < 2:
        raise BiomedError("--tasks: to refine an encoder needs at least two corpora")
    check_tasks(folders, settings)
    report = progress or (lambda doing: None)
    names = [folder.name for folder in folders]
    study = Refinement({}, {stage: {name: [] for name in names} for stage in STAGES})

    def run(stage: str, chosen: list[Path], place: Path, settings: StudySettings) -> None:
        result = run_tasks(chosen, place, settings, seed, keep_pipeline=stage == TOGETHER)
        study.metrics.update(result.metrics)
        for name, score in result.scores.items():
            study.scores[stage][name].append(score)

    for seed in settings.seeds:
        ending = f"seed_{seed}"
        for folder in folders:
            report(f"{folder.name} alone, seed {seed}")
            run(ALONE, [folder], output / RUNS / folder.name / ending, settings)
        report(f"all together, seed {seed}")
        together = output / RUNS / "+".join(names) / ending
        run(TOGETHER, folders, together, settings)
        refined = replace(settings, encoder=str(together / ENCODER), **asdict(fine_tuning))
        for folder in folders:
            report(f"{folder.name} after all, seed {seed}")
            run(APART, [folder], output / REFINED / folder.name / ending, refined)
    _write(study, output, settings, fine_tuning)
    return study


def count_runs(folders: list[Path], settings: StudySettings) -> int:
    """The number of calls of `progress` in `study_refinement`."""
    return (2 * len(folders) + 1) * len(settings.seeds)


def _write(
    study: Refinement, output: Path, settings: StudySettings, fine_tuning: FineTuning
) -> None:
    results = {
        "encoder": settings.encoder,
        "schedule": settings.schedule,
        "epochs": settings.epochs,
        "fine_tuning_epochs": fine_tuning.epochs,
        "part": settings.part,
        "seeds": list(settings.seeds),
        "metrics": study.metrics,
        "scores": study.scores,
    }
    contents = {TABLE: create_table(study, settings, fine_tuning), RESULTS: results}
    write_report_files(output, contents)


def create_table(study: Refinement, settings: StudySettings, fine_tuning: FineTuning) -> str:
    """The scores as a Markdown table: a column for each task and the mean, a row for each stage."""
    rows = []
    for stage, by_task in study.scores.items():
        means = [100 * fmean(by_task[task]) for task in study.metrics]
        rows.append([stage, *(f"{mean:.2f}" for mean in (*means, fmean(means)))])
    return (
        f"{format_table(['', *study.metrics, 'mean'], rows)}\n"
        f"Scores on the {settings.part} parts, of 100 points; {settings.encoder}, "
        f"{settings.epochs} epochs alone and together ({settings.schedule}), "
        f"then {fine_tuning.epochs} apart, "
        f"{settings.describe_mean(study.metrics)}\n"
    )
