"""`spacy_biomed.MentionClassifier.v1`: scores for mentions, from their words and those around."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain

from ..arrays import Floats2d, Ints2d
from ..errors import BiomedError
from .activations import create_activation
from .pair_classifier import mean_ranges

ARCHITECTURE = "spacy_biomed.MentionClassifier.v1"


class MentionPlaces(NamedTuple):
    """The mentions of a batch of documents.

    Attributes:
        places: three arrays of (mentions, 2), for mentions, for what is read before them, and for
            what is read after them. Each has the first row, and the one after the last, among the
            rows of all documents.
    """

    docs: list[Doc]
    places: list[Ints2d]


def MentionClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d]],
    hidden_width: int = 128,
    dropout: float = 0.1,
    nO: int | None = None,
) -> Model[MentionPlaces, Floats2d]:
    """Scores for each mention, from three mean rows: of its tokens, those before and those after.

    The three are concatenated. A layer of rectified linear units and a linear layer follow.

    Args:
        tok2vec: `spacy_biomed.EncoderListener.v1` with pooling "first" or "mean".
        hidden_width: of the hidden layer.
        dropout: before each layer; `training.dropout` overrides it.
        nO: number of scores; set on initialisation.

    Returns:
        a model that returns scores, (mentions, nO).

    Raises:
        BiomedError: if `tok2vec` does not give a row for each token.
    """
    if (pooling := tok2vec.attrs.get("pooling")) in ("cls", "pieces"):
        raise BiomedError(
            f"[model.tok2vec] pooling = '{pooling}' does not give a row for each token, which "
            f"{ARCHITECTURE} takes: use 'first' or 'mean'"
        )
    hidden: Model[Floats2d, Floats2d] = Linear(nO=hidden_width)
    output: Model[Floats2d, Floats2d] = Linear(nO=nO, nI=hidden_width)
    classify = chain(Dropout(dropout), hidden, create_activation("relu"), Dropout(dropout), output)
    return Model(
        "mention_classifier",
        forward,
        init=init,
        layers=[tok2vec, classify],
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "hidden": hidden, "output": output},
    )


def init(
    model: Model[MentionPlaces, Floats2d], X: MentionPlaces | None = None, Y: Floats2d | None = None
) -> Model[MentionPlaces, Floats2d]:
    tok2vec, hidden, output = (model.get_ref(name) for name in ("tok2vec", "hidden", "output"))
    if X is not None:
        tok2vec.initialize(X=X.docs)
    if Y is not None:
        model.set_dim("nO", Y.shape[1])
        output.set_dim("nO", Y.shape[1])
    hidden.set_dim("nI", 3 * tok2vec.get_dim("nO"))
    hidden.initialize()
    output.initialize()
    return model


def forward(
    model: Model[MentionPlaces, Floats2d], X: MentionPlaces, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list]]:
    tok2vec, classify = model.layers
    ops = model.ops
    vectors, backprop_tok2vec = tok2vec(X.docs, is_train)
    if not len(X.places[0]):
        return ops.alloc2f(0, model.get_dim("nO")), lambda d_scores: backprop_tok2vec(
            [ops.alloc2f(*rows.shape) for rows in vectors]
        )
    rows = ops.xp.concatenate(vectors)
    means, backprops = zip(*(mean_ranges(ops, rows, places) for places in X.places), strict=True)
    scores, backprop_classify = classify(ops.xp.concatenate(means, axis=1), is_train)

    def backprop(d_scores: Floats2d) -> list:
        d_all, width = backprop_classify(d_scores), rows.shape[1]
        d_means = [d_all[:, i * width : (i + 1) * width] for i in range(len(backprops))]
        d_rows = sum(one(d_mean) for one, d_mean in zip(backprops, d_means, strict=True))
        return backprop_tok2vec(ops.unflatten(d_rows, ops.asarray1i([len(v) for v in vectors])))

    return scores, backprop
