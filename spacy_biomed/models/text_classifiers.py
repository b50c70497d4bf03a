"""Scores of whole documents, or of texts with two marked arguments: of classes, of relations."""

from collections.abc import Callable

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain, list2array

from ..arrays import Floats2d
from ..encoders.listener import EncoderListener, check_pooling
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

    With the listener's pooling "cls", it is the head of MT-Clinical BERT (Mulyar and McInnes 2020)
    and MT-BlueBERT (Peng et al. 2020, section 3). With "first" or "mean", it reads the mean over
    all tokens instead. That suits encoders whose pretraining did not use [CLS], small corpora, and
    long documents, whose [CLS] reads only the first window.

    Args:
        tok2vec: a layer that gives rows for each document, whose mean is read; usually
            `spacy_biomed.EncoderListener.v1`.
        hidden_width: width of a layer before the scores, like BERT's pooler (Devlin et al. 2019),
            which is not loaded with an encoder; 0 for none, as in the papers.
        activation: the function after that layer: "tanh" as in BERT and RoBERTa, "relu" as in
            DistilBERT, or "gelu" as in ELECTRA.
        dropout: of the input of the last layer; `training.dropout` overrides it.
        nO: number of classes; set on initialisation.

    Returns:
        a model that returns scores, (docs, classes). Its reference "output_layer" is the linear
        layer, and "hidden_layer" the layer before it, if there is one.

    Raises:
        BiomedError: if the listener keeps word pieces apart, or the activation is unknown.
    """
    check_pooling(tok2vec, "TextClassifier", "cls", "first", "mean")
    hidden = [Linear(nO=hidden_width), create_activation(activation)] if hidden_width else []
    output = Linear(nO=nO)
    model = chain(tok2vec, Model("mean_rows", forward_mean), *hidden, Dropout(dropout), output)
    model.set_ref("hidden_layer", hidden[0] if hidden else None)
    model.set_ref("output_layer", output)
    return model


def RelationClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d]], dropout: float = 0.1, nO: int | None = None
) -> Model[list[Doc], Floats2d]:
    """A linear layer over the vector of the first position of a text with two marked arguments.

    The head of BlueBERT and MT-BlueBERT (Peng et al. 2020, section 3.2). The listener gives the
    vectors of texts that are whole documents. Texts that are made from documents are encoded by the
    model that the listener listens to, and only the layer "classifier" reads their vectors.

    Args:
        tok2vec: `spacy_biomed.EncoderListener.v1` with pooling "cls".
        dropout: of the vector; `training.dropout` overrides it.
        nO: number of scores; set on initialisation.

    Returns:
        a model that returns scores, (docs, nO), with references to "tok2vec" and "classifier".

    Raises:
        BiomedError: if `tok2vec` is another layer, or has another pooling.
    """
    if not isinstance(tok2vec, EncoderListener):
        raise BiomedError(
            f"[model.tok2vec] of spacy_biomed.RelationClassifier.v1 is '{tok2vec.name}', which "
            "knows no encoder for texts that are not documents: use spacy_biomed.EncoderListener.v1"
        )
    check_pooling(tok2vec, "RelationClassifier", "cls")
    classifier: Model[Floats2d, Floats2d] = chain(Dropout(dropout), Linear(nO=nO))
    model = chain(tok2vec, list2array(), classifier)
    model.set_ref("tok2vec", tok2vec)
    model.set_ref("classifier", classifier)
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
