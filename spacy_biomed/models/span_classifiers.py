"""Scores from the mean rows of spans: of mentions, and of the pairs of concepts of documents."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, NumpyOps, Ops, chain

from ..arrays import Floats2d, Ints1d, Ints2d
from ..encoders.listener import check_pooling
from .activations import create_activation


class MentionPlaces(NamedTuple):
    """The mentions of a batch of documents."""

    docs: list[Doc]
    # Three arrays of (mentions, 2), for mentions, for what is read before them, and for what is
    # read after them: the first row of all documents', and the one after the last.
    places: list[Ints2d]


class MentionPairs(NamedTuple):
    """The pairs of mentions of documents, those of a pair of concepts one after another."""

    docs: list[Doc]
    counts: Ints1d  # (concept pairs,) how many pairs of mentions each has, at least one
    # Three arrays of (mention pairs, 2), for heads, for tails, and for what is between them: the
    # first row of all documents', and the one after the last.
    places: list[Ints2d]
    features: Floats2d


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
    check_pooling(tok2vec, "MentionClassifier", "first", "mean")
    hidden: Model[Floats2d, Floats2d] = Linear(nO=hidden_width)
    output: Model[Floats2d, Floats2d] = Linear(nO=nO, nI=hidden_width)
    classify = chain(Dropout(dropout), hidden, create_activation("relu"), Dropout(dropout), output)
    return Model(
        "mention_classifier",
        forward_mentions,
        init=init,
        layers=[tok2vec, classify],
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "hidden": hidden, "output": output},
    )


def ConceptPairClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d]],
    hidden_width: int = 256,
    dropout: float = 0.1,
    nO: int | None = None,
) -> Model[MentionPairs, Floats2d]:
    """Scores for pairs of concepts, each from the best of its pairs of mentions.

    Each pair of mentions has a hidden vector of rectified linear units. It is the sum of the
    features and of the mean rows of the head, the tail and the tokens between them, each with
    weights of their own. A linear layer reads the largest value of each unit over the pairs of
    mentions of a pair of concepts. The time is linear in the tokens and in the pairs.

    Args:
        tok2vec: `spacy_biomed.EncoderListener.v1` with pooling "first" or "mean".
        hidden_width: of the hidden vector.
        dropout: of the rows, and of the vectors of pairs; `training.dropout` overrides it.
        nO: number of scores; set on initialisation.

    Returns:
        a model that returns scores, (concept pairs, nO).

    Raises:
        BiomedError: if `tok2vec` does not give a row for each token.
    """
    check_pooling(tok2vec, "ConceptPairClassifier", "first", "mean")
    project = Linear(nO=3 * hidden_width)
    describe = Linear(nO=hidden_width)
    output = Linear(nO=nO, nI=hidden_width)
    return Model(
        "concept_pair_classifier",
        forward_pairs,
        init=init,
        layers=[tok2vec, Dropout(dropout), project, describe, Dropout(dropout), output],
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "project": project, "describe": describe, "output": output},
    )


def init(
    model: Model, X: MentionPlaces | MentionPairs | None = None, Y: Floats2d | None = None
) -> Model:
    layers = {name: model.get_ref(name) for name in model.ref_names}
    tok2vec = layers.pop("tok2vec")
    if X is not None:
        tok2vec.initialize(X=X.docs)
    if isinstance(X, MentionPairs):
        layers["describe"].set_dim("nI", X.features.shape[1])
    if Y is not None:
        model.set_dim("nO", Y.shape[1])
        layers["output"].set_dim("nO", Y.shape[1])
    width = tok2vec.get_dim("nO")
    if "hidden" in layers:  # it reads three rows at a time
        layers["hidden"].set_dim("nI", 3 * width)
    else:
        layers["project"].set_dim("nI", width)
    for layer in layers.values():
        layer.initialize()
    return model


Scored = tuple[Floats2d, Callable[[Floats2d], Floats2d]]


def _over_rows(score: Callable[[Model, Floats2d, Any, bool], Scored]) -> Callable:
    """A layer's function, for one from the rows of all documents to the scores of spans."""

    @wraps(score)
    def forward(
        model: Model, X: MentionPlaces | MentionPairs, is_train: bool
    ) -> tuple[Floats2d, Callable[[Floats2d], list]]:
        ops = model.ops
        vectors, backprop_tok2vec = model.layers[0](X.docs, is_train)
        if not len(X.places[0]):
            return ops.alloc2f(0, model.get_dim("nO")), lambda d_scores: backprop_tok2vec(
                [ops.alloc2f(*rows.shape) for rows in vectors]
            )
        lengths = ops.asarray1i([len(rows) for rows in vectors])
        scores, backprop = score(model, ops.xp.concatenate(vectors), X, is_train)
        return scores, lambda d_scores: backprop_tok2vec(ops.unflatten(backprop(d_scores), lengths))

    return forward


