"""What spaCy does not check in a training config: names of settings, and their numbers."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import pydantic
from spacy.language import DEFAULT_CONFIG
from spacy.util import dict_to_dot, dot_to_object
from thinc.api import Config

from ..errors import BiomedError, add_hint, suggest
from .config_errors import ALMOST, locate, suggest_setting

# The sections that spaCy knows. Others have variables, for these to refer to.
SECTIONS = ("nlp", "components", "corpora", "training", "initialize", "pretraining")
# spaCy or a component checks what is in these, when it initializes the pipeline.
CHECKED_LATER = ("initialize.components.", "initialize.tokenizer")
# Which names scores have is known only to the components.
SCORE_WEIGHTS = "training.score_weights"
# Settings of a component from another pipeline; spaCy ignores all others.
OF_SOURCED = ("source", "component", "replace_listeners")

# What the numbers of settings may be, wherever they are, by the last part of their names.
_NUMBERS: dict[str, Any] = {
    "L2 grad_clip grad_factor learn_rate_factor tolerance *_rate": pydantic.NonNegativeFloat,
    "teacher_share": Annotated[float, pydantic.Field(ge=0, le=1)],
    "dropout word_piece_dropout": Annotated[float, pydantic.Field(ge=0, lt=1)],
    "context hidden_width max_steps patience seed total_steps": pydantic.NonNegativeInt,
    "warmup_steps window_size": pydantic.NonNegativeInt,
    "accumulate_gradient batch_size eval_frequency size width window": pydantic.PositiveInt,
    "max_epochs": Annotated[int, pydantic.Field(ge=-1)],
}
_BY_NAME = {name: kind for names, kind in _NUMBERS.items() for name in names.split()}
_CHECKS = pydantic.ConfigDict(strict=True, allow_inf_nan=False)
# As the command line has them, where a config has Infinity and NaN.
_NOT_FINITE = ("inf", "infinity", "nan")


def check_settings(config: Config, path: Path) -> None:
    """Check that a config has no setting or section which would have no effect."""
    for name, problem in _list_problems(config):
        line = locate(path.read_text(encoding="utf8"), name)
        raise BiomedError(f"{path}:{line}: {name}: {problem}")


def _list_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the settings and sections that would have no effect, each with a message.

    Variables and components may be there without an effect, unless they are named almost like
    others. They may have been left when the settings that used them were changed.
    """
    if (dropped := find_dropped(config, config)) is not None:
        section, _, setting = dropped.rpartition(".")
        advice = suggest(setting, DEFAULT_CONFIG[section], 1) or "remove it"
        yield dropped, f"no such setting; {advice}"
    known = {*SECTIONS, *DEFAULT_CONFIG, "vars"}
    pipeline = _list_names(config.get("nlp", {}).get("pipeline"))
    groups = {"": ([*config], known), "components": ([*config.get("components", {})], pipeline)}
    for section in config:
        if section not in SECTIONS and isinstance(config[section], dict):
            names = [*config[section]]
            used = [name for name in names if _is_used(f"{section}.{name}", config)]
            groups[section] = names, [*used, *DEFAULT_CONFIG.get(section, {})]
    for section, (names, effective) in groups.items():
        for name in set(names).difference(effective):
            if meant := get_close_matches(name, effective, 1, ALMOST):
                place = f"{section}.{name}".removeprefix(".")
                yield place, f"has no effect; did you mean {meant[0]}?"
    for setting in ("frozen_components", "annotating_components"):
        for name in _list_names(config.get("training", {}).get(setting)):
            if pipeline and name not in pipeline:
                problem = f"'{name}' is not in the pipeline of [nlp]"
                yield f"training.{setting}", add_hint(problem, suggest(name, pipeline, 1))


def _list_names(setting: object) -> list[str]:
    """The names of a list; of a variable and of what spaCy will refuse none."""
    return [one for one in setting if isinstance(one, str)] if isinstance(setting, list) else []


