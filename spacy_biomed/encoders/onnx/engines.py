"""The libraries that can run an exported encoder, behind one interface."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Literal, Protocol, cast

from ...arrays import Floats3d, Ints2d
from ...errors import BiomedError

EngineName = Literal["onnxruntime", "openvino"]
EngineSetting = Literal["auto", "onnxruntime", "openvino"]
EnginePrecision = Literal["auto", "fp32", "bf16"]

# Inputs of a model by name, (lines, pieces) each.
Inputs = Mapping[str, Ints2d]

# Their names are those of their modules, but for "_engine", and of their pip packages.
ENGINES: tuple[EngineName, ...] = ("onnxruntime", "openvino")


class Engine(Protocol):
    """A model loaded by a library, ready to run on the CPU. Runs may overlap in several threads.

    Attributes:
        widths: the last dimension of each output; None if it is not fixed.
    """

    inputs: frozenset[str]
    widths: dict[str, int | None]

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
    """Load a model.

    Args:
        model: content of an ONNX file, whose weights are all in it.
        precision: number format of OpenVINO's matrix products that are not int8; "auto" is bf16 on
            processors with instructions for it, else fp32. ONNX Runtime computes in fp32.

    Raises:
        BiomedError: if the library is not installed.
        Exception: of any kind, by the library, if it cannot read or run the model.
    """
    try:
        module = import_module(f".{name}_engine", __package__)
    except ImportError as error:
        raise BiomedError(
            f"'spacy_biomed.OnnxTransformerModel.v1' needs {name} ({error}): pip install {name}"
        ) from error
    return cast(Engine, module.Engine(model, threads, runs, precision))


def is_installed(name: EngineName) -> bool:
    """Whether a library is there; it is not imported."""
    return find_spec(name) is not None
