"""`spacy biomed build`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import typer
from wasabi import msg

from ..errors import BiomedError, list_choices, quote
from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.overrides import parse_overrides
from ._shared.training_options import GPU_ID


def build(
    context: typer.Context,
    recipe: Path = typer.Argument(help="Recipe, such as configs/pipelines/en_biomed_ner.cfg."),
    output: Path = typer.Option(
        None, "--output", "-o", file_okay=False, help="Folder of the build; else build/RECIPE."
    ),
    step: list[str] = typer.Option(
        [],
        help="corpora, teachers, students, wheels or ship; repeatable. Else all but ship, which "
        "puts the pipelines into the folders that the recipe names.",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the commands; run none."),
    gpu_id: int = GPU_ID,
) -> None:
    """Build the pipelines of a recipe: from corpora, by teachers and students, to wheels.

    Commands whose inputs and outputs have not changed are skipped, so that a build that was stopped
    continues with the same command. Override settings of the recipe as in spacy train:
    --texts.words 100000.

    Example: python -m spacy biomed build configs/pipelines/en_biomed_ner.cfg
    """
    overrides = parse_overrides(context)
    with importing_extra("building pipelines needs PyTorch"):
        from ..packaging import building
        from ..packaging.pipeline_recipe import read_pipeline_recipe
    for name in step:
        if name not in building.STEPS:
            raise BiomedError(f"--step {quote(name)}: {list_choices(name, building.STEPS)}")
    steps = step or list(building.STEPS[:-1])
    read = read_pipeline_recipe(recipe, overrides)
    output = output or Path("build", recipe.stem)
    if dry_run:
        for command in building.plan(read, output, gpu_id):
            if command.step in steps:
                typer.echo(command)
        return

    def run(command: building.Command) -> None:
        msg.divider(command.step)
        typer.echo(f"$ {command}")
        building.run_command(command)

    def skip(command: building.Command) -> None:
        msg.info(f"unchanged: {', '.join(map(str, command.outputs))}")

    with explaining_interruption():
        try:
            building.build(read, output, steps=steps, gpu_id=gpu_id, run=run, skipped=skip)
        except subprocess.CalledProcessError as error:  # it has printed what is wrong
            raise typer.Exit(error.returncode) from error
    msg.good(f"{output}: {', '.join(read.students)}")
