"""Bad input and interruptions of `spacy biomed ...` in one line, with exit status 1 and 130."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from ...errors import BiomedError, escape, install_command

# Characters of a line that is printed: messages name paths and quote data of any length.
LONGEST_LINE = 1000

# spaCy's error of a text longer than `nlp.max_length`.
_TOO_LONG = re.compile(r"\[E088\] Text of length (\d+) exceeds maximum of (\d+)")

# typer exports this class of click under no name, only a subclass.
UsageError: Any = typer.BadParameter.__base__


class OneLineGroup(TyperGroup):
    """Commands that print bad input in one line on standard error and exit with status 1.

    Bad input is a `BiomedError`, an argument that click refuses, a text that is too long for
    spaCy, or a file named on the command line that the operating system refuses. Every other
    exception passes.
    """

    def invoke(self, ctx: Any) -> object:
        try:
            return super().invoke(ctx)
        except (ValueError, UsageError, OSError) as error:
            line = explain(error, ctx)
            if line is None:
                raise
            print(f"✘ {escape(line, LONGEST_LINE)}", file=sys.stderr)
            raise typer.Exit(1) from error


@contextmanager
def explaining_interruption() -> Iterator[None]:
    """If the work within the context, which can be continued, is interrupted, say how."""
    try:
        yield
    except KeyboardInterrupt:
        print("Interrupted: run the same command again to continue", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def importing_extra(needed_for: str) -> Iterator[None]:
    """Say which extra to install if an import within the context, needed for this, fails."""
    try:
        yield
    except ImportError as error:
        raise BiomedError(f"{needed_for} ({error}): {install_command('train')}") from error


def explain(error: BaseException, ctx: typer.Context) -> str | None:
    """Say in one line what is wrong, where, and what to do; None if the input is not the cause."""
    if isinstance(error, OSError):
        return explain_os_error(error, sys.argv[1:])
    if isinstance(error, UsageError):
        command = (error.ctx or ctx).command_path
        problem = error.format_message().replace("Value error, ", "")  # pydantic's word for it
        return f"{problem.rstrip('.')}; see `{command} --help`"
    if isinstance(error, BiomedError):
        return str(error)
    if too_long := _TOO_LONG.match(str(error)):
        length, limit = map(int, too_long.groups())
        return f"a text of {length:,} characters, and the pipeline reads {limit:,}; divide it"
    return None


def explain_os_error(error: OSError, arguments: list[str]) -> str | None:
    """Explain an error about a file that the user named, or that is in or above a named path."""
    values = (word.partition("=")[2] if word.startswith("-") else word for word in arguments)
    named = [Path(value).absolute() for value in values if value]
    for name in (error.filename, error.filename2):
        if not isinstance(name, str):
            continue
        path = Path(name).absolute()
        if any(path.is_relative_to(other) or other.is_relative_to(path) for other in named):
            return f"{name}: {error.strerror}; check the path and the permissions"
    return None
