"""Settings of a config on the command line, as in `spacy train`."""

import typer
from spacy.cli._util import NoSuchOption, parse_config_overrides

from ...errors import BiomedError, quote

# Options that typer does not know are settings of the config.
CONFIG_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def parse_overrides(context: typer.Context) -> dict[str, object]:
    """Settings by their dotted names, from the options that the command does not define."""
    _check_words(context)
    try:
        return parse_config_overrides(context.args)
    except NoSuchOption as error:  # of click, which need not be typer's
        reason = error.format_message().rstrip(".")
        raise BiomedError(f"{reason}; see `{context.command_path} --help`") from error


def _check_words(context: typer.Context) -> None:
    """Raise BiomedError if a word is neither a setting nor its value, or is not UTF-8."""
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
