"""Values of a training config that nothing else checks, and that would train wrongly."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import BiomedError


class _Range(NamedTuple):
    """Numbers from `least` to `most`, which is left out if `is_open`."""

    least: float
    most: float = math.inf
    is_whole: bool = False
    is_open: bool = False

    def has(self, value: float) -> bool:
        if self.is_whole and not isinstance(value, int):
            return False
        return self.least <= value <= self.most and not (self.is_open and value == self.most)

    def __str__(self) -> str:
        number = "a whole number" if self.is_whole else "a number"
        if self.most == math.inf:
            return f"{number} of {self.least:g} or more"
        below = "below" if self.is_open else "to"
        return f"{number} from {self.least:g} {below} {self.most:g}"


_SHARE, _BELOW_1 = _Range(0, 1), _Range(0, 1, is_open=True)
_COUNT, _ABOVE_0 = _Range(0, is_whole=True), _Range(1, is_whole=True)
_POSITIVE = _Range(0)
# As the command line has them, where a config has Infinity and NaN.
_NOT_FINITE = ("inf", "infinity", "nan")
# By the last part of the name, wherever it is.
_RANGES = {
    "L2": _POSITIVE,
    "accumulate_gradient": _ABOVE_0,
    "batch_size": _ABOVE_0,
    "context": _COUNT,
    "dropout": _BELOW_1,
    "eval_frequency": _ABOVE_0,
    "grad_clip": _POSITIVE,
    "grad_factor": _POSITIVE,
    "hidden_width": _COUNT,
    "learn_rate_factor": _POSITIVE,
    "max_epochs": _Range(-1, is_whole=True),
    "max_steps": _COUNT,
    "patience": _COUNT,
    "seed": _COUNT,
    "size": _ABOVE_0,
    "teacher_share": _SHARE,
    "tolerance": _POSITIVE,
    "total_steps": _COUNT,
    "warmup_steps": _COUNT,
    "width": _ABOVE_0,
    "window": _ABOVE_0,
    "window_size": _COUNT,
    "word_piece_dropout": _BELOW_1,
}


def check_values(config: Mapping[str, Any]) -> None:
    """Check the numbers of a training config, and that it has a pipeline and corpora.

    Variables are filled in. Numbers must be finite and in range, and a weight of a score above 0.
    """
    if config["nlp"].get("pipeline") == []:
        raise BiomedError("nlp.pipeline: is empty; name the components to train")
    for name, reader in config.get("corpora", {}).items():
        if isinstance(reader, Mapping) and reader.get("path") == "":
            raise BiomedError(f'corpora.{name}.path: is ""; name a .spacy file or a folder of some')
    for section, name, value in _list_numbers(config):
        of_rate = name.endswith("_rate") and section.startswith(("training", "vars"))
        allowed = _POSITIVE if of_rate else _RANGES.get(name, _Range(-math.inf))
        if not (math.isfinite(value) and allowed.has(value)):
            use = "a finite number" if allowed.least == -math.inf else allowed
            raise BiomedError(f"{section}.{name} = {value}: use {use}")
    weights = config.get("training", {}).get("score_weights") or {}
    given = [weight for weight in weights.values() if isinstance(weight, int | float)]
    if any(weight < 0 for weight in given) or (weights and not any(given)):
        raise BiomedError(
            "training.score_weights: give no weight below 0, and one above 0: the best pipeline "
            "is that with the highest score"
        )


def _list_numbers(section: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str, float]]:
    """Yield the numbers in a section and its sections, each with its section and its name."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _list_numbers(value, f"{name}.{key}" if name else key)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, key, value
        elif isinstance(value, str) and value.lower().lstrip("+-") in _NOT_FINITE:
            yield name, key, float(value)
