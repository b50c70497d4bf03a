import math

import numpy as np
import pytest

from spacy_biomed import BiomedError
from spacy_biomed.models.activations import create_activation

X = np.array([[-2.0, -0.5, 0.0, 0.5, 2.0]], dtype="float32")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("tanh", math.tanh),
        ("relu", lambda x: max(x, 0.0)),
        ("gelu", lambda x: 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))),
    ],
)
def test_an_activation_and_its_gradient(name, function):
    model = create_activation(name)
    model.initialize()
    expected = [function(x) for x in X[0].tolist()]
    np.testing.assert_allclose(model.predict(X.copy())[0], expected, atol=1e-6)
    _, backprop = model.begin_update(X.copy())
    step = 1e-4
    slopes = [(function(x + step) - function(x - step)) / (2 * step) for x in X[0].tolist()]
    slopes[2] = slopes[2] if name != "relu" else 0.0  # by convention
    np.testing.assert_allclose(backprop(np.ones_like(X))[0], slopes, atol=1e-4)


def test_an_unknown_activation_is_named():
    with pytest.raises(BiomedError, match="unknown activation 'silu': use tanh, relu or gelu"):
        create_activation("silu")
