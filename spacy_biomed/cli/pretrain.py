"""`spacy biomed pretrain`."""

from pathlib import Path

import typer
from rich.console import Console

from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.overrides import parse_overrides


def pretrain(
    context: typer.Context,
    recipe: Path = typer.Argument(help="Recipe, such as configs/language_models/adapt.cfg."),
) -> None:
    """Train an encoder by masked language modelling, from scratch or from an existing encoder.

    If a run was killed, give the same command again: it resumes from the last checkpoint, with the
    result of an uninterrupted run. Override settings of the recipe as in spacy train:
    --training.steps 1000. For several GPUs or machines begin with `torchrun --nproc_per_node N -m
    spacy biomed pretrain` or `accelerate launch -m spacy biomed pretrain`.

    Example: python -m spacy biomed pretrain configs/language_models/starter_en.cfg --paths.text
    texts.txt --paths.output encoders/mine
    """
    overrides = parse_overrides(context)
    with importing_extra("pretraining needs PyTorch and transformers"):
        from ..language_models.pretraining import pretrain as run
        from ..language_models.recipe import PretrainingRecipe, read_recipe
    with explaining_interruption():
        report = run(read_recipe(recipe, PretrainingRecipe, overrides), Console())
    if report is not None:
        typer.echo(f"✔ Wrote {report}")
