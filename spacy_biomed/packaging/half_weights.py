"""Trained pipelines with their weights in half precision on disk, otherwise unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import srsly
import torch
from safetensors.torch import load_file, save_file
from spacy.language import Language
from thinc.api import to_numpy

from ..encoders.loading import CONFIG, WEIGHTS
from ..errors import BiomedError
from ..pipeline.encoder_head import EncoderHead

# The largest number that half precision holds.
_LARGEST = float(np.finfo("float16").max)


def halve_encoder(directory: Path) -> None:
    """Rewrite the encoder directory of a `biomed_transformer` with its weights in half precision.

    Raises:
        BiomedError: if a weight is too large for half precision.
    """
    weights = load_file(directory / WEIGHTS)
    for name, weight in weights.items():
        if weight.is_floating_point():
            _check(name, weight.abs().max().item() if weight.numel() else 0.0)
            weights[name] = weight.to(torch.float16)
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((directory / CONFIG).read_text(encoding="utf8"))
    config["torch_dtype"] = "float16"
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf8")


def halve_heads(nlp: Language, path: Path) -> None:
    """Rewrite the models of a pipeline's heads, in the pipeline's directory, in half precision.

    Only heads of this package are rewritten. They compute in fp32 when they are loaded again.

    Raises:
        BiomedError: if a weight is too large for half precision.
    """
    for name, head in nlp.components:
        if not isinstance(head, EncoderHead):
            continue
        content = head.model.to_dict()
        for params in content["params"]:
            for param, value in params.items():
                if value is not None and value.dtype.kind == "f":
                    array = to_numpy(value)
                    _check(f"{name}: {param}", float(np.abs(array).max(initial=0.0)))
                    params[param] = array.astype("float16")
        (path / name / "model").write_bytes(srsly.msgpack_dumps(content))


def _check(name: str, largest: float) -> None:
    if not largest <= _LARGEST:
        raise BiomedError(
            f"{name}: a weight of {largest:.3g} is too large for fp16; keep the pipeline as it is"
        )
