"""What is wrong with a training config, and in which line of it."""

from __future__ import annotations

import re
from configparser import InterpolationError
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path

from catalogue import RegistryError
from thinc.api import ConfigValidationError

from ..errors import escape

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*$")
_SETTING = re.compile(r"\s*([^\s=#\[][^=]*?)\s*=\s*(.*?)\s*$")

# spaCy's messages E893, E002 and E956: what could not be found, and what there is instead.
_UNKNOWN_NAMES = (
    (r"Could not find function '(?P<name>[^']+)' in function registry '(?P<kind>\w+)'", "{kind}"),
    (r"Can't find factory for '(?P<name>[^']+)'", "factories"),
    (r"Can't find component '(?P<name>[^']+)' in \[components\]", "[components]"),
)
_INTERPOLATION = re.compile(
    r"option '([^']+)' in section '([^']+)' contains an interpolation key '([^']+)'"
)
_AVAILABLE = re.compile(r"Available (?:names|factories|components): (.*)")


def explain_config_error(path: Path, error: Exception) -> str | None:
    """Say in one line what spaCy finds wrong with a config; None if `error` is about other things.

    Args:
        path: the config, as given to `spacy train`.
    """
    try:
        text = path.read_text(encoding="utf8")
    except (OSError, UnicodeDecodeError):
        return None
    explained = (
        _explain_interpolation(text, error)
        or _explain_validation(text, error)
        or _explain_unknown_name(text, error)
    )
    if explained is None:
        return None
    line, problem = explained
    return f"{path}:{line}: {problem}" if line else f"{path}: {problem}"


def locate_setting(text: str, section: str, key: str) -> int | None:
    """The number of the line that sets `key` in the section, or in one whose path ends with it."""
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            current = header.group(1)
            continue
        setting = _SETTING.match(line)
        is_key = setting is not None and setting.group(1) == key
        if is_key and f".{current}".endswith(f".{section}"):
            return number
    return None


def locate_section(text: str, section: str) -> int | None:
    """The number of the line that opens the section, or one whose path ends with it."""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if section and header and f".{header.group(1)}".endswith(f".{section}"):
            return number
    return None


def locate_name(text: str, name: str) -> int | None:
    """The number of the first line that has the name as a whole string."""
    for number, line in enumerate(text.splitlines(), start=1):
        if f'"{name}"' in line:
            return number
    return None


def locate_mentioned(text: str, message: str) -> int | None:
    """The number of the line that sets what a message is about.

    That is the setting that the message gives by its whole path, or else the longest value that it
    begins with or has in quotes.
    """
    for dotted in re.findall(r"[\w.]*\w\.\w+", message):
        section, _, key = dotted.rpartition(".")
        if line := locate_setting(text, section, key):
            return line
    best: tuple[int, int | None] = (2, None)
    for number, content in enumerate(text.splitlines(), start=1):
        setting = _SETTING.match(content)
        value = setting.group(2).strip('"') if setting else ""
        if len(value) > best[0] and (message.startswith(value) or f"'{value}'" in message):
            best = len(value), number
    return best[1]


def _explain_unknown_name(text: str, error: Exception) -> tuple[int | None, str] | None:
    if not isinstance(error, RegistryError | ValueError):
        return None
    message = str(error)
    for pattern, where in _UNKNOWN_NAMES:
        if match := re.search(pattern, message):
            name = match["name"]
            found = _AVAILABLE.search(message)
            known = found.group(1).split(", ") if found else []
            if where == "factories":  # spaCy lists those only that it has loaded
                known += [point.name for point in entry_points(group="spacy_factories")]
            advice = _suggest(name, known) or (
                "check its spelling, or install the package that provides it"
            )
            kind = where.format(**match.groupdict())
            return locate_name(text, name), f"'{name}' is not among the {kind}; {advice}"
    return None


def _explain_validation(text: str, error: Exception) -> tuple[int | None, str] | None:
    if not isinstance(error, ConfigValidationError):
        return None
    if not error.errors:
        description = " ".join(f"{error.desc or error.title}".split())
        found = re.search(r"\[line\s+(\d+)\]|line: (\d+)", description)
        number = int(found.group(1) or found.group(2)) if found else None
        description = escape(description, 160)
        return number, f"{description}; correct this line" if number else description
    first = next(iter(error.errors))
    path = [*(error.parent or "").split("."), *map(str, first.get("loc", ()))]
    *sections, key = [part for part in path if part] or [""]
    section = ".".join(sections)
    problem = _plain(str(first.get("msg", "")))
    line = (
        locate_setting(text, section, key)
        or locate_section(text, f"{section}.{key}")
        or locate_name(text, problem.rsplit(" ", 1)[-1])
        or locate_section(text, section)
    )
    known = [name for name in error.config or () if name != key] if "unexpected" in problem else []
    advice = _suggest(key, known) or "correct it, or leave it out for the default"
    return line, f"[{escape(section)}] {escape(key)}: {escape(problem, 160)}; {advice}"


def _explain_interpolation(text: str, error: Exception) -> tuple[int | None, str] | None:
    if not isinstance(error, ConfigValidationError | InterpolationError):
        return None
    match = _INTERPOLATION.search(" ".join(str(error).split()))
    if match is None:
        return None
    option, section, reference = match.groups()
    return locate_setting(text, section, option), (
        f"[{section}] {option}: ${{{reference}}} refers to a setting that the config does not "
        "have; correct its name, or add it"
    )


def _plain(problem: str) -> str:
    """A type error in words."""
    problem = problem.removeprefix("at root: ")
    problem = re.sub(r"<class '(\w+)'>", r"\1", problem)
    return re.sub(r"typing\.Literal\[(.*?)\]", r"one of \1", problem)


def _suggest(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=3)
    return f"did you mean {' or '.join(close)}?" if close else ""
