"""`spacy biomed study pairwise` and `spacy biomed study refinement`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from ..outputs import working_directory
from ._shared.display import showing_study
from ._shared.number_options import above_zero, at_least_zero
from ._shared.training_extra import importing_extra
from ._shared.training_options import (
    BATCH_WORDS,
    CORPORA_DIR,
    ENCODER,
    GPU_ID,
    LEARN_RATE,
    STUDY,
    TASKS,
    Seeds,
    template_option,
)
from .init_config import split_names
from .train import set_up_gpu

if TYPE_CHECKING:
    from ..training.multitask_config import Schedule

SCHEDULE = typer.Option("proportional", help="round_robin or proportional.")
PART = typer.Option("test", help="What is scored: test or dev.")


def pairwise(
    output: Path = typer.Argument(help="Folder for the table, the figure and the runs' scores."),
    tasks: str = TASKS,
    encoder: str = ENCODER,
    schedule: str = SCHEDULE,
    epochs: int = typer.Option(10, min=1, help="Epochs of each run."),
    batch_words: int = BATCH_WORDS,
    learn_rate: float = LEARN_RATE,
    seeds: Seeds = 1,
    part: str = PART,
    margin: float = typer.Option(
        0.5, callback=at_least_zero, help="Smaller differences, in points, are no effect."
    ),
    corpora_dir: Path = CORPORA_DIR,
    template: Path = template_option("multitask"),
    gpu_id: int = GPU_ID,
) -> None:
    """Train every task alone and every pair together: a table and a figure of which helps which.

    Four tasks are ten runs. If the study was stopped, give the same command again: finished runs
    are kept. With `proportional` a task has as many steps in a pair as it has alone.

    Example: python -m spacy biomed study pairwise --tasks ncbi_disease,bc5cdr,hoc,medrqe --encoder
    biobert metrics/tasks
    """
    with importing_extra("training needs PyTorch"):
        from ..studies.pairwise import FIGURE, RESULTS, TABLE, plan_runs, study_pairs
        from ..studies.task_runs import StudySettings
    set_up_gpu(gpu_id)
    kind = cast("Schedule", schedule)  # checked by the first run
    settings = StudySettings(
        template, encoder, kind, epochs, batch_words, learn_rate, tuple(range(seeds)), part, gpu_id
    )
    folders = [corpora_dir / name for name in split_names(tasks)]
    steps = len(plan_runs(folders, settings.seeds))
    with (
        working_directory(output, STUDY, [template, encoder, *folders]),
        showing_study(output, steps, [TABLE, RESULTS, FIGURE]) as progress,
    ):
        study_pairs(folders, output, settings, margin=margin, progress=progress)


def refinement(
    output: Path = typer.Argument(help="Folder for the table, the scores and the pipelines."),
    tasks: str = TASKS,
    encoder: str = ENCODER,
    schedule: str = SCHEDULE,
    epochs: int = typer.Option(10, min=1, help="Epochs of each task alone, and of all together."),
    fine_tune_epochs: int = typer.Option(5, min=1, help="Epochs of each task after that."),
    batch_words: int = BATCH_WORDS,
    learn_rate: float = LEARN_RATE,
    fine_tune_learn_rate: float = typer.Option(
        None, callback=above_zero, help="Learning rate of each task after that; else the same."
    ),
    seeds: Seeds = 1,
    part: str = PART,
    corpora_dir: Path = CORPORA_DIR,
    template: Path = template_option("multitask"),
    gpu_id: int = GPU_ID,
) -> None:
    """Train tasks alone, all together, and each again from the encoder that all have trained.

    The table has the score of each task at the three stages. If the study was stopped, give the
    same command again: finished runs are kept. In the folder of a pairwise study, its runs of
    tasks alone are used.

    Example: python -m spacy biomed study refinement --tasks ncbi_disease,bc5cdr,hoc,medrqe
    --encoder biobert --fine-tune-learn-rate 0.00002 metrics/tasks
    """
    with importing_extra("training needs PyTorch"):
        from ..studies.refinement import RESULTS, TABLE, FineTuning, count_runs, study_refinement
        from ..studies.task_runs import StudySettings
    set_up_gpu(gpu_id)
    kind = cast("Schedule", schedule)  # checked by the first run
    settings = StudySettings(
        template, encoder, kind, epochs, batch_words, learn_rate, tuple(range(seeds)), part, gpu_id
    )
    rate = learn_rate if fine_tune_learn_rate is None else fine_tune_learn_rate
    folders = [corpora_dir / name for name in split_names(tasks)]
    with (
        working_directory(output, STUDY, [template, encoder, *folders]),
        showing_study(output, count_runs(folders, settings), [TABLE, RESULTS]) as progress,
    ):
        study_refinement(
            folders, output, settings, FineTuning(fine_tune_epochs, rate), progress=progress
        )
