"""Wheels and the hub: `spacy biomed build`, `install`, `push` and `pull`."""

import subprocess
import sys
from pathlib import Path
from zipfile import is_zipfile

import typer
from rich.console import Console
from rich.table import Column, Table
from wasabi import msg

from ..errors import BiomedError, escape, list_choices, quote
from ._shared import options
from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.options import parse_overrides


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
    gpu_id: int = options.GPU_ID,
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


def install(
    folders: list[Path] = typer.Argument(help="Folders that `spacy package` wrote to, or wheels."),
) -> None:
    """Install the wheels under the folders into this environment, offline.

    Requirements of the wheels are not fetched: this environment trained them and has them.

    Example: python -m spacy biomed install packages/ncbi_disease
    """
    wheels = [_find_wheel(folder) for folder in folders]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--force-reinstall", *map(str, wheels)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        names = ", ".join(str(wheel) for wheel in wheels)
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        reason = said[0].removeprefix("ERROR: ") if said else f"pip's status is {done.returncode}"
        raise BiomedError(f"{names}: not installed ({escape(reason, 200)})")
    for wheel in wheels:
        msg.good(f"Installed {wheel.name}")
    names = " ".join(wheel.name for wheel in wheels)
    typer.echo(
        "To install elsewhere, build the wheel of spacy-biomed (which is not on PyPI) in its clone "
        "and name its folder:\n"
        "    python -m pip wheel --no-deps -w wheels .\n"
        f"    python -m pip install --find-links wheels {names}"
    )


def _find_wheel(folder: Path) -> Path:
    """A wheel, or the newest under a folder; raise BiomedError if none is there or sound."""
    wheels = [folder] if folder.is_file() else folder.rglob("*.whl")
    found = sorted(wheels, key=lambda path: path.stat().st_mtime)
    if not found:
        raise BiomedError(
            f"{folder}: no wheel there; `python -m spacy package PIPELINE {folder} --build "
            "wheel` builds one"
        )
    wheel = found[-1]
    if not is_zipfile(wheel):
        raise BiomedError(f"{wheel}: not a wheel, or a damaged one; build or copy it again")
    return wheel


def push(
    pipeline: str = typer.Argument(help="Directory that `card` wrote, or installed package."),
    repo_id: str = typer.Argument(help="Repository on the hub, such as me/en_biomed_ner."),
    wheel: Path = typer.Option(
        None, help="Folder that `spacy package` wrote to: its wheel is sent too."
    ),
    private: bool = typer.Option(False, "--private", help="Only to a private repository."),
    confirm_licences: bool = typer.Option(
        False,
        "--confirm-licences",
        help="You have read the licences that are listed, and they allow you to send this.",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="List the files, and send nothing."),
) -> None:
    """Send a pipeline, its model card and its wheel to the Hugging Face Hub.

    All files are listed with their sizes before they are sent. Without --private, everybody can
    download them.

    Example: python -m spacy biomed push pipelines/ncbi_disease me/en_ncbi_disease --dry-run
    """
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    from ..packaging.hub import prepare_shipment, push_pipeline

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise BiomedError(escape(str(error), 250)) from error
    shipment = prepare_shipment(pipeline, None if wheel is None else _find_wheel(wheel))
    table = Table("file", Column("bytes", justify="right"), title=shipment.title, box=None)
    sizes = {name: path.stat().st_size for name, path in shipment.files.items()}
    for name, size in {**sizes, f"{len(sizes)} files": sum(sizes.values())}.items():
        table.add_row(name, f"{size:,}")
    Console().print(table)
    for line in shipment.unclear:
        typer.echo(f"Licence to confirm: {line}")
    if dry_run:
        typer.echo(f"Nothing was sent. Without --dry-run, these files go to {repo_id}.")
        return
    if shipment.unclear and not confirm_licences:
        raise BiomedError(
            f"{pipeline}: licences that may not allow passing it on: {len(shipment.unclear)} "
            "(above); read them, and give --confirm-licences if they allow it"
        )
    commit = push_pipeline(shipment, repo_id, private=private)
    typer.echo(
        f"✔ Sent to {repo_id}. To get it: python -m spacy biomed pull {repo_id}@{commit} DIR"
    )


def pull(
    source: str = typer.Argument(
        metavar="REPO_ID@REVISION", help="Repository on the hub, and the hash of a commit."
    ),
    output: Path = typer.Argument(help="Directory to write the pipeline to."),
) -> None:
    """Download a pipeline from the Hugging Face Hub, and check its files. It is not loaded.

    Example: python -m spacy biomed pull
    me/en_ncbi_disease@0123456789abcdef0123456789abcdef01234567 pipelines/ncbi_disease
    """
    from ..packaging.hub import pull_pipeline

    repo_id, sign, revision = source.partition("@")
    if not (repo_id and sign):
        raise BiomedError(f"{quote(source)}: write REPO_ID@REVISION, with the hash of a commit")
    meta = pull_pipeline(repo_id, revision, output)
    typer.echo(f"✔ {output}: {meta['lang']}_{meta['name']} {meta['version']}, files as listed")
