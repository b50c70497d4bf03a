"""The options of commands that read documents, and what they say of those that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import typer

from ...bulk.time_limit import DEFAULT_SECONDS
from ...errors import BiomedError
from .number_options import above_zero

if TYPE_CHECKING:
    from typing import Literal

    from ...files.records import Layout

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