@_over_rows
def forward_mentions(model: Model, rows: Floats2d, X: MentionPlaces, is_train: bool) -> Scored:
    ops, width = model.ops, rows.shape[1]
    means, backprops = zip(*(mean_ranges(ops, rows, places) for places in X.places), strict=True)
    scores, backprop_classify = model.layers[1](ops.xp.concatenate(means, axis=1), is_train)

    def backprop(d_scores: Floats2d) -> Floats2d:
        d_all = backprop_classify(d_scores)
        d_means = [d_all[:, i * width : (i + 1) * width] for i in range(len(backprops))]
        return sum(one(d_mean) for one, d_mean in zip(backprops, d_means, strict=True))

    return scores, backprop


@_over_rows
def forward_pairs(model: Model, rows: Floats2d, X: MentionPairs, is_train: bool) -> Scored:
    _, drop_rows, project, describe, drop_pairs, output = model.layers
    ops = model.ops
    dropped, backprop_dropped = drop_rows(rows, is_train)
    projected, backprop_project = project(dropped, is_train)
    described, backprop_describe = describe(ops.asarray2f(X.features), is_train)
    total, width = described, described.shape[1]
    backprops = []
    for i, places in enumerate(X.places):
        part = projected[:, i * width : (i + 1) * width]
        means, backprop_means = mean_ranges(ops, part, places)
        total = total + means
        backprops.append(backprop_means)
    counts = ops.asarray1i(X.counts)
    largest, which = ops.reduce_max(ops.xp.maximum(total, 0.0), counts)
    kept, backprop_kept = drop_pairs(largest, is_train)
    scores, backprop_output = output(kept, is_train)

    def backprop(d_scores: Floats2d) -> Floats2d:
        d_largest = ops.as_contig(backprop_kept(backprop_output(d_scores)))
        d_total = ops.backprop_reduce_max(d_largest, which, counts) * (total > 0.0)
        backprop_describe(d_total)
        d_projected = ops.xp.concatenate([one(d_total) for one in backprops], axis=1)
        return backprop_dropped(backprop_project(d_projected))

    return scores, backprop


def mean_ranges(
    ops: Ops, rows: Floats2d, places: Ints2d
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """(ranges, width) the mean of the rows from each place to another; zeros for an empty range.

    `places` is (ranges, 2): the first row of each range, and the one after the last.
    """
    xp = ops.xp
    starts, ends = xp.asarray(places[:, 0]), xp.asarray(places[:, 1])
    sums = xp.zeros((len(rows) + 1, rows.shape[1]), dtype="float64")
    sums[1:] = rows
    _add_up(ops, sums)
    lengths = xp.maximum(ends - starts, 1)[:, None].astype("float32")
    means = ((sums[ends] - sums[starts]) / lengths).astype("float32")

    def backprop(d_means: Floats2d) -> Floats2d:
        shares = d_means / lengths
        changes = xp.zeros(sums.shape, dtype="float64")
        ops.scatter_add(changes, starts, shares)
        ops.scatter_add(changes, ends, -shares)
        _add_up(ops, changes)
        return changes[:-1].astype("float32")

    return means, backprop


def _add_up(ops: Ops, rows: Floats2d) -> None:
    """Add to each row all rows before it, in place."""
    if not isinstance(ops, NumpyOps):
        rows[:] = ops.xp.cumsum(rows, axis=0)
        return
    for place in range(1, len(rows)):  # six times as fast as NumPy's cumsum of columns
        rows[place] += rows[place - 1]
