"""`spacy_biomed.TextClassifier.v1`: a score for every class of each document."""

from __future__ import annotations

from collections.abc import Callable

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain

from ..arrays import Floats2d
from ..encoders.listener import EncoderListener
from ..errors import BiomedError
from .activations import Activation, create_activation


def TextClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d]],
    hidden_width: int = 0,
    activation: Activation = "tanh",
    dropout: float = 0.1,
    nO: int | None = None,
) -> Model[list[Doc], Floats2d]:
    """A linear layer over each document's vector.

    With the listener's pooling "cls", the head of MT-Clinical BERT (Mulyar and McInnes 2020) and
    MT-BlueBERT (Peng et al. 2020, section 3): one fully connected layer over the vector of [CLS].
    With "first" or "mean", it reads the mean over all tokens instead. That suits encoders whose
    pretraining did not use [CLS], small corpora, and long documents: their [CLS] is in the first
    window and reads no more than that.

    Args:
        tok2vec: a layer that gives rows for each document, usually
            `spacy_biomed.EncoderListener.v1`. The model takes the mean of the rows.
        hidden_width: width of a layer before the scores, like BERT's pooler (Devlin et al. 2019),
            which is not loaded with an encoder; 0 for none, as in the papers.
        activation: the function after that layer: "tanh" as in BERT and RoBERTa, "relu" as in
            DistilBERT, or "gelu" as in ELECTRA.
        dropout: applied in training to the input of the last layer; `training.dropout` of the
            config overrides it.
        nO: number of classes; set on initialisation.

    Returns:
        a model that returns scores, (docs, classes). Its reference "output_layer" is the linear
        layer, and "hidden_layer" the layer before it, if there is one.

    Raises:
        BiomedError: if the listener keeps word pieces apart, or the activation is unknown.
    """
    if isinstance(tok2vec, EncoderListener) and tok2vec.attrs["pooling"] == "pieces":
        raise BiomedError(
            "[model.tok2vec] pooling = 'pieces' keeps word pieces apart, and "
            "spacy_biomed.TextClassifier.v1 takes the mean of rows: use 'cls', 'first' or 'mean'"
        )
    hidden = [Linear(nO=hidden_width), create_activation(activation)] if hidden_width else []
    output = Linear(nO=nO)
    model = chain(tok2vec, Model("mean_rows", forward_mean), *hidden, Dropout(dropout), output)
    model.set_ref("hidden_layer", hidden[0] if hidden else None)
    model.set_ref("output_layer", output)
    return model


def forward_mean(
    model: Model[list[Floats2d], Floats2d], X: list[Floats2d], is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[Floats2d]]]:
    """The mean of each document's rows, (docs, width); zeros for a document without rows."""
    counts = [len(rows) for rows in X]
    if not any(counts):  # thinc's mean fails without any row
        return model.ops.alloc2f(len(X), X[0].shape[1]), lambda d_output: X
    lengths = model.ops.asarray1i(counts)
    output = model.ops.reduce_mean(model.ops.flatten(X), lengths)

    def backprop(d_output: Floats2d) -> list[Floats2d]:
        return model.ops.unflatten(model.ops.backprop_reduce_mean(d_output, lengths), lengths)

    return output, backprop
