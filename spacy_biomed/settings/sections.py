"""Configs as sections that pydantic checks; an error is one line with the file and its line."""

import os
import re
from collections.abc import Callable, Container, Iterable, Mapping
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Any, TypeVar

from confection import Config
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from ..errors import BiomedError, quote, suggest
from .config_errors import begin_message, explain_syntax, locate_setting_or_section, suggest_setting

# A section or setting in a message about sections that do not fit together.
_MENTIONED = re.compile(r"\[?\b(\w+\.\w+|(?<=\[)\w+(?=\]))")

# Sections whose settings have no schema.
_VARIABLES = ("paths", "vars")

# A section that the config of a command has, and those of the commands below do not.
_COMMANDS = {
    "nlp": "train",
    "objective": "distill",
    "encoder": "pretrain",
    "students": "build",
    "rows": "study run",
}

# Parts of pydantic's error locations that do not name settings.
_TAGS = ("documents", "files", "existing", "fresh")


class Section(BaseModel):
    """A section of a recipe; it is immutable, and unknown settings are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ConfigFile(Section):
    """All sections of a config, which know the file that they were read from."""

    _path: Path | None = PrivateAttr(default=None)
    _text: str = PrivateAttr(default="")

    def error(self, setting: str, problem: str) -> BiomedError:
        """An error about a setting, such as "text.paths", with the file and its line."""
        place = _describe_place(self._path, self._text, setting) if self._path else ""
        return BiomedError(f"{place}{setting}: {problem}")


AnyConfigFile = TypeVar("AnyConfigFile", bound=ConfigFile)


def read_sections(
    path: Path,
    schema: type[AnyConfigFile],
    overrides: Mapping[str, object] | None = None,
    *,
    kind: str,
    prepare: Callable[[Config], Config] | None = None,
) -> AnyConfigFile:
    """Read a config, which messages call a `kind`, and check it against a schema.

    `prepare` completes it before overrides, by dotted names, and variables are filled in.
    """
    text, overrides = read_config_text(path, kind), dict(overrides or {})
    try:
        config = Config().from_str(text, interpolate=False)
        check_command(path, config, schema.model_fields)
        if prepare is not None:
            config = prepare(config)
        _check_overrides(path, config, schema, overrides)
        config = Config().from_str(config.to_str(interpolate=False), overrides=overrides)
        sections = schema.model_validate(_without_nulls(config))
    except BiomedError:
        raise
    except ValidationError as error:
        setting, problem = explain_validation(schema, error, kind)
        if problem.endswith(": is missing"):
            variable = _variable_of(text, setting)
            problem += f"; give --{variable}" if variable else "; add it"
        raise BiomedError(f"{_describe_place(path, text, setting)}{problem}") from error
    except (ConfigParserError, ValueError) as error:
        line, problem = explain_syntax(text, error)
        raise BiomedError(f"{begin_message(path, line)}{problem}") from error
    sections._path, sections._text = path, text
    return sections


def check_command(path: Path, config: Mapping[str, object], own: Container[str]) -> None:
    """Raise BiomedError if a config is that of another command, which has sections of its own."""
    section = next((one for one in _COMMANDS if one in config), None)
    if section is not None and section not in own:
        raise BiomedError(
            f"{path}: has a section [{section}], so it is for `python -m spacy biomed "
            f"{_COMMANDS[section]}`; use that, or name another file"
        )


def _check_overrides(
    path: Path, config: Config, schema: type[BaseModel], overrides: Mapping[str, object]
) -> None:
    """Refuse overrides of sections and variables that are not there; add sections of the schema."""
    for name in overrides:
        first, *others = name.split(".")[:-1]
        if first in schema.model_fields:
            config.setdefault(first, {})
        section: Any = config.get(first)
        for part in others:
            section = section.get(part) if isinstance(section, Mapping) else None
        is_variable = first in _VARIABLES and name.rpartition(".")[2] not in (section or ())
        if not isinstance(section, Mapping) or is_variable:
            what = "no such setting" if is_variable else f"no section [{name.rpartition('.')[0]}]"
            raise BiomedError(f"--{name}: {what} in {path}; {suggest_setting(name, config)}")


def read_config_text(path: Path, kind: str) -> str:
    """Read the text of a config; raise BiomedError if that fails."""
    if not os.path.isfile(path):
        raise BiomedError(f"{path}: no such file; give a {kind} (.cfg)")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BiomedError(f"{path}: cannot be read ({error}); give a {kind} (.cfg)") from error


def _without_nulls(section: Mapping[str, object]) -> dict[str, object]:
    """Remove settings that are null, which means that they are not given."""
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in section.items()
        if value is not None
    }


def explain_validation(
    schema: type[BaseModel], error: ValidationError, kind: str
) -> tuple[str, str]:
    """The setting of the first error, dotted or "", and what is wrong with it, in one line."""
    # A wrong name is reported first, since it may explain a missing setting.
    first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    names = [part for part in first["loc"] if isinstance(part, str) and part not in _TAGS]
    setting = ".".join(names)
    if first["type"] == "missing":
        return setting, f"{setting or kind}: is missing"
    if first["type"] == "extra_forbidden":
        known = _all_settings(schema) - {names[-1]}
        return setting, f"{setting}: no such setting; {advise_on_name(names[-1], known)}"
    problem = first["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
    problem = problem[:1].lower() + problem[1:]
    if first["type"] == "value_error":
        mentioned = _MENTIONED.search(first["msg"])
        name = setting or (mentioned.group(1) if mentioned else "")
        return name, f"{setting + ': ' if setting else ''}{problem}"
    return setting, f"{setting} = {quote(first['input'])}: {problem}; correct it"


def advise_on_name(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name: take one of two similar names, or remove it."""
    return suggest(name, known, 2) or "remove it"


def check_name(setting: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError, for a validator, if a setting has a name that is not there."""
    if name not in known:
        raise ValueError(f"{setting} has {quote(name)}: {advise_on_name(name, known)}")


def _describe_place(path: Path, text: str, setting: str) -> str:
    return begin_message(path, locate_setting_or_section(text, setting))


def _variable_of(text: str, setting: str) -> str | None:
    """The variable in the value of a setting: `paths.text` for ${paths.text}."""
    line = locate_setting_or_section(text, setting)
    if line is None:
        return None
    match = re.search(r"\$\{([\w.]+)\}", text.splitlines()[line - 1])
    return match.group(1) if match else None


def _all_settings(schema: type[BaseModel]) -> set[str]:
    """The names of all sections that a recipe can have, and of their settings."""
    described = schema.model_json_schema()
    parts = [described, *described.get("$defs", {}).values()]
    return {name for part in parts for name in part.get("properties", ())}
