"""What is wrong with a training config, and in which line of it."""

import re
from collections.abc import Iterator
from configparser import InterpolationError
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from catalogue import RegistryError
from thinc.api import ConfigValidationError

from ..errors import BiomedError, escape, suggest
from .config_lines import (
    find_line_number,
    find_missing_variable,
    find_unknown_name,
    locate,
    locate_mentioned,
    locate_string,
    suggest_extra,
)

# What there is instead of a name that spaCy does not find, in its message.
_OF_CONFIGS = (
    ConfigValidationError,
    InterpolationError,
    RegistryError,
    ValueError,
    ImportError,
    OSError,
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
_AVAILABLE = re.compile(r"Available (?:names|factories|components): (.*)")


@contextmanager
def explaining_config_errors(path: Path) -> Iterator[None]:
    """Raise spaCy's errors about a config, and about what it names, with the line of the config."""
    try:
        yield
    except BiomedError as error:
        text = _read(path) or ""
        line = locate_mentioned(text, str(error))
        if line is None or str(error).startswith(f"{path}:"):
            raise
        raise BiomedError(f"{path}:{line}: {error}") from error
    except _OF_CONFIGS as error:
        explained = explain_config_error(path, error)
        if explained is None:
            raise
        raise BiomedError(explained) from error


def explain_config_error(path: Path, error: Exception) -> str | None:
    """Say in one line what spaCy finds wrong with a config; None if it is about other things."""
    text = _read(path)
    if text is None:
        return None
    explained = (
        _explain_interpolation(text, error)
        or _explain_validation(text, error)
        or _explain_unknown_name(text, error)
        or _explain_by_message(text, error)
    )
    if explained is None:
        return None
    line, problem = explained
    return f"{path}:{line}: {problem}" if line else f"{path}: {problem}"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf8")
    except (OSError, UnicodeDecodeError):
        return None


def _explain_unknown_name(text: str, error: Exception) -> tuple[int | None, str] | None:
    if not isinstance(error, RegistryError | ValueError):
        return None
    message = str(error)
    unknown = find_unknown_name(message)
    if unknown is None:
        return None
    name, kind = unknown
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


def _explain_by_message(text: str, error: Exception) -> tuple[int | None, str] | None:
    for pattern, setting, problem in _MESSAGES:
        if re.search(pattern, str(error)):
            section, _, key = setting.rpartition(".")
            return locate(text, setting), f"[{section}] {key}: {problem}"
    return None


def _explain_validation(text: str, error: Exception) -> tuple[int | None, str] | None:
    if not isinstance(error, ConfigValidationError):
        return None
    if not error.errors:
        description = " ".join(f"{error.desc or error.title}".split())
        number, description = find_line_number(description), escape(description, 160)
        return number, f"{description}; correct this line" if number else description
    first = next(iter(error.errors))
    path = [*(error.parent or "").split("."), *map(str, first.get("loc", ()))]
    *sections, key = [part for part in path if part] or [""]
    section = ".".join(sections)
    problem = _plain(str(first.get("msg", "")))
    line = (
        locate(text, ".".join([*sections, key]))
        or locate_string(text, problem.rsplit(" ", 1)[-1])
        or locate(text, section)
    )
    known = [name for name in error.config or () if name != key] if "unexpected" in problem else []
    advice = suggest(key, known) or "correct it, or leave it out for the default"
    return line, f"[{escape(section)}] {escape(key)}: {escape(problem, 160)}; {advice}"


def _explain_interpolation(text: str, error: Exception) -> tuple[int | None, str] | None:
    if not isinstance(error, ConfigValidationError | InterpolationError):
        return None
    missing = find_missing_variable(str(error))
    if missing is None:
        return None
    setting, problem = missing
    section, _, key = setting.rpartition(".")
    return locate(text, setting), f"[{section}] {key}: {problem}"


def _plain(problem: str) -> str:
    """A type error in words."""
    problem = problem.removeprefix("at root: ")
    problem = re.sub(r"<class '(\w+)'>", r"\1", problem)
    return re.sub(r"typing\.Literal\[(.*?)\]", r"one of \1", problem)
