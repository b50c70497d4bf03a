"""Options that studies have in common, and how they show their progress and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .number_options import above_zero

if TYPE_CHECKING:
    from rich.console import Console

BATCH_WORDS = typer.Option(None, min=1, help="Tokens in a batch; else the template's.")
LEARN_RATE = typer.Option(
    None, callback=above_zero, help="Highest learning rate; else the template's."
)
CORPORA_DIR = typer.Option(Path("corpus"), help="Folder of the converted corpora.")
GPU_ID = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU to train on; -1 for the CPU.")


def template_option(name: str | None) -> Any:
    """An option with a template that ships as its default; the command gets its file.

    Args:
        name: None where the corpus decides.
    """
    return typer.Option(name, callback=_find_template, help="Template's name, or a config to fill.")


def _find_template(template: Path | None) -> Path | None:
    from ...training.config import find_template

    return None if template is None else find_template(template)


def seeds_option(default: int) -> Any:
    return typer.Option(
        default, min=1, help="How many times to make each training: seeds 0, 1, ..."
    )


@contextmanager
def holding_output(output: Path, sources: Iterable[Path | str]) -> Iterator[None]:
    """Keep other processes out of a study's folder, and check that it is the folder of a study.

    Args:
        sources: inputs of the study.

    Raises:
        BiomedError: if the folder contains something else.
    """
    from ...outputs import working_directory

    with working_directory(output, "spacy biomed study", sources):
        yield


def create_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, soft_wrap=True)


@contextmanager
def showing_progress(console: Console, parts: int) -> Iterator[Callable[[str], None]]:
    """Show a bar; yields a function to call with the name of each part as the part begins.

    Args:
        parts: number of parts of the work.
    """
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task, done = bar.add_task("", total=parts), count()
        yield lambda part: bar.update(task, description=part, completed=next(done))


def show_written(console: Console, output: Path, table: str, *others: str) -> None:
    """Print the table that a study has written, and the names of all its files."""
    console.print((output / table).read_text(encoding="utf8"))
    *names, last = table, *others
    console.print(f"✔ Wrote {', '.join(names)} and {last} to {output}")
