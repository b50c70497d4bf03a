"""Which engine runs an exported encoder on this machine: the setting, or the faster one.

What is faster depends on the processor, the encoder, its number format and the length of the texts,
by a factor of two either way. With "auto" both engines encode the first texts that a process
annotates, and the choice is remembered in the user's cache directory.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from timeit import repeat
from typing import cast

from platformdirs import user_cache_path

from ...errors import BiomedError, list_choices
from ...files.outputs import replace_text
from .engines import (
    ENGINES,
    Engine,
    EngineName,
    EnginePrecision,
    EngineSetting,
    Inputs,
    create_engine,
    is_installed,
)

# Overrides the setting of every pipeline: auto, onnxruntime or openvino.
VARIABLE = "SPACY_BIOMED_ENGINE"
SETTINGS = ("auto", *ENGINES)

# Word pieces, with padding, to time engines on. With fewer, such as a single sentence, ONNX Runtime
# is as fast, and nothing is chosen yet.
LEAST_PIECES, MOST_PIECES = 1024, 2048
REPEATS = 2
# OpenVINO prepares kernels for each new length, which the repeats do not show.
MARGIN = 1.1


def read_setting(setting: str) -> EngineSetting:
    """An engine, or "auto": the setting, or what the environment variable says in place of it."""
    variable = os.environ.get(VARIABLE)
    wanted, where = (variable, VARIABLE) if variable else (setting, "engine")
    if wanted not in SETTINGS:
        raise BiomedError(f"{where} = {wanted}: {list_choices(wanted, SETTINGS)}")
    return cast(EngineSetting, wanted)


def usable_engines() -> list[EngineName]:
    """The engines that are installed, or the only one that the environment variable allows."""
    chosen = read_setting("auto")
    return [name for name in ENGINES if is_installed(name) and chosen in ("auto", name)]


def choose_engine(
    model: bytes, precision: EnginePrecision, batches: Sequence[Inputs]
) -> EngineName | None:
    """The faster engine for an encoder, as in `model.onnx`, and for batches as long as these.

    Some 2,048 word pieces of the batches are used.

    Returns:
        the choice that was remembered for this encoder, processor and length, or that is made now;
        None if the batches are too small to choose by.
    """
    batches = _take(batches)
    if sum(_count_pieces(batch) for batch in batches) < LEAST_PIECES:
        return None
    place = _cache_place(model, precision, batches)
    choice = _recall(place)
    if choice is None:
        choice = _time_engines(model, precision, batches)
        _remember(place, choice)
    return choice


def _take(batches: Sequence[Inputs]) -> list[Inputs]:
    before = accumulate(map(_count_pieces, batches), initial=0)
    return [batch for batch, pieces in zip(batches, before, strict=False) if pieces < MOST_PIECES]


def _count_pieces(batch: Inputs) -> int:
    return int(next(iter(batch.values())).size)


def _time_engines(
    model: bytes, precision: EnginePrecision, batches: Sequence[Inputs]
) -> EngineName:
    speeds: dict[EngineName, float] = {}
    for name in ENGINES:
        # An engine that cannot run the model here is not chosen.
        with suppress(Exception):
            engine = create_engine(name, model, threads=1, precision=precision)
            speeds[name] = _time(engine, batches)
    is_faster = speeds.get("openvino", 0.0) > MARGIN * speeds.get("onnxruntime", 0.0)
    return "openvino" if is_faster else "onnxruntime"


def _time(engine: Engine, batches: Sequence[Inputs]) -> float:
    """Word pieces that an engine encodes in a second."""
    [output] = engine.widths

    def encode() -> None:
        for batch in batches:
            engine.run(batch, output)

    encode()
    seconds = min(repeat(encode, number=1, repeat=REPEATS))
    return sum(_count_pieces(batch) for batch in batches) / seconds


def _cache_place(model: bytes, precision: EnginePrecision, batches: Sequence[Inputs]) -> Path:
    """The file of a choice: another for another encoder, length, processor or version."""
    from .openvino_engine import describe_processor

    lines = sum(len(next(iter(batch.values()))) for batch in batches)
    length = sum(_count_pieces(batch) for batch in batches) / lines
    what = [
        sha256(model).hexdigest(),
        precision,
        f"length {2 ** round(math.log2(length))}",
        describe_processor(),
        *(f"{package} {version(package)}" for package in ENGINES),
    ]
    name = sha256("\n".join(what).encode()).hexdigest()[:32]
    return user_cache_path("spacy_biomed", appauthor=False) / "engines" / f"{name}.json"


def _recall(place: Path) -> EngineName | None:
    try:
        engine = json.loads(place.read_text(encoding="utf8"))["engine"]
    except (OSError, ValueError, TypeError, KeyError):  # not there yet, or damaged
        return None
    return engine if engine in ENGINES else None


def _remember(place: Path, engine: EngineName) -> None:
    """Keep a choice, where the cache directory can be written to; else it is made again."""
    with suppress(OSError, BiomedError):
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_text(place, json.dumps({"engine": engine}))
