"""`spacy_biomed.ConceptPairClassifier.v1`: scores for pairs of concepts of whole documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, NumpyOps, Ops

from ..arrays import Floats2d, Ints1d, Ints2d


class MentionPairs(NamedTuple):
    """The pairs of mentions of a batch of documents, those of a pair of concepts one after another.

    Attributes:
        counts: (concept pairs,) how many pairs of mentions each has, at least one.
        places: three arrays of (mention pairs, 2): the first row, and the one after the last, of
            heads, of tails, and of what is between them, among the rows of all documents.
    """

    docs: list[Doc]
    counts: Ints1d
    places: list[Ints2d]
    features: Floats2d


def ConceptPairClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d]],
    hidden_width: int = 256,
    dropout: float = 0.1,
    nO: int | None = None,
) -> Model[MentionPairs, Floats2d]:
    """Scores for pairs of concepts, each from the best of its pairs of mentions.

    A document is encoded once. Each pair of mentions has a hidden vector of rectified linear units.
    It is the sum of the features and of the mean rows of the head, the tail and the tokens between
    them, each with weights of their own. A linear layer reads the largest value of each unit over
    the pairs of mentions of a pair of concepts. Weights are applied to the rows of tokens, before
    their means, so that the time is linear in the tokens and in the pairs.

    Args:
        tok2vec: `spacy_biomed.EncoderListener.v1` with pooling "first" or "mean".
        hidden_width: of the hidden vector.
        dropout: applied to the rows, and to the vectors of pairs; `training.dropout` overrides it.
        nO: number of scores; set on initialisation.

    Returns:
        a model that returns scores, (concept pairs, nO).
    """
    project = Linear(nO=3 * hidden_width)
    describe = Linear(nO=hidden_width)
    output = Linear(nO=nO, nI=hidden_width)
    return Model(
        "concept_pair_classifier",
        forward,
        init=init,
        layers=[tok2vec, Dropout(dropout), project, describe, Dropout(dropout), output],
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "project": project, "describe": describe, "output": output},
    )


def init(
    model: Model[MentionPairs, Floats2d], X: MentionPairs | None = None, Y: Floats2d | None = None
) -> Model[MentionPairs, Floats2d]:
    tok2vec, output = model.get_ref("tok2vec"), model.get_ref("output")
    if X is not None:
        tok2vec.initialize(X=X.docs)
        model.get_ref("describe").set_dim("nI", X.features.shape[1])
    if Y is not None:
        model.set_dim("nO", Y.shape[1])
        output.set_dim("nO", Y.shape[1])
    model.get_ref("project").set_dim("nI", tok2vec.get_dim("nO"))
    for name in ("project", "describe", "output"):
        model.get_ref(name).initialize()
    return model


def forward(
    model: Model[MentionPairs, Floats2d], X: MentionPairs, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list]]:
    tok2vec, drop_rows, project, describe, drop_pairs, output = model.layers
    ops = model.ops
    vectors, backprop_tok2vec = tok2vec(X.docs, is_train)
    sizes = [len(rows) for rows in vectors]
    if not len(X.counts):
        return ops.alloc2f(0, output.get_dim("nO")), lambda d_scores: backprop_tok2vec(
            [ops.alloc2f(*rows.shape) for rows in vectors]
        )
    dropped, backprop_dropped = drop_rows(ops.xp.concatenate(vectors), is_train)
    projected, backprop_project = project(dropped, is_train)
    described, backprop_describe = describe(ops.asarray2f(X.features), is_train)
    total, width = described, described.shape[1]
    parts = [slice(i * width, (i + 1) * width) for i in range(3)]
    backprops = []
    for part, places in zip(parts, X.places, strict=True):
        means, backprop_means = mean_ranges(ops, projected[:, part], places)
        total = total + means
        backprops.append(backprop_means)
    counts = ops.asarray1i(X.counts)
    largest, which = ops.reduce_max(ops.xp.maximum(total, 0.0), counts)
    kept, backprop_kept = drop_pairs(largest, is_train)
    scores, backprop_output = output(kept, is_train)

    def backprop(d_scores: Floats2d) -> list:
        d_largest = ops.as_contig(backprop_kept(backprop_output(d_scores)))
        d_total = ops.backprop_reduce_max(d_largest, which, counts) * (total > 0.0)
        backprop_describe(d_total)
        d_projected = ops.xp.concatenate([one(d_total) for one in backprops], axis=1)
        d_rows = backprop_dropped(backprop_project(d_projected))
        return backprop_tok2vec(ops.unflatten(d_rows, ops.asarray1i(sizes)))

    return scores, backprop


def mean_ranges(
    ops: Ops, rows: Floats2d, places: Ints2d
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """The mean of the rows, (rows, width), from each place to another; zeros for an empty range.

    `places` is (ranges, 2): the first row of each range, and the one after the last.

    Returns:
        (ranges, width), and what gives the gradient of the rows for that of the means.
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
