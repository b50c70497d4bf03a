"""`spacy_biomed.EncoderListener.v1`: a head's view of the upstream encoder of either kind.

Annotations are types and not strings: by them spaCy checks the settings of a class in a config.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model, Ops
from thinc.types import Ragged

from ..arrays import Floats2d, Ints1d
from ..errors import BiomedError, list_choices
from .batching.encoded import EncodedBackprop, EncodedBatch, get_encoding, release_encoding
from .batching.ragged import borders, split_at

Pooling = Literal["first", "mean", "pieces", "cls"]
NO_ENCODER = (
    "no encoder comes before the head that needs one: put biomed_transformer first in "
    'nlp.pipeline, and give its name, or "*", as the upstream of the head'
)


class EncoderListener(Model):
    """A layer that an encoder component feeds; its only computation is the pooling.

    In training the encoder calls `receive` before the head runs, and the head's gradient goes back
    to it. In prediction, and if the encoder is frozen, the encodings are read from the documents. A
    document without one, as after the last listener has read it, is encoded for this layer alone.

    Args:
        pooling: "first" gives a token the vector of its first word piece, "mean" the mean over all
            its word pieces. The layer returns (tokens, width) for each document, with zeros for a
            token without word pieces. "pieces" keeps the word pieces apart and returns for each
            document a Ragged of data (aligned, width) and lengths (tokens,). "cls" gives one row
            for each document, (1, width): the vector of its first position, which is the special
            token [CLS] or <s> of its first window. A document without tokens gets zeros.
        grad_factor: multiplies the gradient that goes back to the encoder; 0.0 keeps this head from
            training it.
        upstream: name of the encoder component, or "*" for any.

    Attributes:
        encoder: the model of the component that it listens to, for documents without an encoding
            and for heads that encode separate texts; None if the pipeline has none.
        own_encoder: the one that the head was loaded or trained with; None if it was neither.
        is_sizing: whether the head is being initialised, when zeros are sufficient (`sizing`).
    """

    def __init__(self, pooling: Pooling = "first", grad_factor: float = 1.0, upstream: str = "*"):
        super().__init__(
            "encoder_listener",
            forward,
            dims={"nO": None},
            attrs={"pooling": pooling, "grad_factor": grad_factor},
        )
        self.upstream_name = upstream
        self.encoder: Model[list[Doc], EncodedBatch] | None = None
        self.own_encoder: Model[list[Doc], EncodedBatch] | None = None
        self.is_sizing = False
        # The documents of a training batch, and what the encoder sent for it.
        self._received: tuple[list[Doc], EncodedBatch, EncodedBackprop] | None = None

    def receive(self, docs: list[Doc], outputs: EncodedBatch, backprop: EncodedBackprop) -> None:
        """Take a training batch from the encoder, to be consumed by the next `begin_update`."""
        self._received = docs, outputs, backprop

    def has_received(self, docs: list[Doc]) -> bool:
        """Whether the encoder sent this training batch: a frozen encoder sends none."""
        return self._received is not None and self._received[0] == docs

    def take(self, docs: list[Doc]) -> tuple[EncodedBatch, EncodedBackprop]:
        """Return the received batch, once; raise ValueError if it was another batch."""
        if self._received is None or not self.has_received(docs):
            raise ValueError(f"{self.name}: the encoder was given other documents than this layer")
        _, outputs, backprop = self._received
        self._received = None
        return outputs, backprop

    def skip(self, docs: list[Doc]) -> None:
        """Discard a training batch that gives the head no loss.

        The encoder, which waits for all listeners, gets no gradient, which is equivalent to zeros.
        If the encoder is frozen, the encodings are on the documents, which drop them.
        """
        if self.has_received(docs):
            _, backprop = self.take(docs)
            backprop(None)
            return
        for doc in docs:
            release_encoding(doc, self.upstream_name)


@contextmanager
def sizing(model: Model) -> Iterator[None]:
    """While a head's model is initialised, its listeners give zeros and nothing is encoded."""
    listeners = [node for node in model.walk() if isinstance(node, EncoderListener)]
    for listener in listeners:
        if not listener.has_dim("nO"):
            raise BiomedError(NO_ENCODER)
        listener.is_sizing = True
    try:
        yield
    finally:
        for listener in listeners:
            listener.is_sizing = False


def check_pooling(tok2vec: Model, architecture: str, *allowed: Pooling) -> None:
    """Raise BiomedError if a listener pools as an architecture cannot read it."""
    pooling = tok2vec.attrs.get("pooling", allowed[0])  # other layers than listeners have none
    if pooling not in allowed:
        raise BiomedError(
            f"[model.tok2vec] pooling = '{pooling}' does not fit "
            f"spacy_biomed.{architecture}.v1: {list_choices(pooling, allowed)}"
        )


def refuse_replacement(encoder: dict[str, object], listener: dict[str, object]) -> NoReturn:
    """Refuse spaCy's `nlp.replace_listeners`, which gives a head a copy of the encoder.

    A head's model cannot contain an encoder: it would not be trained, saved or run like a layer.
    """
    raise BiomedError(
        "a head cannot have a copy of its encoder inside (replace_listeners): put a second encoder "
        "component in front of it, under another name, and freeze it where it is not to learn"
    )


