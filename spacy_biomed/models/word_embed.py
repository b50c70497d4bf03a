"""`spacy_biomed.WordEmbed.v1`: vectors of words, computed once for each distinct word."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from spacy.ml.models.tok2vec import MultiHashEmbed
from spacy.tokens import Doc
from thinc.api import CupyOps, Model
from thinc.types import Floats2d, Ints1d, Ints2d

# With fewer words, finding equal words costs more than embedding all of them.
_LEAST_WORDS = 64

# Odd. Its powers are the weights of a row's columns in the number that identifies the row.
_FACTOR = 0x9E3779B97F4A7C15


def WordEmbed_v1(width: int, attrs: list[str], rows: list[int]) -> Model[list[Doc], list[Floats2d]]:
    """spaCy's `MultiHashEmbed`, which in prediction computes each distinct word of a batch once.

    Training and weights are those of `spacy.MultiHashEmbed.v2`; vectors agree with it up to
    rounding.

    Args:
        width: width of the vectors and of the embedding tables.
        attrs: attributes of tokens to embed, such as NORM, PREFIX, SUFFIX and SHAPE.
        rows: number of rows of each attribute's table.

    Returns:
        a model that returns (tokens, width) for each document.

    Raises:
        ValueError: if `rows` and `attrs` differ in length.
    """
    embed = MultiHashEmbed(width, attrs, rows, include_static_vectors=False)
    return Model(
        "word_embed",
        forward,
        init=init,
        dims={"nO": width},
        attrs={"columns": attrs},
        layers=[embed],
    )


def init(
    model: Model[list[Doc], list[Floats2d]], X: list[Doc] | None = None, Y: object = None
) -> Model[list[Doc], list[Floats2d]]:
    model.layers[0].initialize(X=X)
    return model


def forward(
    model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    embed = model.layers[0]
    lengths = [len(doc) for doc in docs]
    # On a GPU, finding equal rows takes at least as long as embedding them.
    if is_train or isinstance(model.ops, CupyOps) or sum(lengths) < _LEAST_WORDS:
        return embed(docs, is_train)
    columns = model.attrs["columns"]
    words = np.concatenate([doc.to_array(columns).reshape(len(doc), len(columns)) for doc in docs])
    first, inverse = _distinct(words)
    [vectors] = embed.predict([_Words(words[first])])
    return np.split(vectors[inverse], np.cumsum(lengths)[:-1]), lambda d_vectors: []


class _Words:
    """Words in the form in which spaCy's layer reads a document: (words, attributes)."""

    def __init__(self, attributes: Ints2d):
        self.attributes = attributes

    def to_array(self, columns: list[str]) -> Ints2d:
        return self.attributes

    def __len__(self) -> int:
        return len(self.attributes)


class _Distinct:
    """Finds equal words, and keeps the last result: a pipeline's heads ask for the same words."""

    def __init__(self) -> None:
        self._last: tuple[Ints2d, tuple[Ints1d, Ints1d]] | None = None

    def __call__(self, words: Ints2d) -> tuple[Ints1d, Ints1d]:
        """The result of `_find_distinct`."""
        last = self._last
        if last is not None and np.array_equal(last[0], words):
            return last[1]
        result = _find_distinct(words)
        self._last = words, result
        return result


_distinct = _Distinct()


def _find_distinct(rows: Ints2d) -> tuple[Ints1d, Ints1d]:
    """Find equal rows, by a 64-bit number that is computed from the hashes in a row.

    Returns:
        (distinct,) index of the first row of each kind; (rows,) the kind of each row.
    """
    factors = np.cumprod(np.full(rows.shape[1], _FACTOR, dtype="uint64"))
    numbers = (rows.astype("uint64") * factors).sum(axis=1)
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return first, inverse
