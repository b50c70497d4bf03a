"""A linear layer over each row and its neighbours in the same sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from thinc.api import Model, Ops, glorot_uniform_init
from thinc.types import Floats2d, Ints1d, Ragged


def WindowLinear(
    nO: int | None = None, nI: int | None = None, window_size: int = 1
) -> Model[Ragged, Floats2d]:
    """A convolution of width `2 * window_size + 1` over each sequence, without padding vectors.

    The same as concatenating each row with its neighbours and applying a linear layer, but the
    rows, many times wider than the output, are neither copied nor multiplied more than once.

    nO: width of the output.
    nI: width of a row.
    window_size: neighbours on each side.
    RETURNS: a model from a Ragged of data (rows, nI) and lengths (sequences,) to (rows, nO).
    """
    return Model(
        "window_linear",
        forward,
        init=init,
        dims={"nO": nO, "nI": nI},
        params={"W": None, "b": None},
        attrs={"window_size": window_size},
    )


def Relu() -> Model[Floats2d, Floats2d]:
    """Rectified linear units, without weights of their own."""
    return Model("relu", forward_relu)


def forward_relu(
    model: Model[Floats2d, Floats2d], X: Floats2d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    output = model.ops.xp.maximum(X, 0.0)
    return output, lambda d_output: d_output * (output > 0.0)


def init(
    model: Model[Ragged, Floats2d], X: Ragged | None = None, Y: Floats2d | None = None
) -> Model[Ragged, Floats2d]:
    if X is not None:
        model.set_dim("nI", X.dataXd.shape[1])
    if Y is not None:
        model.set_dim("nO", Y.shape[1])
    width, n_out = 2 * model.attrs["window_size"] + 1, model.get_dim("nO")
    shape = (n_out, width * model.get_dim("nI"))
    model.set_param("W", glorot_uniform_init(model.ops, shape))
    model.set_param("b", model.ops.alloc1f(n_out))
    return model


def forward(
    model: Model[Ragged, Floats2d], X: Ragged, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Ragged]]:
    n_out, n_in = model.get_dim("nO"), model.get_dim("nI")
    rows = X.dataXd.reshape(-1, n_in)  # an empty Ragged forgets its width
    # From a row of weights for each output, neighbours side by side, to a block for each neighbour.
    by_output = model.get_param("W").reshape(n_out, -1, n_in)
    W = model.ops.as_contig(by_output.transpose(1, 0, 2).reshape(-1, n_in))
    # Not `ops.gemm`, whose library on CPUs is several times slower on these shapes.
    blocks = rows @ W.T  # (rows, neighbours * nO)
    output = model.ops.alloc2f(len(rows), n_out) + model.get_param("b")
    pairs = list(_neighbours(model.ops, X.lengths, model.attrs["window_size"]))
    for block, (own, neighbour) in enumerate(pairs):
        output[own] += blocks[neighbour, block * n_out : (block + 1) * n_out]

    def backprop(d_output: Floats2d) -> Ragged:
        d_blocks = model.ops.alloc2f(*blocks.shape)
        for block, (own, neighbour) in enumerate(pairs):
            d_blocks[neighbour, block * n_out : (block + 1) * n_out] = d_output[own]
        d_W = (d_blocks.T @ rows).reshape(-1, n_out, n_in)
        model.inc_grad("W", model.ops.as_contig(d_W.transpose(1, 0, 2).reshape(n_out, -1)))
        model.inc_grad("b", d_output.sum(axis=0))
        return Ragged(d_blocks @ W, X.lengths)

    return output, backprop


def _neighbours(ops: Ops, lengths: Ints1d, window_size: int) -> Iterator[tuple[Ints1d, Ints1d]]:
    """For each place in the window, the rows that have such a neighbour, and the neighbours."""
    sequence = ops.xp.repeat(ops.xp.arange(len(lengths)), lengths.tolist())
    rows = ops.xp.arange(len(sequence))
    for offset in range(-window_size, window_size + 1):
        own = rows[max(-offset, 0) : len(rows) - max(offset, 0)]
        inside = own[sequence[own] == sequence[own + offset]]
        yield inside, inside + offset
