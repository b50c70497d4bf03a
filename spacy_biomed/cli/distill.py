"""`spacy biomed distill`."""

from pathlib import Path

import typer
from rich.console import Console

from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.overrides import parse_overrides


def distill(
    context: typer.Context,
    recipe: Path = typer.Argument(help="Recipe, such as configs/language_models/tinybiobert.cfg."),
) -> None:
    """Train a small encoder to compute what a larger encoder computes, on any text.

    If a run was killed, give the same command again: it resumes from the last checkpoint. Override
    settings of the recipe as in spacy train: --teacher.name biobert. For several GPUs or machines
    begin with `torchrun --nproc_per_node N -m spacy biomed distill` or `accelerate launch -m spacy
    biomed distill`.

    Example: python -m spacy biomed distill configs/language_models/starter_from_teacher.cfg
    --paths.text texts.txt --paths.teacher biobert --paths.output encoders/mine
    """
    overrides = parse_overrides(context)
    with importing_extra("distillation needs PyTorch and transformers"):
        from ..language_models.distillation import distill as run
        from ..language_models.distillation_recipe import DistillationRecipe
        from ..language_models.recipe import read_recipe
    with explaining_interruption():
        report = run(read_recipe(recipe, DistillationRecipe, overrides), Console())
    if report is not None:
        typer.echo(f"✔ Wrote {report}")
