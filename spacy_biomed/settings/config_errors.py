"""What is wrong with a config in one line, and where a setting, a section or a value is in it."""

import re
from collections.abc import Iterator, Mapping
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spacy.util import dict_to_dot
from thinc.api import ConfigValidationError

from ..errors import BiomedError, escape, install_command, suggest

# How similar two names are (`difflib`) of which one may be a slip.
ALMOST = 0.85

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*$")
_SETTING = re.compile(r"\s*([^\s=#\[][^=]*?)\s*=\s*(.*?)\s*$")

# Two messages of configparser.
_MISSING_VARIABLE = re.compile(
    r"option '([^']+)' in section '([^']+)' contains an interpolation key '([^']+)'"
)
_LINE_NUMBER = re.compile(r"\[line\s+(\d+)\]|line: (\d+)")

# spaCy's messages E893, E002 and E956: what could not be found.
_UNKNOWN_NAMES = (
    (r"Could not find function '(?P<name>[^']+)' in function registry '(?P<kind>\w+)'", "{kind}"),
    (r"Can't find factory for '(?P<name>[^']+)'", "factories"),
    (r"Can't find component '(?P<name>[^']+)' in \[components\]", "[components]"),
)

# spaCy's messages for its users, which have a number.
_CODED = re.compile(r"\[E\d{3,4}\] .*", re.DOTALL)

# The settings that two of spaCy's errors are about, and what is wrong with them.
_MESSAGES = {
    "[E048]": ("nlp.lang", "spaCy knows no such language; give its code, such as en or es"),
    "[E884]": ("initialize.vectors", "no vectors there; leave them out, or give a pipeline"),
}
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
    except (ConfigParserError, ValueError, KeyError, ImportError, OSError) as error:
        explained = explain_config_error(path, text, error)
        if explained is None:
            raise
        raise BiomedError(explained) from error


def explain_config_error(path: Path, text: str, error: Exception) -> str | None:
    """Say in one line what spaCy finds wrong with a config; None if it is about other things."""
    message = str(error.args[0] if isinstance(error, KeyError) else error)
    if isinstance(error, ConfigValidationError) and error.errors:
        line, problem = _explain_validation(text, error)
    elif isinstance(error, ConfigValidationError | ConfigParserError):
        line, problem = explain_syntax(text, error)
    elif unknown := find_unknown_name(message):
        line, problem = _explain_unknown_name(text, message, *unknown)
    elif message[:6] in _MESSAGES:
        setting, why = _MESSAGES[message[:6]]
        line, problem = locate(text, setting), f"{setting}: {why}"
    elif coded := _CODED.search(message):
        line, problem = None, escape(" ".join(coded.group().split()), 400)
    else:
        return None
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


def read_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of a config that open a section or give a setting: the line's number, from 1,
    the dotted name, and the value as written, "" for a section."""
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = header.group(1)
            yield number, section, ""
        elif setting := _SETTING.match(line):
            name = f"{section}.{setting.group(1)}" if section else setting.group(1)
            yield number, name, setting.group(2)


def locate(text: str, name: str) -> int | None:
    """The number of the line that gives a setting or opens a section, if there is one.

    The name is dotted, or the end of a dotted name; a complete name is preferred.
    """
    lines = [(number, full) for number, full, _ in read_lines(text)]
    whole = [number for number, full in lines if full == name]
    ends = [number for number, full in lines if full.endswith(f".{name}")]
    return next(iter(whole or ends), None)


def locate_setting_or_section(text: str, setting: str) -> int | None:
    """The number of the line that gives a setting, or else opens its section."""
    return locate(text, setting) or locate(text, setting.rpartition(".")[0])


def locate_string(text: str, value: str) -> int | None:
    """The number of the first line that has a value as a whole string."""
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if f'"{value}"' in line), None)


def locate_mentioned(text: str, message: str) -> int | None:
    """The number of the line that gives the setting that a message is about.

    The message has its dotted name, or else its value at the beginning or in quotation marks.
    """
    for name in re.findall(r"[\w.]*\w\.\w+", message):
        if number := locate(text, name):
            return number
    for number, _, written in read_lines(text):
        value = written.strip('"')
        if len(value) > 2 and (message.startswith(f"{value}:") or f"'{value}'" in message):
            return number
    return None


def explain_syntax(text: str, error: Exception) -> tuple[int | None, str]:
    """The line of an undefined variable or of wrong syntax that configparser finds, and a message.

    The line is None if it is unknown.
    """
    message = " ".join(str(error).split()).removeprefix("Config validation error ")
    if variable := _MISSING_VARIABLE.search(message):
        setting = f"{variable[2]}.{variable[1]}"
        return locate_setting_or_section(text, setting), (
            f"{setting}: ${{{variable[3]}}} refers to a setting that is not there; correct its "
            "name, or add it"
        )
    number = _LINE_NUMBER.search(message)
    line = int(number[1] or number[2]) if number else None
    return line, f"{escape(message, 160)}; correct it"


def begin_message(path: Path, line: int | None) -> str:
    """The file and the line, if there is one, as a message begins."""
    return f"{path}:{line}: " if line else f"{path}: "


def suggest_setting(name: str, config: Mapping[str, Any]) -> str:
    """What to do about the dotted name of a setting that a config does not have.

    Examples:
        >>> suggest_setting("training.stepz", {"training": {"steps": 3}})
        'did you mean --training.steps?'
    """
    names = [one for one in dict_to_dot(dict(config)) if "@" not in one]
    same = [one for one in names if one.endswith(f".{name.rpartition('.')[2]}")]
    meant = get_close_matches(name, names, 1, ALMOST) or same[:3]
    return f"did you mean --{' or --'.join(meant)}?" if meant else "see what is there"


def find_unknown_name(message: str) -> tuple[str, str] | None:
    """The name of what a config names and spaCy does not find, by its message, and its kind.

    The kind is in the plural, such as "factories". Other messages give None.
    """
    for pattern, kind in _UNKNOWN_NAMES:
        if match := re.search(pattern, message):
            return match["name"], kind.format(**match.groupdict())
    return None


def suggest_extra(name: str) -> str:
    """What to do about the name of something that spacy-transformers provides, if it is missing."""
    is_missing = name.startswith("spacy-transformers.") and find_spec("spacy_transformers") is None
    return install_command("stock") if is_missing else ""
