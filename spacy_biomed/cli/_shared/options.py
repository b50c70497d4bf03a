"""Options that several commands have, and the checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from ...bulk.time_limit import DEFAULT_SECONDS
from ...errors import BiomedError

if TYPE_CHECKING:
    from typing import Literal

    from ...files.records import Layout


def _checking(
    is_right: Callable[[float], bool], what: str
) -> Callable[[float | None], float | None]:
    """A callback that refuses other numbers, and NaN, which typer's min and max let pass."""

    def check(value: float | None) -> float | None:
        if value is not None and not is_right(value):
            raise typer.BadParameter(f"{value} is not a number {what}")
        return value

    return check


above_zero = _checking(lambda value: 0 < value < math.inf, "above 0")
at_least_zero = _checking(lambda value: 0 <= value < math.inf, "of 0 or more")
from_0_to_1 = _checking(lambda value: 0 <= value <= 1, "from 0 to 1")

CORPORA_DIR = typer.Option(Path("corpus"), help="Folder of the converted corpora.")
GPU_ID = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU to train on; -1 for the CPU.")
TEXT_COLUMN = typer.Option(
    "text", "--text-column", "--text-field", help="Column or JSON field with the text."
)
KEEP = typer.Option([], help="Other column or JSON field to write too; repeatable.")
ENCODING = typer.Option("utf-8", help="Encoding of text files, such as cp1252 or utf-16.")
DELIMITER = typer.Option(
    None, help="Character between the fields of CSV, such as ;. Else a tab in .tsv, and a comma."
)
QUOTING = typer.Option(
    "minimal", help="minimal, or none if quotation marks in CSV are characters like any other."
)
CODE = typer.Option(
    None, "--code", "-c", help="Python file with what the pipeline needs, such as own components."
)
MAX_ERRORS = typer.Option(
    None,
    min=0,
    help="How many documents may fail: with more, the run stops. Without a number it does all "
    "others, and ends with status 1.",
)
MAX_SECONDS = typer.Option(
    DEFAULT_SECONDS, callback=above_zero, help="Seconds for a text, after which it fails."
)
KINDS = typer.Option(
    [], "--kind", help="What a label of the pipeline stands for, as TWIN=name; repeatable."
)
PATTERNS = typer.Option(
    None,
    "--patterns/--no-patterns",
    help="Find dates, numbers and addresses by their form too; else where the language has "
    "patterns.",
)


def read_layout(encoding: str, delimiter: str | None, quoting: str) -> Layout:
    """How text files are written, from the options."""
    from ...files.records import Layout

    if delimiter in ("\\t", "tab"):
        delimiter = "\t"
    return Layout(encoding, delimiter, cast("Literal['minimal', 'none']", quoting)).check()


def read_kinds(given: list[str]) -> dict[str, str]:
    """The kinds of labels from LABEL=kind; raises BiomedError if one is written otherwise."""
    for one in given:
        if "=" not in one.strip("="):
            raise BiomedError(f"--kind {one}: write LABEL=kind, such as TWIN=name")
    return {label: kind for label, _, kind in (one.rpartition("=") for one in given)}


def split_names(names: str) -> list[str]:
    """Names that are given with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()]
