"""`spacy biomed study`: experiments of many trainings, as in the papers."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from wasabi import msg

from ..errors import BiomedError
from ..files.outputs import replacing_file, working_directory
from ._shared import options
from ._shared.bad_input import OneLineGroup, explaining_interruption, importing_extra
from ._shared.display import create_bar
from ._shared.options import CONFIG_OVERRIDES, parse_overrides
from .catalogues import print_rows
from .training import set_up_gpu

if TYPE_CHECKING:
    from ..studies.planning import Plan
    from ..studies.runs import Run
    from ..studies.study_config import Study


_MADE_BY = "spacy biomed study"

study = typer.Typer(
    cls=OneLineGroup,
    help="""Run experiments of many trainings, such as papers' tables, and score pipelines of tasks.

    Examples: python -m spacy biomed study list

    python -m spacy biomed study run starter_pairs metrics/starter_pairs
    """,
)


@study.command(context_settings=CONFIG_OVERRIDES)
def run(
    context: typer.Context,
    study: str = typer.Argument(help="Name that `study list` shows, or a file (.cfg)."),
    output: Path = typer.Argument(None, help="Folder for the report, the runs and their scores."),
    corpora_dir: Path = options.CORPORA_DIR,
    jobs: int = typer.Option(1, min=1, help="Trainings at the same time, each in a process."),
    gpu_ids: str = typer.Option("", help="GPUs with commas between them; else the CPU."),
    prepare: bool = typer.Option(
        False, "--prepare", help="First convert the corpora that are not; without OUTPUT only that."
    ),
    assets_dir: Path = typer.Option(
        Path("assets"), help="Folder of the published corpora, for --prepare."
    ),
    allow_missing: bool = typer.Option(
        False, "--allow-missing", help="Leave the cells of missing corpora and encoders empty."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Check, and say what is to be run."),
) -> None:
    """Run a study, such as a table of a paper: encoders by corpora, learning rates and seeds.

    Everything is checked before the first training. If the study was stopped, give the same
    command again: finished runs are kept. Override settings as in spacy train: --grid.epochs 1.

    Example: python -m spacy biomed study run rohanian_table_1 --prepare

    Example: python -m spacy biomed study run rohanian_table_1 metrics/rohanian_table_1
    --allow-missing
    """
    with importing_extra("training needs PyTorch"):
        from torch import cuda

        from ..pipeline.pipeline_loading import use_gpu
        from ..studies.planning import find_missing_corpora, plan_study, prepare_corpora
        from ..studies.study_config import find_study, read_study
    settings = read_study(study, parse_overrides(context))
    gpus = _read_gpus(gpu_ids)
    if prepare:
        prepare_corpora(
            settings, corpora_dir, assets_dir, lambda folder: typer.echo(f"Converting {folder}")
        )
        missing = find_missing_corpora(settings, corpora_dir)
        for setting, problem in missing.items():
            typer.echo(f"{setting}: {problem}")
        total = len(settings.corpora)
        typer.echo(f"✔ {total - len(missing)} of {total} corpora are in {corpora_dir}")
    if output is None:
        if prepare:
            return
        raise BiomedError("give OUTPUT, the folder for the report, or --prepare")
    plan = plan_study(settings, corpora_dir, allow_missing=allow_missing)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if dry_run:
        total, left = len(plan.runs), len(plan.find_open(output))
        title = settings.study.title
        console.print(f"{title}: {total} runs, {total - left} finished, {left} to make")
        for setting, problem in plan.missing.items():
            console.print(f"{setting}: {problem}")
        return
    absent = [gpu for gpu in gpus if gpu >= cuda.device_count()]
    for gpu in absent or gpus[: jobs == 1]:  # before a folder is made
        use_gpu(gpu, "--gpu-ids")
    folders = {corpus.folder for run in plan.runs.values() for corpus in run.corpora.values()}
    encoders = {run.encoder for run in plan.runs.values()}
    sources: list[Path | str] = [find_study(study), *folders, *encoders]
    with explaining_interruption(), working_directory(output, _MADE_BY, sources):
        run_and_show(settings, plan, output, corpora_dir, console, jobs=jobs, gpus=gpus)


def run_and_show(
    study: Study, plan: Plan, output: Path, corpora_dir: Path, console: Console, **options: Any
) -> None:
    """Run a study in its locked folder with a line for each run, and print the report."""
    from ..studies.report import FILES, MARKDOWN, OTHERS
    from ..studies.study import run_study

    total = len(plan.find_open(output))
    with create_bar(console) as bar:
        task = bar.add_task("Training", total=total)

        def show(run: Run) -> None:
            bar.advance(task)
            console.print(f"{bar.tasks[task].completed:.0f}/{total}: {run.describe()}")

        run_study(study, plan, output, corpora_dir=corpora_dir, progress=show, **options)
    printed, _, _ = (output / MARKDOWN).read_text(encoding="utf8").partition(f"## {OTHERS}")
    console.print(printed.rstrip())
    console.print(f"✔ Wrote {', '.join(FILES[:-1])} and {FILES[-1]} to {output}")


@study.command("list")
def list_studies(corpora_dir: Path = options.CORPORA_DIR) -> None:
    """List the studies that ship, the data that each needs, and what of it is there.

    Example: python -m spacy biomed study list
    """
    with importing_extra("studies need PyTorch"):
        from ..studies.planning import list_needs
        from ..studies.study_config import list_studies, read_study
    rows = []
    for name, path in list_studies().items():
        study = read_study(path)
        cells = [
            ", ".join(name for name, found in needs.items() if found is is_there)
            for needs, is_there in product(list_needs(study, corpora_dir), (True, False))
        ]
        rows.append([name, study.study.title, *cells])
    headers: dict[str, dict] = {"Name": {"style": "bold", "no_wrap": True}, "Title": {}}
    headers |= {"Corpora": {}, "Missing corpora": {}, "Encoders": {}, "Missing encoders": {}}
    print_rows(headers, rows)


def _read_gpus(text: str) -> list[int]:
    numbers = options.split_names(text)
    for number in numbers:
        if not number.isdecimal():
            raise BiomedError(f"--gpu-ids {text}: '{number}' is not the number of a GPU; give 0,1")
    return [int(number) for number in numbers]


@study.command(context_settings=CONFIG_OVERRIDES)
def distillation(
    context: typer.Context,
    recipe: Path = typer.Argument(help="Distillation recipe; every objective replaces its own."),
    output: Path = typer.Argument(help="Folder for the students, and the study's report and runs."),
    study: str = typer.Option(
        None, help="Study that gets a row for each student: a name or a file (.cfg)."
    ),
    objectives: str = typer.Option(None, help="Some of the objectives; by default all."),
    corpora_dir: Path = options.CORPORA_DIR,
) -> None:
    """Distil the recipe's student by every objective, and study these students.

    They are compared with the same student after as many steps of masked language modelling alone,
    and with the rows of the study, such as the teacher. Without --study they are only trained. If
    this was stopped, give the same command again: it resumes. Override settings of the recipe as in
    spacy train: --training.steps 2000.

    Example: python -m spacy biomed study distillation
    configs/language_models/starter_from_teacher.cfg metrics/distillation --paths.text texts.txt
    --paths.teacher assets/encoders/starter-en --study starter_encoders
    """
    overrides = parse_overrides(context)
    with importing_extra("training needs PyTorch"):
        from ..language_models.objectives import OBJECTIVES
        from ..language_models.recipe import DistillationRecipe, read_recipe
        from ..language_models.text_sources import read_documents
        from ..studies.distillation_study import make_students
        from ..studies.planning import plan_study
        from ..studies.study_config import Row, find_study, read_study
    settings = read_study(study) if study else None
    if settings is not None:
        plan_study(settings, corpora_dir)  # before hours of training, not after them
    console = Console(highlight=False, markup=False, soft_wrap=True)
    read = read_recipe(recipe, DistillationRecipe, overrides)
    # Errors in the text are reported before the first student is trained.
    documents = read_documents(read.text.paths, text_field=read.text.field)
    if not any([text.strip() for text in documents]):
        raise read.error("text.paths", "leaves no document for training; give more text")
    sources: list[Path | str] = [recipe, *read.text.paths, read.teacher.name]
    if study:
        sources.append(find_study(study))
    with explaining_interruption(), working_directory(output, _MADE_BY, sources):
        students = make_students(
            read,
            output,
            options.split_names(objectives) if objectives else tuple(OBJECTIVES),
            console=console,
            progress=lambda name: console.rule(name, align="left"),
        )
        if settings is None:
            console.print(f"✔ Wrote {', '.join(students)} to {output}")
            return
        rows = {name: Row(encoder=str(path)) for name, path in students.items()}
        whole = settings.model_copy(update={"rows": {**settings.rows, **rows}})
        run_and_show(whole, plan_study(whole, corpora_dir), output, corpora_dir, console)


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
    from ..studies.study import score_tasks

    set_up_gpu(gpu_id)
    # The file is created before the work, so that a bad place is reported at once.
    with nullcontext() if output is None else replacing_file(output, [pipeline]) as partial:
        found = score_tasks(load_pipeline(pipeline), part)
        if partial is not None:
            partial.write_text(json.dumps(found, indent=2) + "\n", encoding="utf8")
    rows = [(name, f"{100 * score:.2f}") for name, score in found.items()]
    msg.table(rows, aligns=("l", "r"), max_col=100)
    if output is not None:
        msg.good(f"Wrote {output}")
