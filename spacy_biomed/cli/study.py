"""`spacy biomed study`: experiments of many trainings, as the papers make them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .bad_input import OneLineGroup
from .encoder_studies import distillation, encoders
from .init_config import split_names
from .train import CONFIG_OVERRIDES, import_training, set_up_gpu

if TYPE_CHECKING:
    from rich.console import Console

    from ..evaluation.task_runs import Progress

study = typer.Typer(cls=OneLineGroup, no_args_is_help=True)
study.command()(encoders)
study.command(context_settings=CONFIG_OVERRIDES)(distillation)


@study.callback()
def describe() -> None:
    """Score the tasks of a pipeline, find out which help which, and compare encoders.

    Examples: python -m spacy biomed study scores training/multitask/model-best --part test

    python -m spacy biomed study pairwise --tasks ncbi_disease,bc5cdr,hoc,medrqe --encoder biobert
    metrics/tasks
    """


@study.command()
def scores(
    pipeline: str = typer.Argument(help="Pipeline of several tasks: a directory or a package."),
    part: str = typer.Option("test", help="train, dev or test."),
    output: Path = typer.Option(None, help="JSON file to write them to."),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU to use; -1 for the CPU."),
) -> None:
    """Score each task of a pipeline on its own corpus, which the pipeline's config names.

    Example: python -m spacy biomed study scores training/multitask/model-best --part test
    """
    import json

    from wasabi import msg

    from ..evaluation.task_scores import score_tasks
    from ..outputs import replacing_file
    from ..pipeline.loading import load_pipeline

    set_up_gpu(gpu_id)
    found = score_tasks(load_pipeline(pipeline), part)
    msg.table([(name, f"{100 * score:.2f}") for name, score in found.items()], aligns=("l", "r"))
    if output is not None:
        with replacing_file(output) as partial:
            partial.write_text(json.dumps(found, indent=2) + "\n", encoding="utf8")
        msg.good(f"Wrote {output}")


@study.command()
def pairwise(
    output: Path = typer.Argument(help="Folder for the table, the figure and the runs' scores."),
    tasks: str = typer.Option(..., help="Converted corpora: names with commas between them."),
    encoder: str = typer.Option(..., help="Catalogue name, hub id or directory."),
    schedule: str = typer.Option("proportional", help="round_robin or proportional."),
    epochs: int = typer.Option(10, min=1, help="Of each run."),
    batch_words: int = typer.Option(None, min=1, help="Tokens in a batch; else the template's."),
    learn_rate: float = typer.Option(None, help="Highest learning rate; else the template's."),
    seeds: int = typer.Option(1, min=1, help="How many times to make each run: seeds 0, 1, ..."),
    part: str = typer.Option("test", help="What is scored: test or dev."),
    margin: float = typer.Option(0.5, min=0.0, help="Fewer points than this are no effect."),
    corpora_dir: Path = typer.Option(Path("corpus"), help="Folder of the converted corpora."),
    template: Path = typer.Option(Path("configs/multitask.cfg"), help="Config to fill."),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU to train on; -1 for the CPU."),
) -> None:
    """Train every task alone and every pair together: a table and a figure of which helps which.

    Four tasks are ten runs. Those that are finished are kept: give the same command again after the
    study was stopped. With `proportional` a task has as many steps in a pair as it has alone.

    Example: python -m spacy biomed study pairwise --tasks ncbi_disease,bc5cdr,hoc,medrqe --encoder
    biobert metrics/pairwise
    """
    from rich.console import Console

    import_training()
    set_up_gpu(gpu_id)
    from ..evaluation.pairwise import FIGURE, RESULTS, TABLE, plan_runs, study_pairs
    from ..evaluation.task_runs import StudySettings

    settings = StudySettings(
        template=template,
        encoder=encoder,
        schedule=schedule,
        epochs=epochs,
        batch_words=batch_words,
        learn_rate=learn_rate,
        seeds=tuple(range(seeds)),
        part=part,
        gpu=gpu_id,
    )
    folders = [corpora_dir / name for name in split_names(tasks)]
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with _progress(console, len(plan_runs(folders, settings.seeds))) as progress:
        study_pairs(folders, output, settings, margin=margin, progress=progress)
    console.print((output / TABLE).read_text(encoding="utf8"))
    console.print(f"✔ Wrote {TABLE}, {RESULTS} and {FIGURE} to {output}")


@study.command()
def refinement(
    output: Path = typer.Argument(help="Folder for the table, the scores and the pipelines."),
    tasks: str = typer.Option(..., help="Converted corpora: names with commas between them."),
    encoder: str = typer.Option(..., help="Catalogue name, hub id or directory."),
    schedule: str = typer.Option("proportional", help="round_robin or proportional."),
    epochs: int = typer.Option(10, min=1, help="Of each task alone, and of all together."),
    fine_tune_epochs: int = typer.Option(5, min=1, help="Of each task after that."),
    batch_words: int = typer.Option(None, min=1, help="Tokens in a batch; else the template's."),
    learn_rate: float = typer.Option(None, help="Highest learning rate; else the template's."),
    fine_tune_learn_rate: float = typer.Option(
        None, help="Of each task after that; else the same."
    ),
    seeds: int = typer.Option(1, min=1, help="How many times to make each run: seeds 0, 1, ..."),
    part: str = typer.Option("test", help="What is scored: test or dev."),
    corpora_dir: Path = typer.Option(Path("corpus"), help="Folder of the converted corpora."),
    template: Path = typer.Option(Path("configs/multitask.cfg"), help="Config to fill."),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU to train on; -1 for the CPU."),
) -> None:
    """Train tasks alone, all together, and each again from the encoder that all have trained.

    The table has the score of each task at the three stages. Runs that are finished are kept: give
    the same command again after the study was stopped. In the folder of a pairwise study the runs
    of tasks alone are its own.

    Example: python -m spacy biomed study refinement --tasks ncbi_disease,bc5cdr,hoc,medrqe
    --encoder biobert --fine-tune-learn-rate 0.00002 metrics/tasks
    """
    from rich.console import Console

    import_training()
    set_up_gpu(gpu_id)
    from ..evaluation.refinement import RESULTS, TABLE, FineTuning, count_runs, study_refinement
    from ..evaluation.task_runs import StudySettings

    settings = StudySettings(
        template=template,
        encoder=encoder,
        schedule=schedule,
        epochs=epochs,
        batch_words=batch_words,
        learn_rate=learn_rate,
        seeds=tuple(range(seeds)),
        part=part,
        gpu=gpu_id,
    )
    fine_tuning = FineTuning(fine_tune_epochs, fine_tune_learn_rate or learn_rate)
    folders = [corpora_dir / name for name in split_names(tasks)]
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with _progress(console, count_runs(folders, settings)) as progress:
        study_refinement(folders, output, settings, fine_tuning, progress=progress)
    console.print((output / TABLE).read_text(encoding="utf8"))
    console.print(f"✔ Wrote {TABLE} and {RESULTS} to {output}")


@contextmanager
def _progress(console: Console, runs: int) -> Iterator[Progress]:
    """A bar that tells which of so many runs is made."""
    from rich.progress import Progress as Bar

    with Bar(console=console, transient=True) as bar:
        task, done = bar.add_task("", total=runs), count()
        yield lambda run: bar.update(task, description=run, completed=next(done))
