"""A linear layer over each row and its neighbours in the same sequence."""

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
from thinc.api import Model, Ops, glorot_uniform_init
from thinc.types import Ragged

from ..arrays import Floats2d, Ints1d
from ..encoders.batching.concurrency import matmul


def WindowLinear(
    nO: int | None = None, nI: int | None = None, window_size: int = 1
) -> Model[Ragged, Floats2d]:
    """A linear layer over each row and as many neighbours on each side, without padding vectors.

    The rows are many times wider than the output, so they are not concatenated, and each is
    multiplied only once. The weights W, (neighbours * nO, nI), have a block for each neighbour,
    from left to right.

    Returns:
        a model that takes a Ragged of data (rows, nI) and lengths (sequences,), and returns
        (rows, nO).
    """
    return Model(
        "window_linear",
        forward,
        init=init,
        dims={"nO": nO, "nI": nI},
        params={"W": None, "b": None},
        attrs={"window_size": window_size},
    )


def init(
    model: Model[Ragged, Floats2d], X: Ragged | None = None, Y: Floats2d | None = None
) -> Model[Ragged, Floats2d]:
    if X is not None:
        model.set_dim("nI", X.dataXd.shape[1])
    if Y is not None:
        model.set_dim("nO", Y.shape[1])
    places = 2 * model.attrs["window_size"] + 1
    n_out, n_in = model.get_dim("nO"), model.get_dim("nI")
    # Drawn like the weights of one linear layer over all neighbours: its width sets their scale.
    W = glorot_uniform_init(model.ops, (n_out, places * n_in)).reshape(n_out, places, n_in)
    model.set_param("W", model.ops.as_contig(W.transpose(1, 0, 2).reshape(-1, n_in)))
    model.set_param("b", model.ops.alloc1f(n_out))
    return model


def forward(
    model: Model[Ragged, Floats2d], X: Ragged, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Ragged]]:
    n_out, n_in = model.get_dim("nO"), model.get_dim("nI")
    rows = X.dataXd.reshape(-1, n_in)  # an empty Ragged does not keep its width
    W = model.get_param("W")  # (neighbours * nO, nI)
    blocks = _product(model.ops, rows, W.T)
    xp, window_size = model.ops.xp, model.attrs["window_size"]
    output = blocks[:, window_size * n_out : (window_size + 1) * n_out] + model.get_param("b")
    neighbours = list(find_neighbours(xp, X.lengths, len(rows), window_size))
    for block, (own, neighbour, outside) in enumerate(neighbours):
        if block == window_size:  # the rows themselves
            continue
        part = blocks[neighbour, block * n_out : (block + 1) * n_out]
        _clear(part, outside)  # no other row reads these values
        output[own] += part

    def backprop(d_output: Floats2d) -> Ragged:
        d_blocks = model.ops.alloc2f(*blocks.shape)
        for block, (own, neighbour, outside) in enumerate(neighbours):
            d_part = d_blocks[neighbour, block * n_out : (block + 1) * n_out]
            d_part[:] = d_output[own]
            _clear(d_part, outside)
        model.inc_grad("W", _product(model.ops, d_blocks.T, rows))
        model.inc_grad("b", d_output.sum(axis=0))
        return Ragged(_product(model.ops, d_blocks, W), X.lengths)

    return output, backprop


def _product(ops: Ops, left: Floats2d, right: Floats2d) -> Floats2d:
    """The product, without `ops.gemm`, which on CPUs is several times slower on these shapes."""
    return matmul(left, right) if ops.xp is np else left @ right


def find_neighbours(
    xp: ModuleType, lengths: Ints1d, count: int, window_size: int
) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """For each place in the window, from left to right, three indices of rows.

    They are the rows that have a neighbour at this place; these neighbours; and which of the
    neighbours belong to another sequence, as booleans.
    """
    # On a GPU, `repeat` would copy each sequence by itself.
    sequence = xp.searchsorted(xp.cumsum(lengths), xp.arange(count), side="right")
    for offset in range(-window_size, window_size + 1):
        reach = max(count - abs(offset), 0)
        start = max(-offset, 0)
        own = slice(start, start + reach)
        neighbour = slice(start + offset, start + offset + reach)
        yield own, neighbour, sequence[own] != sequence[neighbour]


def _clear(rows: Floats2d, chosen: np.ndarray) -> None:
    """Set the rows that are chosen by booleans to zero."""
    if isinstance(rows, np.ndarray):
        rows[chosen] = 0.0
    else:  # on a GPU the chosen rows would have to be counted first
        rows *= ~chosen[:, None]
