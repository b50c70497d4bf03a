"""`spacy biomed push`."""

from pathlib import Path

import typer
from rich.console import Console
from rich.table import Column, Table

from ..errors import BiomedError, escape
from .install import find_wheel


def push(
    pipeline: str = typer.Argument(
        help="Pipeline: a directory that `card` wrote, or an installed package."
    ),
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
    dry_run: bool = typer.Option(
        False, "--dry-run", help="List the files that would be sent, and send nothing."
    ),
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
    shipment = prepare_shipment(pipeline, None if wheel is None else find_wheel(wheel))
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
            f"{pipeline}: {len(shipment.unclear)} licences may not allow passing it on (above); "
            "read them, and give --confirm-licences if they do"
        )
    commit = push_pipeline(shipment, repo_id, private=private)
    typer.echo(
        f"✔ Sent to {repo_id}. To get it: python -m spacy biomed pull {repo_id}@{commit} DIR"
    )
