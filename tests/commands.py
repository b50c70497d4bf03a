"""Run a command of `spacy biomed` in this process, and read what it prints."""

from typing import Any

from typer.testing import CliRunner, Result

from spacy_biomed.cli import app


def call(*arguments: object, columns: int | None = None, **options: Any) -> Result:
    """Run a command, in a terminal of so many columns; further options as in `CliRunner.invoke`."""
    env = {"COLUMNS": str(columns) if columns else None}
    return CliRunner().invoke(app, list(map(str, arguments)), env=env, **options)


def run(*arguments: object, columns: int = 200, **options: Any) -> str:
    """Run a command that succeeds, and return what it prints."""
    result = call(*arguments, columns=columns, **options)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def refuse(*arguments: object, **options: Any) -> str:
    """Run a command that refuses its input, and return the line."""
    return error_line(call(*arguments, **options))


def error_line(result: Any) -> str:
    """Check that a command printed one line about bad input, and return the line without its mark.

    result: of typer's `CliRunner`.
    """
    assert result.exit_code == 1, (result.output, result.exception)
    (line,) = result.stderr.splitlines()
    assert line.startswith("✘ ")
    return line.removeprefix("✘ ")
