"""The state of a training run on disk, from which it resumes as if it had never stopped."""

import dataclasses
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import srsly
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from spacy.language import Language
from thinc.api import Model, Optimizer, PyTorchShim, get_current_ops, to_numpy

from ..encoders.encoder_model import get_loss_scale, get_module
from ..errors import BiomedError
from ..files.digests import digest_files
from ..files.outputs import find_paths, replacing_file

# Version, words and second normal deviate of Python's generator, as of `random.getstate`.
PythonState = tuple[int, tuple[int, ...], float | None]

# Config sections whose paths are inputs: the result of training depends on their contents.
SECTIONS_WITH_INPUTS = ("corpora", "components", "initialize")

_MOMENTS = ("mom1", "mom2", "averages")
_COUNTS = ("nr_update", "last_seen")
_LOSS_SCALE = ("scale", "growth")


@dataclass
class Progress:
    """How far a run has come, and its `fingerprint`.

    `step` is the last that was made, -1 before the first. `epochs` has the state of Python's
    generator before the examples of each epoch were shuffled.
    """

    fingerprint: dict[str, str]
    step: int = -1
    scores: list[float] = field(default_factory=list)
    words: int = 0
    seconds: float = 0.0
    performance: dict[str, object] = field(default_factory=dict)
    epochs: list[PythonState] = field(default_factory=list)


