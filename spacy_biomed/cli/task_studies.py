"""`spacy biomed study pairwise` and `spacy biomed study refinement`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from ._shared.number_options import above_zero, at_least_zero
from ._shared.study_options import (
    BATCH_WORDS,
    CORPORA_DIR,
    GPU_ID,
    LEARN_RATE,
    create_console,
    holding_output,
    seeds_option,
    show_written,
    showing_progress,
    template_option,
)
from .init_config import split_names
from .train import import_training, set_up_gpu

if TYPE_CHECKING:
    from ..studies.task_runs import StudySettings
    from ..training.multitask_config import Schedule

TASKS = typer.Option(..., help="Converted corpora: names with commas between them.")
ENCODER = typer.Option(..., help="Catalogue name, hub id or directory.")
SCHEDULE = typer.Option("proportional", help="round_robin or proportional.")
SEEDS = seeds_option(1)
PART = typer.Option("test", help="What is scored: test or dev.")
TEMPLATE = template_option("multitask")


def pairwise(
    output: Path = typer.Argument(help="Folder for the table, the figure and the runs' scores."),
    tasks: str = TASKS,
    encoder: str = ENCODER,
    schedule: str = SCHEDULE,
    epochs: int = typer.Option(10, min=1, help="Epochs of each run."),
    batch_words: int = BATCH_WORDS,
    learn_rate: float = LEARN_RATE,
    seeds: int = SEEDS,
    part: str = PART,
    margin: float = typer.Option(
        0.5, callback=at_least_zero, help="Smaller differences, in points, are no effect."
    ),
    corpora_dir: Path = CORPORA_DIR,
    template: Path = TEMPLATE,
    gpu_id: int = GPU_ID,
) -> None:
    """Train every task alone and every pair together: a table and a figure of which helps which.

    Four tasks are ten runs. If the study was stopped, give the same command again: finished runs
    are kept. With `proportional` a task has as many steps in a pair as it has alone.

    Example: python -m spacy biomed study pairwise --tasks ncbi_disease,bc5cdr,hoc,medrqe --encoder
    biobert metrics/tasks
    """
    settings = _prepare(
        template, encoder, schedule, epochs, batch_words, learn_rate, seeds, part, gpu_id
    )
    from ..studies.pairwise import FIGURE, RESULTS, TABLE, plan_runs, study_pairs

    folders = [corpora_dir / name for name in split_names(tasks)]
    console = create_console()
    with (
        holding_output(output, [template, encoder, *folders]),
        showing_progress(console, len(plan_runs(folders, settings.seeds))) as progress,
    ):
        study_pairs(folders, output, settings, margin=margin, progress=progress)
    show_written(console, output, TABLE, RESULTS, FIGURE)


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
    seeds: int = SEEDS,
    part: str = PART,
    corpora_dir: Path = CORPORA_DIR,
    template: Path = TEMPLATE,
    gpu_id: int = GPU_ID,
) -> None:
    """Train tasks alone, all together, and each again from the encoder that all have trained.

    The table has the score of each task at the three stages. If the study was stopped, give the
    same command again: finished runs are kept. In the folder of a pairwise study, its runs of
    tasks alone are used.

    Example: python -m spacy biomed study refinement --tasks ncbi_disease,bc5cdr,hoc,medrqe
    --encoder biobert --fine-tune-learn-rate 0.00002 metrics/tasks
    """
    settings = _prepare(
        template, encoder, schedule, epochs, batch_words, learn_rate, seeds, part, gpu_id
    )
    from ..studies.refinement import RESULTS, TABLE, FineTuning, count_runs, study_refinement

    rate = learn_rate if fine_tune_learn_rate is None else fine_tune_learn_rate
    folders = [corpora_dir / name for name in split_names(tasks)]
    console = create_console()
    with (
        holding_output(output, [template, encoder, *folders]),
        showing_progress(console, count_runs(folders, settings)) as progress,
    ):
        study_refinement(
            folders, output, settings, FineTuning(fine_tune_epochs, rate), progress=progress
        )
    show_written(console, output, TABLE, RESULTS)


def _prepare(
    template: Path,
    encoder: str,
    schedule: str,
    epochs: int,
    batch_words: int | None,
    learn_rate: float | None,
    seeds: int,
    part: str,
    gpu_id: int,
) -> StudySettings:
    """Check that training is possible, and collect the settings.

    Raises:
        BiomedError: if training is not possible.
    """
    import_training()
    set_up_gpu(gpu_id)
    from ..studies.task_runs import StudySettings

    return StudySettings(
        template=template,
        encoder=encoder,
        schedule=cast("Schedule", schedule),  # checked by the first run
        epochs=epochs,
        batch_words=batch_words,
        learn_rate=learn_rate,
        seeds=tuple(range(seeds)),
        part=part,
        gpu=gpu_id,
    )
