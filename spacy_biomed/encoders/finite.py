"""Weights and scores that are not finite numbers are refused: nothing can be found with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from thinc.api import Model

from ..arrays import FloatsXd
from ..errors import DamagedPipelineError

if TYPE_CHECKING:
    import torch

ADVICE = "copy or install it again"


def is_finite(values: FloatsXd | torch.Tensor) -> bool:
    """Whether all numbers of an array or a tensor are finite, found out in one pass."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(float(values.sum())))


def check_scores(scores: FloatsXd | torch.Tensor, what: str) -> None:
    """Raise DamagedPipelineError if a score of the component `what` is not a finite number."""
    if not is_finite(scores):
        raise DamagedPipelineError(
            f"{what} gives scores that are not finite numbers: the weights of the pipeline are "
            f"damaged; {ADVICE}, or if you are training it, lower the learning rate"
        )


def check_weights(weights: Iterable[tuple[str, FloatsXd | torch.Tensor]], what: object) -> None:
    """Raise DamagedPipelineError if a weight, an array or a tensor by name, is not finite."""
    for name, weight in weights:
        if not is_finite(weight):
            raise DamagedPipelineError(
                f"{what}: its weights are damaged ({name} has numbers that are not finite); "
                f"{ADVICE}"
            )


def check_layers(model: Model, what: str) -> None:
    """Check that a loaded model has all its weights, as finite numbers, or none yet."""
    places = [(node, name) for node in model.walk() for name in node.param_names]
    missing = [f"{name} of {node.name}" for node, name in places if not node.has_param(name)]
    if len(missing) == len(places):
        return
    if missing:
        raise DamagedPipelineError(
            f"{what}: its weights lack {missing[0]} ({len(missing)} of {len(places)} are missing); "
            f"{ADVICE}"
        )
    named = ((f"{name} of {node.name}", node.get_param(name)) for node, name in places)
    check_weights(named, what)
