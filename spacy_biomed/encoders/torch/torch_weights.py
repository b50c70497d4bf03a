"""Weights of a PyTorch encoder that autocast would make again for each call."""

import copy
from functools import cached_property

import torch


class LinearCasts:
    """A copy of an encoder in fp32 whose linear layers have weights in bf16.

    Autocast would create these for every call. All other weights are shared with the encoder.
    """

    def __init__(self, encoder: torch.nn.Module):
        self._encoder = encoder
        self._own = _linear_parameters(encoder)
        self._made_of: list[tuple[int, int]] | None = None

    def encoder(self) -> torch.nn.Module:
        """The copy, created when first needed and updated when the encoder has changed."""
        state = [(parameter.data_ptr(), parameter._version) for parameter in self._own]
        if self._made_of != state:
            with torch.no_grad():
                for cast, own in zip(_linear_parameters(self._copy), self._own, strict=True):
                    cast.copy_(own)
            self._made_of = state
        return self._copy

    def forget(self) -> None:
        """Cast again, after a change that does not show in the version counters of weights."""
        self._made_of = None

    @cached_property
    def weights(self) -> list[torch.nn.Parameter]:
        """The copy's weights, in the order of the encoder's."""
        return list(self._copy.parameters())

    @cached_property
    def _copy(self) -> torch.nn.Module:
        shared = (*self._encoder.parameters(), *self._encoder.buffers())
        memo: dict[int, object] = {id(one): one for one in shared}
        for one in self._own:
            memo[id(one)] = torch.nn.Parameter(
                torch.empty_like(one, dtype=torch.bfloat16), requires_grad=one.requires_grad
            )
        return copy.deepcopy(self._encoder, memo)


def _linear_parameters(encoder: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [
        parameter
        for module in encoder.modules()
        if isinstance(module, torch.nn.Linear)
        for parameter in module.parameters()
    ]