def find_dropped(settings: Mapping[str, Any], config: Config) -> str | None:
    """The dotted name of the first setting that has no effect when it is merged into a config."""
    for section in ("nlp", "training", "initialize"):
        for setting in settings.get(section, {}):
            if setting not in DEFAULT_CONFIG[section]:
                return f"{section}.{setting}"
    merged = config.merge(settings)
    new = (f"vars.{one}" for one in settings.get("vars", {}) if one not in config.get("vars", {}))
    return next((name for name in new if not _is_used(name, merged)), None)


def check_overrides(names: Iterable[str], config: Config, path: Path) -> None:
    """Check that no override of a config would have no effect, or be refused by spaCy.

    Names are dotted. Registered functions and components check their own settings, of which a
    config need not list all.
    """
    filled = DEFAULT_CONFIG.merge(config)
    for name in names:
        if (problem := _find_problem(name, config, filled, path)) is not None:
            raise BiomedError(f"--{name}: {problem}")


def _find_problem(name: str, config: Config, filled: Config, path: Path) -> str | None:
    section, _, setting = name.rpartition(".")
    parts: list[Any] = [config]
    for part in section.split("."):
        parts.append(parts[-1].get(part))
        if not isinstance(parts[-1], dict):
            is_known = name in dict_to_dot(filled)
            advice = "add it to the file" if is_known else suggest_setting(name, filled)
            return f"no section [{section}] in {path}; {advice}"
    is_registered = any("factory" in part or any(key[0] == "@" for key in part) for part in parts)
    if is_registered or section.startswith(CHECKED_LATER):
        return None
    known = {*dot_to_object(filled, section), *(OF_SOURCED if "source" in parts[-1] else ())}
    if setting not in known:
        if section == SCORE_WEIGHTS and not suggest(setting, known):
            return None
        return f"no such setting in [{section}] of {path}; {suggest_setting(name, filled)}"
    if section.split(".")[0] in SECTIONS or _is_used(name, filled):
        return None
    return (
        f"nothing in {path} refers to ${{{name}}}, so it would have no effect; override the "
        "setting that you mean"
    )


def _is_used(variable: str, config: Config) -> bool:
    """Whether something in a config refers to a variable, to its section or to a part of it."""
    section = variable.rpartition(".")[0]
    references = (f"${{{variable}}}", f"${{{variable}.", f"${{{section}}}")
    text = config.to_str(interpolate=False)
    return any(reference in text for reference in references)


def check_values(config: Mapping[str, Any]) -> None:
    """Check the numbers of a training config, and that it has a pipeline and corpora.

    Variables are filled in. Numbers must be finite and in range, and a weight of a score above 0.
    """
    if config["nlp"].get("pipeline") == []:
        raise BiomedError("nlp.pipeline: is empty; name the components to train")
    for name, reader in config.get("corpora", {}).items():
        if isinstance(reader, Mapping) and reader.get("path") == "":
            raise BiomedError(f'corpora.{name}.path: is ""; name a .spacy file or a folder of some')
    for name, value in dict_to_dot(dict(config)).items():
        if isinstance(value, str) and value.lower().lstrip("+-") in _NOT_FINITE:
            value = float(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        setting = name.rpartition(".")[2]
        if setting.endswith("_rate") and name.startswith(("training", "vars")):
            setting = "*_rate"
        try:
            pydantic.TypeAdapter(_BY_NAME.get(setting, float), config=_CHECKS).validate_python(
                value
            )
        except pydantic.ValidationError as error:
            problem = error.errors()[0]["msg"].replace("Input", "it")
            raise BiomedError(f"{name} = {value}: {problem}") from error
    weights = config.get("training", {}).get("score_weights")
    numbers = list(weights.values()) if isinstance(weights, Mapping) else []
    given = [weight for weight in numbers if isinstance(weight, int | float)]
    if any(weight < 0 for weight in given) or (numbers and not any(given)):
        raise BiomedError(
            "training.score_weights: give no weight below 0, and one above 0: the best pipeline "
            "is that with the highest score"
        )
