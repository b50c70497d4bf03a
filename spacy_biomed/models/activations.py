"""Activation functions as layers without weights."""

from collections.abc import Callable
from typing import Literal

from thinc.api import Model

from ..arrays import Floats2d
from ..errors import BiomedError, list_choices

Activation = Literal["tanh", "relu", "gelu"]


def create_activation(name: Activation) -> Model[Floats2d, Floats2d]:
    """Create the layer, which follows a linear one: in prediction it may overwrite its input.

    Args:
        name: "tanh"; "relu", the rectified linear unit; or "gelu", the Gaussian error linear unit.
            As in BERT it has the error function and not its approximation (Hendrycks and Gimpel
            2016, "Gaussian Error Linear Units", section 2).
    """
    if name not in _FUNCTIONS:
        raise BiomedError(f"unknown activation '{name}': {list_choices(name, _FUNCTIONS)}")
    return Model(name, _FUNCTIONS[name])


def forward_tanh(
    model: Model[Floats2d, Floats2d], X: Floats2d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    output = model.ops.xp.tanh(X)
    return output, lambda d_output: d_output * model.ops.dtanh(output)


def forward_relu(
    model: Model[Floats2d, Floats2d], X: Floats2d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    # What a linear layer gave belongs to nobody else; its gradient needs the output alone.
    output = model.ops.xp.maximum(X, 0.0, out=None if is_train else X)
    return output, lambda d_output: d_output * (output > 0.0)


def forward_gelu(
    model: Model[Floats2d, Floats2d], X: Floats2d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    output = model.ops.gelu(X)
    return output, lambda d_output: model.ops.backprop_gelu(d_output, X)


_FUNCTIONS = {"tanh": forward_tanh, "relu": forward_relu, "gelu": forward_gelu}
