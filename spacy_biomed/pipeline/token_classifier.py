"""`spacy_biomed.TokenClassifier.v1`: scores for every token, or every word piece of it."""

from __future__ import annotations

from collections.abc import Callable

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain
from thinc.types import Floats2d, Ints1d, Ragged


def TokenClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d] | list[Ragged]],
    window_size: int = 0,
    dropout: float = 0.1,
    nO: int | None = None,
) -> Model[list[Doc], Ragged]:
    """A linear layer over each token's vector, or over each word piece's.

    tok2vec: usually `spacy_biomed.EncoderListener.v1`; its pooling decides what a row is.
    window_size: neighbours on each side whose vectors are concatenated to a row's own, documents
        apart; 0 is the plain linear layer of the papers, 1 a convolution of width 3.
    dropout: applied to the rows in training; `training.dropout` of the config overrides it.
    nO: number of tags; set on initialisation.
    RETURNS: a model that gives, for the whole batch, a Ragged of data (rows, tags) and lengths
        (tokens,), the rows of each token.
    """
    layers = [tok2vec, chain(Dropout(dropout), Linear(nO=nO))]
    return Model(
        "token_classifier",
        forward,
        init=init,
        layers=layers,
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "output": layers[1].layers[1]},
        attrs={"window_size": window_size},
    )


def init(
    model: Model[list[Doc], Ragged], X: list[Doc] | None = None, Y: object = None
) -> Model[list[Doc], Ragged]:
    tok2vec, output = model.get_ref("tok2vec"), model.get_ref("output")
    tok2vec.initialize(X=X)
    if model.has_dim("nO"):
        output.set_dim("nO", model.get_dim("nO"))
    output.set_dim("nI", tok2vec.get_dim("nO") * (2 * model.attrs["window_size"] + 1))
    output.initialize()
    return model


def forward(
    model: Model[list[Doc], Ragged], docs: list[Doc], is_train: bool
) -> tuple[Ragged, Callable[[Ragged], list]]:
    tok2vec, classify = model.layers
    window_size = model.attrs["window_size"]
    ops = model.ops
    outputs, backprop_tok2vec = tok2vec(docs, is_train)
    rows = [output.dataXd if isinstance(output, Ragged) else output for output in outputs]
    doc_lengths = ops.asarray1i([len(row) for row in rows])
    data = ops.xp.concatenate(rows)
    if window_size:
        data = ops.seq2col(data, window_size, lengths=doc_lengths)
    scores, backprop_scores = classify(data, is_train)

    def backprop(d_scores: Ragged) -> list:
        d_data = backprop_scores(d_scores.dataXd)
        if window_size:
            d_data = ops.backprop_seq2col(d_data, window_size, lengths=doc_lengths)
        d_rows = ops.xp.split(d_data, ops.xp.cumsum(doc_lengths)[:-1].tolist())
        d_outputs = [
            Ragged(d_row, output.lengths) if isinstance(output, Ragged) else d_row
            for d_row, output in zip(d_rows, outputs, strict=True)
        ]
        return backprop_tok2vec(d_outputs)

    return Ragged(scores, _token_lengths(model, outputs)), backprop


def _token_lengths(model: Model, outputs: list[Floats2d] | list[Ragged]) -> Ints1d:
    ops = model.ops
    if isinstance(outputs[0], Ragged):
        return ops.xp.concatenate([output.lengths for output in outputs])
    return ops.alloc1i(sum(len(output) for output in outputs)) + 1
