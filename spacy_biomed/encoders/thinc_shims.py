"""What thinc's PyTorch layers have in private attributes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thinc.api import PyTorchShim

if TYPE_CHECKING:
    import torch


def get_module(shim: PyTorchShim) -> torch.nn.Module:
    """The PyTorch module of a layer; None before it is created."""
    return shim._model


def get_loss_scale(shim: PyTorchShim) -> tuple[torch.Tensor, torch.Tensor] | None:
    """By how much fp16 training scales losses, and for how many steps it has.

    These are two tensors of one number, which may be written to; None if losses are not scaled.
    """
    scaler = shim._grad_scaler
    return (scaler._scale, scaler._growth_tracker) if scaler._enabled else None
