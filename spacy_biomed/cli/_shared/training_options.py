"""Options of the commands that train, and the name of the studies among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from .number_options import LARGEST_SEED, above_zero

STUDY = "spacy biomed study"  # as the marker of a study's folder names the command

TASKS = typer.Option(..., help="Converted corpora: names with commas between them.")
CORPORA_DIR = typer.Option(Path("corpus"), help="Folder of the converted corpora.")
ENCODER = typer.Option(..., help="Catalogue name, hub id or directory.")
BATCH_WORDS = typer.Option(None, min=1, help="Tokens in a batch; else the template's.")
LEARN_RATE = typer.Option(
    None, callback=above_zero, help="Highest learning rate; else the template's."
)
SEED = typer.Option(0, min=0, max=LARGEST_SEED, help="Seed of everything random.")
GPU_ID = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU to train on; -1 for the CPU.")


def template_option(name: str | None) -> Any:
    """An option for a template that ships, or None for the corpus's; the command gets its file."""
    return typer.Option(name, callback=_find_template, help="Template's name, or a config to fill.")


def _find_template(template: Path | None) -> Path | None:
    from ...training.config import find_template

    return None if template is None else find_template(template)
