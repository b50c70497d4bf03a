"""Bad input in one line, whichever `spacy` command it was given to."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from configparser import InterpolationError
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import typer
from catalogue import RegistryError
from spacy.cli._util import show_validation_error
from thinc.api import ConfigValidationError
from typer.core import TyperGroup

from ...errors import BiomedError, escape

# spaCy's commands that read a config and have no other job than to use it.
COMMANDS_WITH_CONFIG = ("assemble", "init_pipeline", "pretrain", "train")

# Characters of a line that is printed: messages name paths and quote data of any length.
LONGEST_LINE = 1000

# Newer typers carry a click of their own; this is the class in whichever one it uses.
UsageError: Any = typer.BadParameter.__mro__[1]


class OneLineGroup(TyperGroup):
    """Sub-commands whose wrong arguments are bad input like any other: one line, exit status 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            command = (error.ctx or ctx).command_path
            # What a group without a sub-command gives is all of its help.
            is_help = type(error).__name__ == "NoArgsIsHelpError"
            reason = "Missing command" if is_help else error.format_message().rstrip(".")
            raise BiomedError(f"{reason}; see `{command} --help`") from error


def watch_commands() -> None:
    """Print bad input in one line from now on; every other exception keeps its traceback."""
    sys.excepthook = _print_bad_input
    for name in COMMANDS_WITH_CONFIG:
        module: Any = importlib.import_module(f"spacy.cli.{name}")
        module.show_validation_error = explain_validation_error


def explain(error: BaseException, arguments: list[str]) -> str | None:
    """Say in one line what is wrong, where, and what to do; None if it is not the input.

    Args:
        arguments: the command line, from the command's name on.
    """
    config = find_config(arguments)
    if isinstance(error, BiomedError):
        return f"{_place(config, str(error))}{error}"
    if isinstance(error, OSError) and (config or arguments[:1] == ["biomed"]):
        return _explain_os_error(error, arguments)
    if arguments[:1] == ["project"] and _is_of_variables(error):
        return (
            "project.yml: a variable ends the quotation of a command, or stands for another; leave "
            "quotation marks, backslashes and $ out of the values of --vars"
        )
    return None


def _is_of_variables(error: BaseException) -> bool:
    """Whether spaCy could not put the variables of a project into its commands."""
    of_shlex = isinstance(error, ValueError) and str(error) in (
        "No closing quotation",
        "No escaped character",
    )
    return of_shlex or isinstance(error, InterpolationError | ConfigValidationError)


def find_config(arguments: list[str]) -> Path | None:
    """The config that a command trains or assembles, if it is one with a name of ours in it.

    Other people's configs are left to spaCy: its way of reporting is theirs to expect.
    """
    if arguments[:2] == ["biomed", "train"]:
        arguments = arguments[1:]
    if arguments[:1] == ["biomed"]:
        return None
    for argument in arguments[1:]:
        path = Path(argument)
        if path.suffix == ".cfg" and path.is_file():
            ours = b"biomed_" in path.read_bytes()
            return path if ours else None
    return None


def _print_bad_input(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    line = explain(error, sys.argv[1:])
    if line is None:
        _other_errors(kind, error, traceback)
    else:
        print(f"✘ {escape(line, LONGEST_LINE)}", file=sys.stderr)


_other_errors = sys.excepthook


@contextmanager
def explain_validation_error(*args: Any, **settings: Any) -> Iterator[None]:
    """spaCy's own, except that an error in a config of ours is told in one line, with its place."""
    from ...training.config_errors import explain_config_error

    with show_validation_error(*args, **settings):
        try:
            yield
        except (ConfigValidationError, InterpolationError, RegistryError, ValueError) as error:
            config = find_config(sys.argv[1:])
            line = explain_config_error(config, error) if config else None
            if line is None or isinstance(error, BiomedError):
                raise
            raise BiomedError(line) from error


def _place(config: Path | None, message: str) -> str:
    """Where in the config stands what the message is about: `train.cfg:12: `; "" if nowhere."""
    if config is None or message.startswith(f"{config}:"):
        return ""
    from ...training.config_errors import locate_mentioned

    line = locate_mentioned(config.read_text(encoding="utf8"), message)
    return f"{config}:{line}: " if line else ""


def _explain_os_error(error: OSError, arguments: list[str]) -> str | None:
    """For a file that the user named, lies in a folder that the user named, or is to hold it."""
    named = [Path(argument).absolute() for argument in arguments if not argument.startswith("-")]
    for name in (error.filename, error.filename2):
        if not isinstance(name, str):
            continue
        path = Path(name).absolute()
        if any(path.is_relative_to(other) or other.is_relative_to(path) for other in named):
            return f"{name}: {error.strerror}; check the path and the permissions"
    return None
