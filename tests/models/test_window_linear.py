import numpy as np
import pytest
from thinc.types import Ragged

from spacy_biomed.models.window_linear import WindowLinear


@pytest.mark.parametrize("window_size", [0, 1, 2])
def test_it_is_a_linear_layer_over_concatenated_neighbours(window_size):
    rng = np.random.default_rng(0)
    lengths = np.array([4, 0, 1, 2], dtype="int32")
    rows = rng.normal(size=(7, 3)).astype("float32")
    model = WindowLinear(nO=2, nI=3, window_size=window_size).initialize()
    model.set_param("b", np.array([0.5, -1.0], dtype="float32"))
    windows = model.ops.seq2col(rows, window_size, lengths=lengths) if window_size else rows
    # From a block of rows for each neighbour to one row over all neighbours for each output.
    blocks = model.get_param("W").reshape(-1, 2, 3)
    W = np.concatenate(blocks, axis=1)

    output, backprop = model.begin_update(Ragged(rows, lengths))
    np.testing.assert_allclose(output, windows @ W.T + [0.5, -1.0], rtol=1e-5, atol=1e-6)

    d_output = rng.normal(size=output.shape).astype("float32")
    d_rows = backprop(d_output).dataXd
    d_W = np.concatenate(model.get_grad("W").reshape(blocks.shape), axis=1)
    np.testing.assert_allclose(d_W, d_output.T @ windows, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.get_grad("b"), d_output.sum(axis=0), rtol=1e-5, atol=1e-6)
    expected = model.ops.as_contig(d_output @ W)
    if window_size:
        expected = model.ops.backprop_seq2col(expected, window_size, lengths=lengths)
    np.testing.assert_allclose(d_rows, expected, rtol=1e-4, atol=1e-6)


def test_prediction_gives_the_same_as_training():
    rows = np.random.default_rng(0).normal(size=(1000, 3)).astype("float32")
    batch = Ragged(rows, np.array([600, 400], dtype="int32"))
    model = WindowLinear(nO=2, nI=3).initialize()
    np.testing.assert_allclose(model.predict(batch), model.begin_update(batch)[0], atol=1e-6)
