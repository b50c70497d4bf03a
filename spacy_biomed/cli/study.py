"""`spacy biomed study`: experiments of many trainings, as in the papers."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from wasabi import msg

from ..files.outputs import replace_text
from ._shared.bad_input import OneLineGroup
from .distillation_study import distillation
from .study_runs import list_studies, run
from .train import CONFIG_OVERRIDES, set_up_gpu

study = typer.Typer(cls=OneLineGroup)
study.command(context_settings=CONFIG_OVERRIDES)(run)
study.command("list")(list_studies)
study.command(context_settings=CONFIG_OVERRIDES)(distillation)


@study.callback()
def describe() -> None:
    """Run experiments of many trainings, such as the papers' tables, and score pipelines of tasks.

    Examples: python -m spacy biomed study list

    python -m spacy biomed study run starter_pairs metrics/starter_pairs
    """


@study.command()
def scores(
    pipeline: str = typer.Argument(help="Pipeline of several tasks: a directory or a package."),
    part: str = typer.Option("test", help="train, dev or test."),
    output: Path = typer.Option(None, help="JSON file to write them to."),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU to use; -1 for the CPU."),
) -> None:
    """Score each task of a pipeline on its corpus, which the pipeline's config names.

    Example: python -m spacy biomed study scores training/multitask/model-best --part test
    """
    from ..pipeline.pipeline_loading import load_pipeline
    from ..studies.task_scores import score_tasks

    set_up_gpu(gpu_id)
    found = score_tasks(load_pipeline(pipeline), part)
    msg.table([(name, f"{100 * score:.2f}") for name, score in found.items()], aligns=("l", "r"))
    if output is not None:
        replace_text(output, json.dumps(found, indent=2) + "\n", [pipeline])
        msg.good(f"Wrote {output}")
