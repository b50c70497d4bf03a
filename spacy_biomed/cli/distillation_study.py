"""`spacy biomed study distillation`."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from ..files.outputs import working_directory
from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.overrides import parse_overrides
from ._shared.training_options import CORPORA_DIR, STUDY
from .init_config import split_names
from .study_runs import run_and_show


def distillation(
    context: typer.Context,
    recipe: Path = typer.Argument(
        help="Recipe of a distillation; every objective replaces its own."
    ),
    output: Path = typer.Argument(help="Folder for the students, and the study's report and runs."),
    study: str = typer.Option(
        None, help="Study that gets a row for each student: a name or a file (.cfg)."
    ),
    objectives: str = typer.Option(None, help="Some of the objectives; by default all."),
    corpora_dir: Path = CORPORA_DIR,
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
        from ..language_models.distillation_recipe import DistillationRecipe
        from ..language_models.objectives import OBJECTIVES
        from ..language_models.recipe import read_recipe
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
    with explaining_interruption(), working_directory(output, STUDY, sources):
        students = make_students(
            read,
            output,
            split_names(objectives) if objectives else tuple(OBJECTIVES),
            console=console,
            progress=lambda name: console.rule(name, align="left"),
        )
        if settings is None:
            console.print(f"✔ Wrote {', '.join(students)} to {output}")
            return
        rows = {name: Row(encoder=str(path)) for name, path in students.items()}
        whole = settings.model_copy(update={"rows": {**settings.rows, **rows}})
        run_and_show(whole, plan_study(whole, corpora_dir), output, corpora_dir, console)
