"""Activation functions as layers without weights."""

from collections.abc import Callable
from typing import Literal, get_args

from thinc.api import Model

from ..arrays import Floats2d
from ..errors import BiomedError, list_choices

Activation = Literal["tanh", "relu", "gelu"]


def create_activation(name: Activation) -> Model[Floats2d, Floats2d]:
    """Create the layer, which follows a linear one: in prediction it may overwrite its input.

    It is "tanh"; "relu", the rectified linear unit; or "gelu", the Gaussian error linear unit. As
    in BERT it has the error function and not its approximation (Hendrycks and Gimpel 2016,
    "Gaussian Error Linear Units", section 2).
    """
    if name not in get_args(Activation):
        advice = list_choices(name, get_args(Activation))
        raise BiomedError(f"unknown activation '{name}': {advice}")
    return Model(name, forward)


def forward(
    model: Model[Floats2d, Floats2d], X: Floats2d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    ops = model.ops
    if model.name == "gelu":
        return ops.gelu(X), lambda d_output: ops.backprop_gelu(d_output, X)
    if model.name == "tanh":
        output = ops.xp.tanh(X)
        return output, lambda d_output: d_output * ops.dtanh(output)
    # What a linear layer gave belongs to nobody else; the gradient needs the output alone.
    output = ops.xp.maximum(X, 0.0, out=None if is_train else X)
    return output, lambda d_output: d_output * (output > 0.0)
