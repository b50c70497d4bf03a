"""The libraries that can run an exported encoder, behind one interface, and which of them does.

What is faster depends on the processor, the encoder, its number format and the length of the texts,
by a factor of two either way. With "auto" both engines encode the first texts that a process
annotates, and the choice is remembered in the user's cache directory.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from timeit import repeat
from typing import Literal, Protocol, cast

from platformdirs import user_cache_path

from ...arrays import Floats3d, Ints2d
from ...errors import BiomedError, list_choices
from ...files.outputs import replace_text

EngineName = Literal["onnxruntime", "openvino"]
EngineSetting = Literal["auto", "onnxruntime", "openvino"]
# The number format of OpenVINO's matrix products that are not int8: "auto" is bf16 on processors
# with instructions for it, else fp32. ONNX Runtime computes in fp32.
EnginePrecision = Literal["auto", "fp32", "bf16"]

# Inputs of a model by name, (lines, pieces) each.
Inputs = Mapping[str, Ints2d]

# Their names are those of their modules, but for "_engine", and of their pip packages.
ENGINES: tuple[EngineName, ...] = ("onnxruntime", "openvino")

# Overrides the setting of every pipeline: auto, onnxruntime or openvino.
VARIABLE = "SPACY_BIOMED_ENGINE"

# Word pieces, with padding, to time engines on. With fewer, such as a single sentence, ONNX Runtime
# is as fast, and nothing is chosen yet.
LEAST_PIECES, MOST_PIECES = 1024, 2048
REPEATS = 2
# OpenVINO prepares kernels for each new length, which the repeats do not show.
MARGIN = 1.1


class Engine(Protocol):
    """A model loaded by a library, ready to run on the CPU. Runs may overlap in several threads."""

    inputs: frozenset[str]
    widths: dict[str, int | None]  # the last dimension of each output; None if it is not fixed

    def run(self, inputs: Inputs, output: str) -> Floats3d:
        """Compute an output, (lines, pieces, width), which is valid until the thread's next run."""


def create_engine(
    name: EngineName,
    model: bytes,
    *,
    threads: int,
    runs: int = 1,
    precision: EnginePrecision = "auto",
) -> Engine:
    """Load a model from the content of an ONNX file with all its weights.

    A library that cannot read or run the model raises an exception of any kind.
    """
    try:
        module = import_module(f".{name}_engine", __package__)
    except ImportError as error:
        raise BiomedError(
            f"'spacy_biomed.OnnxTransformerModel.v1' needs {name} ({error}): pip install {name}"
        ) from error
    return cast(Engine, module.Engine(model, threads, runs, precision))


def read_setting(setting: str) -> EngineSetting:
    """An engine, or "auto": the setting, or what the environment variable says in place of it."""
    variable = os.environ.get(VARIABLE)
    wanted, where = (variable, VARIABLE) if variable else (setting, "engine")
    choices = ("auto", *ENGINES)
    if wanted not in choices:
        raise BiomedError(f"{where} = {wanted}: {list_choices(wanted, choices)}")
    return cast(EngineSetting, wanted)


def usable_engines() -> list[EngineName]:
    """The engines that are installed, or the only one that the environment variable allows."""
    chosen = read_setting("auto")
    return [name for name in ENGINES if find_spec(name) and chosen in ("auto", name)]


def choose_engine(
    model: bytes, precision: EnginePrecision, batches: Sequence[Inputs]
) -> EngineName | None:
    """The faster engine for an encoder, as in `model.onnx`, and for batches as long as these.

    It is the choice that was remembered for this encoder, processor and length, or that is made now
    on some 2,048 word pieces; None if the batches are too small to choose by.
    """
    before = accumulate(map(_count_pieces, batches), initial=0)
    batches = [batch for batch, n in zip(batches, before, strict=False) if n < MOST_PIECES]
    pieces = sum(map(_count_pieces, batches))
    if pieces < LEAST_PIECES:
        return None
    lines = sum(len(next(iter(batch.values()))) for batch in batches)
    place = _cache_place(model, precision, pieces / lines)
    with suppress(OSError, ValueError, TypeError, KeyError):  # not there yet, or damaged
        remembered = json.loads(place.read_text(encoding="utf8"))["engine"]
        if remembered in ENGINES:
            return cast(EngineName, remembered)
    speeds: dict[EngineName, float] = {}
    for name in ENGINES:
        with suppress(Exception):  # an engine that cannot run the model here is not chosen
            engine = create_engine(name, model, threads=1, precision=precision)
            speeds[name] = _time(engine, batches)
    is_faster = speeds.get("openvino", 0.0) > MARGIN * speeds.get("onnxruntime", 0.0)
    choice: EngineName = "openvino" if is_faster else "onnxruntime"
    with suppress(OSError, BiomedError):  # where it cannot be written, it is made again
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_text(place, json.dumps({"engine": choice}))
    return choice


def _count_pieces(batch: Inputs) -> int:
    return int(next(iter(batch.values())).size)


def _time(engine: Engine, batches: Sequence[Inputs]) -> float:
    """Word pieces that an engine encodes in a second."""
    [output] = engine.widths

    def encode() -> None:
        for batch in batches:
            engine.run(batch, output)

    encode()
    seconds = min(repeat(encode, number=1, repeat=REPEATS))
    return sum(map(_count_pieces, batches)) / seconds


def _cache_place(model: bytes, precision: EnginePrecision, length: float) -> Path:
    """The file of a choice: another for another encoder, length, processor or version."""
    what = [
        sha256(model).hexdigest(),
        precision,
        f"length {2 ** round(math.log2(length))}",
        import_module(".openvino_engine", __package__).describe_processor(),
        *(f"{package} {version(package)}" for package in ENGINES),
    ]
    name = sha256("\n".join(what).encode()).hexdigest()[:32]
    return user_cache_path("spacy_biomed", appauthor=False) / "engines" / f"{name}.json"
