"""How much of each label is to be found: offsets that reach a recall on a development corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from thinc.types import Floats1d, Ints1d

from ...errors import BiomedError, quote
from ...models.tagging import Spans
from .component import OTHERS, RecallMeasure, RecallTarget
from .development import OPEN, RIGHT, Development

# Offsets are in log odds. With the largest, an entity of the probability 0.0003 is found.
STEP, LARGEST = 0.25, 8.0
# The search for a label ends if its recall has not risen over so many steps.
PATIENCE = 12


@dataclass(frozen=True, slots=True)
class LabelRecall:
    """What a recall target makes of a label on the development corpus.

    Attributes:
        label: its name.
        target: the recall to reach.
        offset: what is added to the log odds of its entities.
        gold: number of its gold mentions, of those that tokens can represent.
        recall_before, recall: without and with all offsets, from 0 to 1, as the measure counts; not
            a number without gold.
        precision_before, precision: share of the entities that are right, with the measure
            "covered" of those that share a token with a gold mention; not a number if nothing is
            found.
    """

    label: str
    target: float
    offset: float
    gold: int
    recall_before: float
    recall: float
    precision_before: float
    precision: float

    @property
    def is_reached(self) -> bool:
        return self.recall >= self.target


def fit_recall(
    development: Development, target: RecallTarget, measure: RecallMeasure = "exact"
) -> list[LabelRecall]:
    """Set the offsets with which the labels of a `biomed_ner` reach a recall.

    The entities that are found without offsets stay. Beside them, the odds of a label's entities
    are multiplied by the exponential of its offset (`TagScheme.find_more`). Recall is over the gold
    mentions that tokens can represent. Of the offsets from 0 in steps of 0.25, a label has the
    first that reaches the target, or else the first with the highest recall. Labels compete for the
    same tokens, so the search raises all that are below their target together.

    The measure "exact" counts mentions whose span and label are found. "covered" counts mentions
    all of whose words are in entities of labels that have a target, whatever the boundaries: what
    counts where mentions are removed from the text.

    Args:
        target: above 0 and at most 1, or by label, "*" for all others. None, and labels that are
            left out, are decoded as they are.

    Returns:
        what it makes of each label that has a target, and gold mentions.
    """
    head = development.head
    if target is not None and head.cfg["decoding"] == "argmax":
        raise BiomedError(
            f"a recall for '{head.name}': its decoding is \"argmax\", which always takes the most "
            'probable tags; use "viterbi"'
        )
    targets = _targets(development, target)
    head.cfg["target_recall"], head.cfg["recall_measure"] = target, measure
    head.cfg["recall_offsets"] = {}
    count_found = partial(_count_found, development, measure, ~np.isnan(targets))
    recall_before, precision_before = _measure(development, measure, count_found)
    gold = development.count(development.gold.label)
    wanted = np.where(gold > 0, targets, np.nan)
    if np.isnan(wanted).all():
        return []
    offsets = _search(development, count_found, wanted, gold)
    _set_offsets(development, offsets)
    recall, precision = _measure(development, measure, count_found)
    return [
        LabelRecall(
            label=head.labels[i],
            target=float(targets[i]),
            offset=float(offsets[i]),
            gold=int(gold[i]),
            recall_before=float(recall_before[i]),
            recall=float(recall[i]),
            precision_before=float(precision_before[i]),
            precision=float(precision[i]),
        )
        for i in np.flatnonzero(~np.isnan(wanted)).tolist()
    ]


def _targets(development: Development, target: RecallTarget) -> Floats1d:
    """(labels,) the target of each label; not a number for a label without one."""
    labels = development.head.labels
    if not isinstance(target, Mapping):
        return np.full(len(labels), np.nan if target is None else target)
    for label in target:
        if label not in (OTHERS, *labels):
            raise BiomedError(
                f"a recall for {quote(label)}: '{development.head.name}' has the labels "
                f"{', '.join(labels)}"
            )
    others = target.get(OTHERS, np.nan)
    return np.array([target.get(label, others) for label in labels])


def _count_found(
    development: Development, measure: RecallMeasure, has_target: np.ndarray, spans: Spans
) -> Ints1d:
    """(labels,) number of gold mentions that entities find, as a measure counts.

    `has_target`, (labels,), says which labels can cover mentions.
    """
    if measure == "exact":
        return development.count_found(spans)
    covers = has_target[spans.label]
    return development.count_covered(Spans(*(part[covers] for part in spans)))


def _measure(
    development: Development, measure: RecallMeasure, count_found: Callable[[Spans], Ints1d]
) -> tuple[Floats1d, Floats1d]:
    """(labels,) recall and precision with the present offsets; NaN where nothing counts."""
    spans, _ = development.decode()
    judged = development.judge(spans)
    counted = judged != OPEN
    is_touching = measure == "covered"
    is_right = counted & development.touches_gold(spans) if is_touching else judged == RIGHT
    count = development.count
    with np.errstate(invalid="ignore"):
        recall = count_found(spans) / count(development.gold.label)
        return recall, count(spans.label[is_right]) / count(spans.label[counted])


def _search(
    development: Development, count_found: Callable[[Spans], Ints1d], wanted: Floats1d, gold: Ints1d
) -> Floats1d:
    """(labels,) the offsets that reach the recalls `wanted`; see `fit_recall`.

    Both arguments are (labels,). A recall that is not a number leaves the label as it is.
    """
    offsets, best = np.zeros((2, len(wanted)))
    highest = np.full(len(wanted), -1)
    is_given_up = np.zeros(len(wanted), dtype=bool)
    while True:
        _set_offsets(development, offsets)
        found = count_found(development.decode()[0])
        is_better = found > highest
        highest, best = np.where(is_better, found, highest), np.where(is_better, offsets, best)
        is_low = found < wanted * gold  # false for a label without a target
        stalled = (offsets - best >= PATIENCE * STEP) | (offsets >= LARGEST)
        ending = is_low & stalled & ~is_given_up
        offsets[ending], is_given_up[ending] = best[ending], True
        rising = is_low & ~is_given_up
        if not (rising | ending).any():
            return offsets
        offsets[rising] += STEP


def _set_offsets(development: Development, offsets: Floats1d) -> None:
    labels = development.head.labels
    named = dict(zip(labels, offsets.tolist(), strict=True))
    development.head.cfg["recall_offsets"] = {label: one for label, one in named.items() if one}
