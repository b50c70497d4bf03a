"""Scores for every token, or every word piece of it: of tags, or of the ends of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, Ops, Optimizer, Shim, chain, to_numpy
from thinc.types import Ragged

from ..arrays import Floats2d, Ints1d
from ..encoders.batching.ragged import borders, split_at
from ..encoders.listener import check_pooling
from ..normalization import get_text, normalize_text, strip_accents
from .activations import create_activation
from .window_linear import WindowLinear


class FormerCopy(Shim):
    """The place of a copy of the layers in int8 that compressed pipelines once had; not read."""

    def to_bytes(self) -> bytes:
        return b""

    def from_bytes(self, data: bytes) -> FormerCopy:
        return self

    def finish_update(self, optimizer: Optimizer) -> None:
        """Do nothing: it has no weights."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: it has no weights."""


def TokenClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d] | list[Ragged]],
    features: Model[list[Doc], list[Floats2d]] | None = None,
    window_size: int = 0,
    hidden_width: int = 0,
    dropout: float = 0.1,
    nO: int | None = None,
) -> Model[list[Doc], Ragged]:
    """A linear layer over each token's vector, or over each word piece's.

    Args:
        tok2vec: usually `spacy_biomed.EncoderListener.v1`. Its pooling determines what a row is.
        features: a second layer, such as `spacy_biomed.WordEmbed.v1`, that gives each token a
            vector, which is concatenated to the rows of the token.
        window_size: number of neighbours on each side whose vectors are concatenated to a row.
            0 is the plain linear layer of the papers, 1 a convolution of width 3.
        hidden_width: width of a layer of rectified linear units before the scores of the tags; 0
            for none, as in the papers.
        dropout: of the rows, before neighbours are concatenated; `training.dropout` overrides it.
        nO: number of tags; set on initialisation.

    Returns:
        a model that returns one Ragged for the whole batch: data (rows, tags), and lengths
        (tokens,), the number of rows of each token.

    Raises:
        BiomedError: if `tok2vec` gives one row for each document.
    """
    check_pooling(tok2vec, "TokenClassifier", "first", "mean", "pieces")
    first = WindowLinear(nO=hidden_width or nO, window_size=window_size)
    output = Linear(nO=nO, nI=hidden_width) if hidden_width else first
    hidden = [create_activation("relu"), Dropout(dropout), output] if hidden_width else []
    layers = [tok2vec, chain(Dropout(dropout), first, *hidden)]
    if features is not None:
        layers.append(features)
    return Model(
        "token_classifier",
        forward,
        init=init,
        layers=layers,
        dims={"nO": nO},
        shims=[FormerCopy(None)],
        refs={"tok2vec": tok2vec, "first": first, "output": output, "features": features},
    )


def AnswerClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d] | list[Ragged]],
    hidden_width: int = 0,
    dropout: float = 0.1,
) -> Model[list[Doc], Ragged]:
    """A linear layer with two outputs, start and end, over each token's or word piece's vector.

    The head of BERT for SQuAD (Devlin et al. 2019, section 4.2), which BioBERT keeps for BioASQ.

    Args:
        tok2vec: usually `spacy_biomed.EncoderListener.v1`. With pooling "pieces" an answer starts
            at the first piece of its first word and ends at the last piece of its last word, as in
            BERT.
        hidden_width: width of a layer of rectified linear units before the scores; 0 for none, as
            in BERT.
        dropout: of the rows; `training.dropout` overrides it.

    Returns:
        a model like `TokenClassifier_v1`, with the scores of start and end as data, (rows, 2).

    Raises:
        BiomedError: if `tok2vec` gives one row for each document.
    """
    return TokenClassifier_v1(tok2vec, hidden_width=hidden_width, dropout=dropout, nO=2)


def init(
    model: Model[list[Doc], Ragged], X: list[Doc] | None = None, Y: object = None
) -> Model[list[Doc], Ragged]:
    tok2vec, output = model.get_ref("tok2vec"), model.get_ref("output")
    features = model.maybe_get_ref("features")
    tok2vec.initialize(X=X)
    width = tok2vec.get_dim("nO")
    if features is not None:
        features.initialize(X=X)
        width += features.get_dim("nO")
    if model.has_dim("nO"):
        output.set_dim("nO", model.get_dim("nO"))
    model.get_ref("first").set_dim("nI", width)
    model.get_ref("first").initialize()
    output.initialize()
    return model


def add_outputs(model: Model[list[Doc], Ragged], count: int, *, like: int, offset: float) -> None:
    """Add tags to a trained model, after its present tags, whose weights do not change.

    A new tag gets a copy of the weights of the tag `like`, so it has the same score plus an offset.
    """
    xp, output = model.ops.xp, model.get_ref("output")
    known = output.get_dim("nO")
    weights, biases = output.get_param("W"), output.get_param("b")
    blocks = weights.reshape(-1, known, weights.shape[1])  # one for each neighbour
    copies = xp.repeat(blocks[:, [like]], count, axis=1)
    grown = {
        "W": xp.concatenate([blocks, copies], axis=1).reshape(-1, weights.shape[1]),
        "b": xp.concatenate([biases, xp.repeat(biases[[like]], count) + offset]),
    }
    for name in grown:  # the size of a layer with weights cannot be changed
        output.set_param(name, None)
    for node in (model, model.layers[1], output):
        if node.has_dim("nO"):
            node.set_dim("nO", known + count, force=True)
    for name, values in grown.items():
        output.set_param(name, values)
        if output.has_grad(name):
            output.set_grad(name, xp.zeros_like(values))


