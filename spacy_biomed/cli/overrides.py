"""Settings of a config given on the command line, as `spacy train` takes them."""

from __future__ import annotations

from typing import Any

import typer


def parse_overrides(context: typer.Context) -> dict[str, Any]:
    """Settings by their dotted names, from the options that the command does not know.

    RAISES BiomedError: if one is not of the form `--section.setting value`.
    """
    from spacy.cli._util import NoSuchOption, parse_config_overrides

    from ..errors import BiomedError

    try:
        return parse_config_overrides(context.args)
    except NoSuchOption as error:  # of a click that need not be typer's
        reason = error.format_message().rstrip(".")
        raise BiomedError(f"{reason}; see `{context.command_path} --help`") from error
