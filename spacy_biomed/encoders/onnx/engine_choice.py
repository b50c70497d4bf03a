"""Which engine runs an exported encoder on this machine: the setting, or the faster one.

What is faster depends on the processor, the encoder and its number format, by a factor of two
either way. With "auto" both engines are timed when a pipeline is loaded for the first time, and the
choice is remembered in the user's cache directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from timeit import repeat
from typing import Any, cast

import numpy as np
from platformdirs import user_cache_path

from ...errors import BiomedError
from ...outputs import replace_text
from .engines import (
    ENGINES,
    Engine,
    EngineName,
    EnginePrecision,
    EngineSetting,
    create_engine,
    is_installed,
)

# Overrides the setting of every pipeline: auto, onnxruntime or openvino.
VARIABLE = "SPACY_BIOMED_ENGINE"
SETTINGS = ("auto", *ENGINES)

# Sequences and word pieces of the timed batches: sentences, and windows of documents.
TIMED_SHAPES = ((4, 32), (1, 128), (1, 512))
REPEATS = 3


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine for an encoder.

    Attributes:
        engine: its name.
        pieces_per_second: speed of each engine that was timed, on one thread; empty if none was.
    """

    engine: EngineName
    pieces_per_second: dict[EngineName, float] = field(default_factory=dict)


def choose_engine(
    setting: EngineSetting,
    model: bytes,
    settings: Mapping[str, Any],
    precision: EnginePrecision,
) -> EngineChoice:
    """Choose the engine for an exported encoder.

    Args:
        setting: an engine, or "auto" for the faster one. The environment variable
            SPACY_BIOMED_ENGINE overrides it.
        model: content of `model.onnx`.
        settings: content of `encoder.json`.
        precision: as for `create_engine`.

    Raises:
        BiomedError: if the setting or the variable names no engine.
    """
    wanted = _read_setting(setting)
    if wanted != "auto":
        return EngineChoice(wanted)
    if not is_installed("openvino"):
        return EngineChoice("onnxruntime")
    place = _cache_place(model, precision)
    remembered = _recall(place)
    if remembered is None:
        remembered = _time_engines(model, settings, precision)
        _remember(place, remembered)
    return remembered


def usable_engines() -> list[EngineName]:
    """The engines that are installed, or the only one that the environment variable allows."""
    told = _read_setting("auto")
    return [name for name in ENGINES if is_installed(name) and told in ("auto", name)]


def _read_setting(setting: str) -> EngineSetting:
    told = os.environ.get(VARIABLE)
    wanted, where = (told, VARIABLE) if told else (setting, "engine")
    if wanted not in SETTINGS:
        raise BiomedError(f"{where} = {wanted}: use {', '.join(SETTINGS[:-1])} or {SETTINGS[-1]}")
    return cast(EngineSetting, wanted)


def _time_engines(
    model: bytes, settings: Mapping[str, Any], precision: EnginePrecision
) -> EngineChoice:
    speeds: dict[EngineName, float] = {}
    for name in ENGINES:
        # An engine that cannot run the model is not chosen. If none can, the error of ONNX Runtime
        # is the one to report.
        with suppress(Exception):
            engine = create_engine(name, model, threads=1, precision=precision)
            speeds[name] = _time(engine, settings)
    return EngineChoice(max(speeds, key=lambda name: speeds[name], default="onnxruntime"), speeds)


def _time(engine: Engine, settings: Mapping[str, Any]) -> float:
    """Word pieces that an engine encodes in a second."""
    pieces = seconds = 0.0
    for lines, length in TIMED_SHAPES:
        shape = (lines, min(length, settings["max_length"]))
        ids = np.full(shape, settings["pad"], dtype="int64")
        # The values do not matter to the speed; a mask of zeros would.
        inputs = {name: np.zeros_like(ids) for name in engine.signature.inputs}
        inputs |= {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        [output] = engine.signature.widths
        engine.run(inputs, output)
        seconds += min(repeat(lambda: engine.run(inputs, output), number=1, repeat=REPEATS))  # noqa: B023
        pieces += ids.size
    return pieces / seconds


def _cache_place(model: bytes, precision: EnginePrecision) -> Path:
    """The file of a choice: another one for another encoder, processor or version."""
    from .openvino_engine import describe_processor

    what = [
        sha256(model).hexdigest(),
        precision,
        describe_processor(),
        *(f"{package} {version(package)}" for package in ENGINES),
    ]
    name = sha256("\n".join(what).encode()).hexdigest()[:32]
    return user_cache_path("spacy_biomed", appauthor=False) / "engines" / f"{name}.json"


def _recall(place: Path) -> EngineChoice | None:
    try:
        choice = EngineChoice(**json.loads(place.read_text(encoding="utf8")))
    except (OSError, ValueError, TypeError):  # not there yet, or damaged
        return None
    return choice if choice.engine in ENGINES else None


def _remember(place: Path, choice: EngineChoice) -> None:
    """Keep a choice, where the cache directory can be written to; else it is made again."""
    with suppress(OSError, BiomedError):
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_text(place, json.dumps(asdict(choice)))