def forward(
    model: Model[list[Doc], Ragged], docs: list[Doc], is_train: bool
) -> tuple[Ragged, Callable[[Ragged], list]]:
    tok2vec, classify = model.layers[:2]
    features = model.maybe_get_ref("features")
    ops = model.ops
    outputs, backprop_tok2vec = tok2vec(docs, is_train)
    rows = [output.dataXd if isinstance(output, Ragged) else output for output in outputs]
    row_counts = [len(row) for row in rows]
    doc_lengths = ops.asarray1i(row_counts)
    row_lengths = token_lengths = _token_lengths(ops, outputs)
    width = rows[0].shape[1]
    words = _read_words(tok2vec, docs)
    if features is None:
        data = ops.xp.concatenate(rows)
    else:
        vectors, backprop_features = features(_with_words(features, docs, words), is_train)
        vectors = ops.xp.concatenate(vectors)
        data = ops.xp.empty((sum(row_counts), width + vectors.shape[1]), dtype="float32")
        ops.xp.concatenate(rows, out=data[:, :width])
        if isinstance(outputs[0], Ragged):
            owners = np.repeat(np.arange(len(vectors)), to_numpy(token_lengths))
            vectors = vectors[ops.xp.asarray(owners)]
        data[:, width:] = vectors
    kept = None if isinstance(outputs[0], Ragged) else _find_kept(docs, words)
    if kept is not None:
        token_lengths = ops.asarray1i(kept)
        doc_lengths = ops.asarray1i([one.sum() for one in split_at(kept, borders(row_counts))])
        everything, data = data, data[ops.asarray(kept)]
    scores, backprop_scores = classify(Ragged(data, doc_lengths), is_train)

    def backprop(d_scores: Ragged) -> list:
        d_data = backprop_scores(d_scores.dataXd).dataXd
        if kept is not None:
            d_kept, d_data = d_data, ops.xp.zeros_like(everything)
            d_data[ops.asarray(kept)] = d_kept
        if features is not None:
            d_vectors = ops.alloc2f(len(row_lengths), d_data.shape[1] - width)
            if len(d_data):  # thinc's sum fails without any row
                d_vectors = ops.reduce_sum(ops.as_contig(d_data[:, width:]), row_lengths)
            backprop_features(split_at(d_vectors, borders([len(doc) for doc in docs])))
            d_data = ops.as_contig(d_data[:, :width])
        d_rows = split_at(d_data, borders(row_counts))
        d_outputs = [
            Ragged(d_row, output.lengths) if isinstance(output, Ragged) else d_row
            for d_row, output in zip(d_rows, outputs, strict=True)
        ]
        return backprop_tok2vec(d_outputs)

    return Ragged(scores, token_lengths), backprop


def _token_lengths(ops: Ops, outputs: Sequence[Floats2d | Ragged]) -> Ints1d:
    if isinstance(outputs[0], Ragged):
        return ops.xp.concatenate([cast(Ragged, output).lengths for output in outputs])
    return ops.alloc1i(sum(len(output) for output in outputs)) + 1


def _read_words(tok2vec: Model, docs: list[Doc]) -> list[list[str] | None]:
    """The tokens of each document as its encoder reads them; None if it reads them as they are.

    A token that the encoder does not read, such as the second of two spaces, is empty.
    """
    encoder = getattr(tok2vec, "encoder", None)
    words: list[list[str] | None] = [None] * len(docs)
    if encoder is None:
        return words
    if encoder.attrs.get("normalize"):
        normalized = (normalize_text(get_text(doc)) for doc in docs)
        words = [
            new.words_of(doc) if new else None for new, doc in zip(normalized, docs, strict=True)
        ]
    if not encoder.attrs.get("accents", True):
        words = [
            own
            if get_text(doc).isascii()
            else [strip_accents(word) for word in own or (token.text for token in doc)]
            for own, doc in zip(words, docs, strict=True)
        ]
    return words


def _with_words(features: Model, docs: list[Doc], words: list[list[str] | None]) -> list[Doc]:
    """The documents for the layer of features; for `WordEmbed` with the words that are read."""
    if features.name != "word_embed":
        return docs
    return [
        doc
        if new is None
        else Doc(doc.vocab, words=[word or doc[i].text for i, word in enumerate(new)])
        for doc, new in zip(docs, words, strict=True)
    ]


def _find_kept(docs: list[Doc], words: list[list[str] | None]) -> np.ndarray | None:
    """(tokens,) whether the encoder reads a token; None if it reads all."""
    if all(new is None or all(new) for new in words):
        return None
    kept = [
        np.ones(len(doc), dtype=bool) if new is None else np.array([*map(bool, new)], dtype=bool)
        for doc, new in zip(docs, words, strict=True)
    ]
    return np.concatenate(kept)
