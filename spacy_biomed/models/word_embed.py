"""`spacy_biomed.WordEmbed.v1`: vectors of words, computed once for each distinct word."""

from collections.abc import Callable
from itertools import count
from operator import is_

import numpy as np
from spacy.ml.models.tok2vec import MultiHashEmbed
from spacy.tokens import Doc
from thinc.api import CupyOps, Model, get_array_module

from ..arrays import Floats2d, Ints2d
from ..encoders.batching.ragged import borders, split_at
from ..errors import BiomedError

# Words whose vectors are kept: with vectors of 64 numbers these take 8 MB.
MOST_WORDS = 2**15


def WordEmbed_v1(width: int, attrs: list[str], rows: list[int]) -> Model[list[Doc], list[Floats2d]]:
    """spaCy's `MultiHashEmbed`, which in prediction computes each distinct word once.

    Training and weights are those of `spacy.MultiHashEmbed.v2`; vectors, (tokens, width) for each
    document, agree with it up to rounding. The vectors of up to 32,768 words are kept for later
    batches, until the weights change.

    Args:
        width: width of the vectors and of the embedding tables.
        attrs: attributes of tokens to embed, such as NORM, PREFIX, SUFFIX and SHAPE.
        rows: number of rows of each attribute's table.

    Raises:
        BiomedError: if `rows` and `attrs` differ in length.
    """
    if len(attrs) != len(rows):
        raise BiomedError(
            f"[features] rows: {len(rows)} for {len(attrs)} attributes; give a number for each of "
            "attrs"
        )
    embed = MultiHashEmbed(width, attrs, rows, include_static_vectors=False)
    return Model(
        "word_embed",
        _Forward(),
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


class _Forward:
    """The layer's function, with the vectors that it keeps.

    Threads may share it: each works with the vectors that were current when it began.
    """

    def __init__(self) -> None:
        self._kept: _WordVectors | None = None

    def __call__(
        self, model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
    ) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
        embed = model.layers[0]
        lengths = [len(doc) for doc in docs]
        if not any(lengths):
            return embed(docs, is_train)
        columns = model.attrs["columns"]
        words = np.concatenate([doc.to_array(columns).reshape(-1, len(columns)) for doc in docs])
        # On a GPU, finding equal words takes at least as long as embedding them.
        if is_train or isinstance(model.ops, CupyOps):
            self._kept = None
            return _embed_together(embed, words, docs, lengths, is_train)
        kept = self._kept
        vectors = kept.look_up(words) if kept is not None and kept.is_current(embed) else None
        if vectors is None:
            width, most = model.get_dim("nO"), max(MOST_WORDS, len(words))
            kept = self._kept = _WordVectors(embed, width, most)
            vectors = kept.look_up(words)
            assert vectors is not None
        return np.split(vectors, np.cumsum(lengths)[:-1]), lambda d_vectors: []

    def __getstate__(self) -> dict[str, None]:
        return {"_kept": None}


def _embed_together(
    embed: Model, words: Ints2d, docs: list[Doc], lengths: list[int], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """What the layer gives for the documents, with one transfer to a GPU for all of them."""
    [vectors], backprop = embed([_Words(words)], is_train)

    def backprop_together(d_vectors: list[Floats2d]) -> list[Doc]:
        backprop([get_array_module(d_vectors[0]).concatenate(d_vectors)])
        return docs

    return split_at(vectors, borders(lengths)), backprop_together


class _WordVectors:
    """The vectors of up to `most` words, as computed with the present weights."""

    def __init__(self, embed: Model, width: int, most: int):
        self._embed = embed
        self._named = [
            (node, name)
            for node in embed.walk()
            for name in node.param_names
            if node.has_param(name)
        ]
        self._weights = self._get_weights()
        # An optimizer may change weights in place. Whenever it does, it changes the biases too.
        self._biases = [weight.copy() for weight in self._weights if weight.ndim == 1]
        self._places: dict[bytes, int] = {}
        self._free = count()
        self._vectors = np.empty((most, width), dtype="float32")

    def is_current(self, embed: Model) -> bool:
        """Whether the layer and its weights are still the same."""
        if embed is not self._embed:
            return False
        weights = self._get_weights()
        biases = [weight for weight in weights if weight.ndim == 1]
        return all(map(is_, weights, self._weights)) and all(
            map(np.array_equal, biases, self._biases)
        )

    def _get_weights(self) -> list[Floats2d]:
        return [node.get_param(name) for node, name in self._named]

    def look_up(self, words: Ints2d) -> Floats2d | None:
        """(words, width) vectors by hashes, (words, attributes); None if new ones have no room."""
        keys = words.view(f"V{words.itemsize * words.shape[1]}").ravel().tolist()
        new = {key: i for i, key in enumerate(keys) if key not in self._places}
        if new:
            own = [place for _, place in zip(new, self._free, strict=False)]
            if own[-1] >= len(self._vectors):
                return None
            [self._vectors[own]] = self._embed.predict([_Words(words[list(new.values())])])
            self._places.update(zip(new, own, strict=True))
        places = np.fromiter(map(self._places.__getitem__, keys), "int64", len(keys))
        return self._vectors[places]


class _Words:
    """Words in the form in which spaCy's layer reads a document: (words, attributes)."""

    def __init__(self, attributes: Ints2d):
        self.attributes = attributes

    def to_array(self, columns: list[str]) -> Ints2d:
        return self.attributes

    def __len__(self) -> int:
        return len(self.attributes)
