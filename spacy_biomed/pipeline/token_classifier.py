"""`spacy_biomed.TokenClassifier.v1`: scores for every token, or every word piece of it."""

from __future__ import annotations

from collections.abc import Callable

from spacy.tokens import Doc
from thinc.api import Dropout, Gelu, Linear, Model, Ops, chain
from thinc.types import Floats2d, Ints1d, Ragged


def TokenClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d] | list[Ragged]],
    features: Model[list[Doc], list[Floats2d]] | None = None,
    window_size: int = 0,
    hidden_width: int = 0,
    dropout: float = 0.1,
    nO: int | None = None,
) -> Model[list[Doc], Ragged]:
    """A linear layer over each token's vector, or over each word piece's.

    tok2vec: usually `spacy_biomed.EncoderListener.v1`; its pooling decides what a row is.
    features: a second layer, of a vector for each token, that is concatenated to its rows, such as
        `spacy_biomed.Orthography.v1`.
    window_size: neighbours on each side whose vectors are concatenated to a row's own, documents
        apart; 0 is the plain linear layer of the papers, 1 a convolution of width 3.
    hidden_width: width of a GELU layer before the linear one; 0 for none, as in the papers.
    dropout: applied to the rows in training; `training.dropout` of the config overrides it.
    nO: number of tags; set on initialisation.
    RETURNS: a model that gives, for the whole batch, a Ragged of data (rows, tags) and lengths
        (tokens,), the rows of each token.
    """
    output = Linear(nO=nO)
    inner = [Gelu(nO=hidden_width), Dropout(dropout)] if hidden_width else []
    layers = [tok2vec, chain(Dropout(dropout), *inner, output)]
    if features is not None:
        layers.append(features)
    return Model(
        "token_classifier",
        forward,
        init=init,
        layers=layers,
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "output": output, "features": features},
        attrs={"window_size": window_size},
    )


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
    width *= 2 * model.attrs["window_size"] + 1
    for layer in model.layers[1].layers:
        if layer.has_dim("nI") is None:
            layer.set_dim("nI", width)
            width = layer.maybe_get_dim("nO") or width
        layer.initialize()
    return model


def forward(
    model: Model[list[Doc], Ragged], docs: list[Doc], is_train: bool
) -> tuple[Ragged, Callable[[Ragged], list]]:
    tok2vec, classify = model.layers[:2]
    features = model.maybe_get_ref("features")
    window_size = model.attrs["window_size"]
    ops = model.ops
    outputs, backprop_tok2vec = tok2vec(docs, is_train)
    rows = [output.dataXd if isinstance(output, Ragged) else output for output in outputs]
    doc_lengths = ops.asarray1i([len(row) for row in rows])
    token_lengths = _token_lengths(ops, outputs)
    data = ops.xp.concatenate(rows)
    width = data.shape[1]
    if features is not None:
        vectors, backprop_features = features(docs, is_train)
        repeated = ops.xp.repeat(ops.xp.concatenate(vectors), token_lengths.tolist(), axis=0)
        data = ops.xp.concatenate([data, repeated], axis=1)
    if window_size:
        data = ops.seq2col(data, window_size, lengths=doc_lengths)
    scores, backprop_scores = classify(data, is_train)

    def backprop(d_scores: Ragged) -> list:
        d_data = backprop_scores(d_scores.dataXd)
        if window_size:
            d_data = ops.backprop_seq2col(d_data, window_size, lengths=doc_lengths)
        if features is not None:
            d_vectors = ops.reduce_sum(ops.as_contig(d_data[:, width:]), token_lengths)
            borders = ops.xp.cumsum(ops.asarray1i([len(doc) for doc in docs]))[:-1]
            backprop_features(ops.xp.split(d_vectors, borders.tolist()))
            d_data = ops.as_contig(d_data[:, :width])
        d_rows = ops.xp.split(d_data, ops.xp.cumsum(doc_lengths)[:-1].tolist())
        d_outputs = [
            Ragged(d_row, output.lengths) if isinstance(output, Ragged) else d_row
            for d_row, output in zip(d_rows, outputs, strict=True)
        ]
        return backprop_tok2vec(d_outputs)

    return Ragged(scores, token_lengths), backprop


def _token_lengths(ops: Ops, outputs: list[Floats2d] | list[Ragged]) -> Ints1d:
    if isinstance(outputs[0], Ragged):
        return ops.xp.concatenate([output.lengths for output in outputs])
    return ops.alloc1i(sum(len(output) for output in outputs)) + 1
