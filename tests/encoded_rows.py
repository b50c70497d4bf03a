"""Look at the rows of encoders, and at what they are computed from."""

import numpy as np

TEXTS = [
    "Aspirin reduced the risk of cancer.",
    "a",
    "El paciente presentó náuseas,  vómitos y fiebre de 39 °C tras la quimioterapia.",
    "",
    "No metastasis.\n\n",
]


def spy_on_shapes(model, monkeypatch):
    """Record the shape of every batch of sequences that reaches the encoder."""
    shapes, encode = [], model.shims[0].encode

    def record(batches):
        shapes.extend(batch.ids.shape for batch in batches)
        return encode(batches)

    monkeypatch.setattr(model.shims[0], "encode", record)
    return shapes


def cosines(left, right):
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return (left * right).sum(axis=1) / norms
