"""The line that a command prints about bad input."""

from typing import Any


def error_line(result: Any) -> str:
    """Check that a command printed one line about bad input, and return the line without its mark.

    result: of typer's `CliRunner`.
    """
    assert result.exit_code == 1, (result.output, result.exception)
    (line,) = result.stderr.splitlines()
    assert line.startswith("✘ ")
    return line.removeprefix("✘ ")