def forward(
    model: EncoderListener, docs: list[Doc], is_train: bool
) -> tuple[list, Callable[[list], list]]:
    if model.is_sizing:
        return _zeros(model, docs), lambda d_outputs: []
    if is_train:
        model.own_encoder = model.encoder
    batch, backprop_batch = _read(model, docs, is_train)
    own, given = model.maybe_get_dim("nO"), batch.hidden.shape[1]
    if own not in (None, given):
        raise BiomedError(
            f"a head was trained on vectors of {own} numbers, and the encoder here gives {given}: "
            "add the encoder of the head's pipeline before it, under another name"
        )
    outputs, backprop_pooling = POOLINGS[model.attrs["pooling"]](model.ops, batch)

    def backprop(d_outputs: list) -> list:
        d_hidden = backprop_pooling(d_outputs)
        d_hidden *= model.attrs["grad_factor"]
        backprop_batch(d_hidden)
        return []

    return outputs, backprop


def _read(
    model: EncoderListener, docs: list[Doc], is_train: bool
) -> tuple[EncodedBatch, EncodedBackprop]:
    if is_train and model.has_received(docs):
        return model.take(docs)
    encodings: list[Any] = [get_encoding(doc, model.upstream_name) for doc in docs]
    missing = [i for i, encoding in enumerate(encodings) if encoding is None]
    if missing and is_train and model._received is not None:
        model.take(docs)  # which says that it is another batch
    if missing:
        if model.encoder is None or not model.encoder.has_dim("nO"):
            raise BiomedError(f"a document has no encoding, and {NO_ENCODER}")
        encoded = model.encoder.predict([docs[i] for i in missing])
        for i, encoding in zip(missing, encoded.split(), strict=True):
            encodings[i] = encoding
    for doc in docs:
        release_encoding(doc, model.upstream_name)
    return EncodedBatch.from_docs(encodings), lambda d_hidden: []


def _zeros(model: EncoderListener, docs: list[Doc]) -> list:
    """The input that a head is initialised with."""
    width, pooling = model.get_dim("nO"), model.attrs["pooling"]
    outputs = [model.ops.alloc2f(1 if pooling == "cls" else len(doc), width) for doc in docs]
    if pooling != "pieces":
        return outputs
    return [Ragged(data, model.ops.alloc1i(len(data)) + 1) for data in outputs]


def _first(ops: Ops, batch: EncodedBatch) -> tuple[list[Floats2d], Callable]:
    return _gather(ops, batch, batch.first_rows(), borders(batch.token_counts))


def _cls(ops: Ops, batch: EncodedBatch) -> tuple[list[Floats2d], Callable]:
    if len(batch.ids) == 0:  # documents without tokens alone
        zeros = [ops.alloc2f(1, batch.hidden.shape[1]) for _ in range(len(batch))]
        return zeros, lambda d_outputs: ops.alloc2f(*batch.hidden.shape)
    rows = np.where(batch.row_counts > 0, borders(batch.row_counts)[:-1], -1)
    return _gather(ops, batch, rows, np.arange(len(batch) + 1))


def _gather(
    ops: Ops, batch: EncodedBatch, rows: Ints1d, places: Ints1d
) -> tuple[list[Floats2d], Callable]:
    """These rows of the batch, or zeros for -1, with a document's between two places."""
    missing = ops.xp.asarray(np.flatnonzero(rows < 0))
    rows = np.maximum(rows, 0)
    vectors = batch.hidden[ops.xp.asarray(rows)]
    if len(missing):
        vectors[missing] = 0.0

    def backprop(d_outputs: list[Floats2d]) -> Floats2d:
        d_vectors = ops.xp.concatenate(d_outputs)
        if len(missing):
            d_vectors[missing] = 0.0
        return _scatter(ops, batch, rows, d_vectors)

    return split_at(vectors, places), backprop


def _mean(ops: Ops, batch: EncodedBatch) -> tuple[list[Floats2d], Callable]:
    rows = batch.aligned_rows()
    if len(rows) == 0:  # white space alone, which thinc's means refuse
        return _first(ops, batch)
    counts = ops.asarray1i(batch.piece_counts)
    vectors = ops.reduce_mean(batch.hidden[ops.xp.asarray(rows)], counts)

    def backprop(d_outputs: list[Floats2d]) -> Floats2d:
        d_vectors = ops.xp.concatenate(d_outputs)
        return _scatter(ops, batch, rows, ops.backprop_reduce_mean(d_vectors, counts))

    return split_at(vectors, borders(batch.token_counts)), backprop


def _pieces(ops: Ops, batch: EncodedBatch) -> tuple[list[Ragged], Callable]:
    rows = batch.aligned_rows()
    tokens = borders(batch.token_counts)
    lengths = split_at(batch.piece_counts, tokens)
    aligned = borders(batch.piece_counts)[tokens]
    vectors = split_at(batch.hidden[ops.xp.asarray(rows)], aligned)
    outputs = [
        Ragged(data, ops.asarray1i(doc_lengths))
        for data, doc_lengths in zip(vectors, lengths, strict=True)
    ]

    def backprop(d_outputs: list[Ragged]) -> Floats2d:
        d_vectors = ops.xp.concatenate([d_output.dataXd for d_output in d_outputs])
        return _scatter(ops, batch, rows, d_vectors)

    return outputs, backprop


POOLINGS = {"first": _first, "mean": _mean, "pieces": _pieces, "cls": _cls}


def _scatter(ops: Ops, batch: EncodedBatch, rows: np.ndarray, d_vectors: Floats2d) -> Floats2d:
    """Add each vector to the row that it came from."""
    d_hidden = ops.alloc2f(*batch.hidden.shape)
    ops.scatter_add(d_hidden, ops.asarray1i(rows), d_vectors)
    return d_hidden


# The registered name.
EncoderListener_v1 = EncoderListener
