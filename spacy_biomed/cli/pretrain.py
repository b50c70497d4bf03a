"""`spacy biomed pretrain`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer


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
    from rich.console import Console

    from ._shared.overrides import parse_overrides

    overrides = parse_overrides(context)
    run, read_recipe, schema = _import_pretraining()
    report = run(read_recipe(recipe, schema, overrides), Console())
    if report is not None:
        typer.echo(f"✔ Wrote {report}")


def _import_pretraining() -> tuple[Callable[..., Any], Callable[..., Any], type]:
    from ..errors import BiomedError

    try:
        from ..language_models.pretraining import pretrain as run
        from ..language_models.recipe import PretrainingRecipe, read_recipe
    except ImportError as error:
        raise BiomedError(
            f"pretraining needs PyTorch and transformers ({error}): "
            "pip install 'spacy-biomed[train]'"
        ) from error
    return run, read_recipe, PretrainingRecipe
