"""What is wrong with a training config, and in which line of it."""

import re
from collections.abc import Iterator
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from thinc.api import ConfigValidationError

from ..errors import BiomedError, escape, suggest
from .config_lines import (
    begin_message,
    explain_syntax,
    find_unknown_name,
    locate,
    locate_mentioned,
    locate_string,
    suggest_extra,
)

# What messages of spaCy and thinc begin with, the setting that is wrong, and how.
_MESSAGES = (
    (r"^\[E048\]", "nlp.lang", "spaCy knows no such language; give its code, such as en or es"),
    (
        r"^\[E884\]",
        "initialize.vectors",
        "no vectors there; leave them out, or give a pipeline",
    ),
    (
        r"dimension 'nO' for model 'encoder_listener': value unset",
        "nlp.pipeline",
        "no encoder is before a head that listens to one; put biomed_transformer first, and give "
        'its name, or "*", as the upstream of each head',
    ),
)
# What there is instead of a name that spaCy does not find, in its message.
_AVAILABLE = re.compile(r"Available (?:names|factories|components): (.*)")


@contextmanager
def explaining_config_errors(path: Path) -> Iterator[None]:
    """Raise spaCy's errors about a config, and about what it names, with the line of the config."""
    text = path.read_text(encoding="utf8")
    try:
        yield
    except BiomedError as error:
        line = locate_mentioned(text, str(error))
        if line is None or str(error).startswith(f"{path}:"):
            raise
        raise BiomedError(f"{path}:{line}: {error}") from error
    except (ConfigParserError, ValueError, ImportError, OSError) as error:
        explained = explain_config_error(path, text, error)
        if explained is None:
            raise
        raise BiomedError(explained) from error


def explain_config_error(path: Path, text: str, error: Exception) -> str | None:
    """Say in one line what spaCy finds wrong with a config; None if it is about other things."""
    message = str(error)
    if isinstance(error, ConfigValidationError) and error.errors:
        line, problem = _explain_validation(text, error)
    elif isinstance(error, ConfigValidationError | ConfigParserError):
        line, problem = explain_syntax(text, error)
    elif unknown := find_unknown_name(message):
        line, problem = _explain_unknown_name(text, message, *unknown)
    else:
        known = ((setting, why) for begin, setting, why in _MESSAGES if re.search(begin, message))
        setting, why = next(known, ("", ""))
        if not setting:
            return None
        line, problem = locate(text, setting), f"{setting}: {why}"
    return f"{begin_message(path, line)}{problem}"


def _explain_unknown_name(text: str, message: str, name: str, kind: str) -> tuple[int | None, str]:
    found = _AVAILABLE.search(message)
    known = found.group(1).split(", ") if found else []
    if kind == "factories":  # spaCy lists only those that it has loaded
        known += [point.name for point in entry_points(group="spacy_factories")]
    advice = (
        suggest_extra(name)
        or suggest(name, known)
        or "check its spelling, or install the package that provides it (or --code FILE)"
    )
    return locate_string(text, name), f"'{name}' is not among the {kind}; {advice}"


def _explain_validation(text: str, error: ConfigValidationError) -> tuple[int | None, str]:
    first = next(iter(error.errors))
    path = [*(error.parent or "").split("."), *map(str, first.get("loc", ()))]
    setting = ".".join(part for part in path if part)
    section, _, key = setting.rpartition(".")
    problem = str(first.get("msg", "")).removeprefix("at root: ")
    problem = re.sub(r"<class '(\w+)'>", r"\1", problem)
    problem = re.sub(r"typing\.Literal\[(.*?)\]", r"one of \1", problem)
    line = (
        locate(text, setting)
        or locate_string(text, problem.rsplit(" ", 1)[-1])
        or locate(text, section)
    )
    known = [name for name in error.config or () if name != key] if "unexpected" in problem else []
    advice = suggest(key, known) or "correct it, or leave it out for the default"
    return line, f"{escape(setting)}: {escape(problem, 160)}; {advice}"
