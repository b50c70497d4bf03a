"""Weights and gradients of a PyTorch encoder that are expensive to allocate repeatedly."""

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


class TableGradient:
    """The gradient of an embedding table, in memory that is reused in every step.

    Allocating and zeroing an array as large as the table takes a tenth of a step.
    """

    def __init__(self) -> None:
        self._memory: torch.Tensor | None = None
        self._touched: list[torch.Tensor] = []

    def add(self, table: torch.nn.Embedding, ids: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add the gradient of some rows, (ids, width), to that of the table."""
        if table.weight.grad is None:
            self.clear()
            self._memory = torch.zeros_like(table.weight) if self._memory is None else self._memory
            table.weight.grad = self._memory
        if table.padding_idx is not None:
            gradient[ids == table.padding_idx] = 0.0
        table.weight.grad.index_add_(0, ids, gradient)
        self._touched.append(ids)

    def clear(self) -> None:
        """Zero the rows in use, after a step."""
        if self._memory is not None:
            for ids in self._touched:
                self._memory[ids] = 0.0
        self._touched.clear()

    def forget(self) -> None:
        """Release the memory, after other code has written to it."""
        self._memory = None
        self._touched.clear()


def _linear_parameters(encoder: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [
        parameter
        for module in encoder.modules()
        if isinstance(module, torch.nn.Linear)
        for parameter in module.parameters()
    ]
