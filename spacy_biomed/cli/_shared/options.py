"""Options that several commands have, and the checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer
from spacy.cli._util import NoSuchOption, parse_config_overrides

from ...bulk.time_limit import DEFAULT_SECONDS
from ...errors import BiomedError, quote

if TYPE_CHECKING:
    from ...files.records import Layout


def _checking(holds: Callable[[float], bool], what: str) -> Callable[[float | None], float | None]:
    """A callback that refuses other numbers, and NaN, which typer's min and max let pass."""

    def check(value: float | None) -> float | None:
        if value is not None and not holds(value):
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
Quoting = Literal["minimal", "none"]
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


def read_layout(encoding: str, delimiter: str | None, quoting: Quoting) -> Layout:
    """How text files are written, from the options."""
    from ...files.records import Layout

    if delimiter in ("\\t", "tab"):
        delimiter = "\t"
    return Layout(encoding, delimiter, quoting).check()


def split_names(names: str) -> list[str]:
    """Names that are given with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()]


def split_pair(option: str, pair: str, form: str) -> tuple[str, str]:
    """The two sides of the value of an option that is written in a form such as LABEL=NAME."""
    left, _, right = pair.partition("=")
    if not (left and right):
        raise BiomedError(f"{option} {quote(pair)}: write {form}")
    return left, right


def list_given(context: typer.Context, names: Iterable[str]) -> list[str]:
    """The parameters among these that the command line gives, as options."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    return [f"--{name.replace('_', '-')}" for name in given]


# Options that typer does not know are settings of the config.
CONFIG_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def parse_overrides(context: typer.Context) -> dict[str, object]:
    """Settings by their dotted names, from the options that the command does not define."""
    takes_value = False
    for word in context.args:
        is_setting = word.startswith("--")
        if not (is_setting or takes_value):
            raise BiomedError(
                f"Got unexpected extra argument {quote(word)}; see `{context.command_path} --help`"
            )
        # Python represents a byte that is not UTF-8 as half of a surrogate pair.
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise BiomedError(f"{quote(word)}: not UTF-8; name files in UTF-8")
        takes_value = is_setting and "=" not in word
    try:
        return parse_config_overrides(context.args)
    except NoSuchOption as error:  # of click, which need not be typer's
        reason = error.format_message().rstrip(".")
        raise BiomedError(f"{reason}; see `{context.command_path} --help`") from error