@dataclass
class Checkpoint:
    """A run at the end of a step: counts of the optimizer, by name and parameter; states of the
    generators of Python and numpy; and as tensors all else, PyTorch's generators included."""

    progress: Progress
    counts: dict[str, dict[str, int]]
    generators: dict[str, Any]
    tensors: dict[str, torch.Tensor]

    @classmethod
    def take(cls, nlp: Language, optimizer: Optimizer, progress: Progress) -> "Checkpoint":
        """Copy the state of a run between two steps."""
        weights = list(_weights(nlp))
        places = {key: place for key, place, _ in weights}
        tensors = {f"weight:{place}": _tensor(value) for _, place, value in weights}
        for name in _MOMENTS:
            for key, value in (getattr(optimizer, name) or {}).items():
                if key not in places:
                    raise BiomedError(
                        f"the parameter {key} belongs to no component's model, so that training "
                        "could not be continued; use `python -m spacy train` for this pipeline"
                    )
                tensors[f"{name}:{places[key]}"] = _tensor(value)
        states = optimizer.torch_state() if hasattr(optimizer, "torch_state") else {}
        for place, shim in _shims(nlp):
            for name, value in states.get(shim.id, {}).items():
                tensors[f"torch:{place}/{name}"] = _tensor(value)
            # For fp16: by how much losses are scaled, and for how many steps.
            for kind, value in zip(_LOSS_SCALE, get_loss_scale(shim) or (), strict=False):
                tensors[f"{kind}:{place}"] = _tensor(value)
        # The rate that the last batch set, and which pipelines save.
        for place, node in _nodes(nlp):
            if (rate := node.attrs.get("dropout_rate")) is not None:
                tensors[f"dropout:{place}"] = torch.tensor(float(rate), dtype=torch.float64)
        tensors["generator:cpu"] = torch.get_rng_state()
        for device, value in enumerate(torch.cuda.get_rng_state_all()):
            tensors[f"generator:cuda:{device}"] = value
        counts = {
            name: {places[key]: count for key, count in getattr(optimizer, name).items()}
            for name in _COUNTS
        }
        state: Any = np.random.get_state()
        numpy_state = (state[0], state[1].tolist(), *state[2:])
        generators = {"python": random.getstate(), "numpy": numpy_state}
        return cls(progress, counts, generators, tensors)

    def write(self, path: Path) -> None:
        """Write to a file. The previous file stays until the new file is complete."""
        header = {
            "progress": dataclasses.asdict(self.progress),
            "counts": self.counts,
            "generators": self.generators,
        }
        with replacing_file(path) as partial:
            save_file(
                _without_shared_memory(self.tensors),
                partial,
                metadata={"run": json.dumps(header, default=float)},  # srsly would round
            )

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Read a file that `write` wrote; refuse another, or a damaged one."""
        try:
            with safe_open(path, "pt") as file:
                header = json.loads(file.metadata()["run"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            progress = Progress(**header["progress"])
            progress.epochs = [_tuples(state) for state in progress.epochs]
            return cls(progress, header["counts"], header["generators"], tensors)
        except Exception as error:  # safetensors defines its own exceptions
            raise BiomedError(f"{path}: not a readable checkpoint ({error})") from error

    def fits(self, nlp: Language) -> bool:
        """Whether the pipeline has weights of the same names and shapes as the checkpoint."""
        own = {place: tuple(value.shape) for _, place, value in _weights(nlp)}
        saved = self._section("weight:")
        return own == {place: tuple(value.shape) for place, value in saved.items()}

    def restore(self, nlp: Language, optimizer: Optimizer) -> None:
        """Give pipeline, optimizer and generators the state of the run, besides the schedules."""
        for place, node in _nodes(nlp):
            if f"dropout:{place}" in self.tensors:
                node.attrs["dropout_rate"] = self.tensors[f"dropout:{place}"].item()
            for name in node.param_names:
                if node.has_param(name):
                    node.set_param(name, _array(self.tensors[f"weight:{place}/{name}"]))
        for place, shim in _shims(nlp):
            get_module(shim).load_state_dict(self._section(f"weight:{place}/"))
            if (scale := get_loss_scale(shim)) and f"scale:{place}" in self.tensors:
                for kind, value in zip(_LOSS_SCALE, scale, strict=True):
                    value.copy_(self.tensors[f"{kind}:{place}"])
            if moments := self._section(f"torch:{place}/"):
                copied = {name: value.clone() for name, value in moments.items()}
                optimizer.load_torch_state(shim.id, get_module(shim), copied)
        for key, place, _ in _weights(nlp):
            for name in _MOMENTS:
                if (tensor := self.tensors.get(f"{name}:{place}")) is not None:
                    getattr(optimizer, name)[key] = _array(tensor)
            for name in _COUNTS:
                if place in self.counts[name]:
                    getattr(optimizer, name)[key] = self.counts[name][place]
        nlp.meta["performance"] = self.progress.performance
        random.setstate(_tuples(self.generators["python"]))
        np.random.set_state(_tuples(self.generators["numpy"]))
        torch.set_rng_state(self.tensors["generator:cpu"])
        for device in range(torch.cuda.device_count()):
            if (state := self.tensors.get(f"generator:cuda:{device}")) is not None:
                torch.cuda.set_rng_state(state, device)

    def _section(self, prefix: str) -> dict[str, torch.Tensor]:
        return {
            name.removeprefix(prefix): value
            for name, value in self.tensors.items()
            if name.startswith(prefix)
        }


def fingerprint(nlp: Language) -> dict[str, str]:
    """Digests of all that the result of training depends on: config, labels and inputs.

    The logger does not count. Inputs are the files and folders that `SECTIONS_WITH_INPUTS` name.
    """
    config = nlp.config.interpolate()
    config["training"].pop("logger", None)
    labels = {name: list(getattr(pipe, "labels", ())) for name, pipe in nlp.pipeline}
    digests = {"the config": _digest(config), "the labels": _digest(labels)}
    for section in SECTIONS_WITH_INPUTS:
        for path in find_paths(config.get(section, {})):
            digests[str(path)] = digest_files(path)
    return digests


def _digest(content: object) -> str:
    return hashlib.sha256(srsly.json_dumps(content, sort_keys=True).encode()).hexdigest()


def _nodes(nlp: Language) -> Iterator[tuple[str, Model]]:
    """Each layer of each component once, by component and number, as in any other process."""
    seen = set()
    for name, pipe in nlp.pipeline:
        model = getattr(pipe, "model", None)
        for number, node in enumerate(model.walk() if isinstance(model, Model) else ()):
            if node.id not in seen:
                seen.add(node.id)
                yield f"{name}/{number}", node


def _shims(nlp: Language) -> Iterator[tuple[str, PyTorchShim]]:
    """The layers with PyTorch modules."""
    for place, node in _nodes(nlp):
        for number, shim in enumerate(node.shims):
            if isinstance(shim, PyTorchShim) and get_module(shim) is not None:
                yield f"{place}/{number}", shim


def _weights(nlp: Language) -> Iterator[tuple[tuple[int, str], str, Any]]:
    """Each parameter or buffer: its key in a thinc optimizer, its name, and its value.

    Keys differ between processes, and names do not.
    """
    for place, node in _nodes(nlp):
        for name in node.param_names:
            if node.has_param(name):
                yield (node.id, name), f"{place}/{name}", node.get_param(name)
    for place, shim in _shims(nlp):
        for name, value in get_module(shim).state_dict().items():
            yield (shim.id, name), f"{place}/{name}", value


def _tuples(value: Any) -> Any:
    """The state of a generator, whose tuples JSON writes as lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _tensor(value: object) -> torch.Tensor:
    """An array of numpy, cupy or PyTorch, in main memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().contiguous()
    return torch.from_numpy(np.ascontiguousarray(to_numpy(value)))


def _array(tensor: torch.Tensor) -> object:
    """A copy for a layer, since arithmetic on the memory of a file may be slow."""
    return get_current_ops().asarray(tensor.numpy().copy())


def _without_shared_memory(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copy tensors that share memory, such as tied weights, since safetensors refuses them."""
    first = {value.data_ptr(): name for name, value in reversed(tensors.items())}
    return {
        name: value if first[value.data_ptr()] == name else value.clone()
        for name, value in tensors.items()
    }
