"""How much of each label is to be found: offsets that reach a recall on a development corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from thinc.types import Floats1d, Ints1d

from ..errors import BiomedError, quote
from .development import OPEN, RIGHT, Development

# A recall for every label, or by label.
RecallTarget = float | dict[str, float] | None
# Every label that is not named.
OTHERS = "*"

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
        recall_before, recall: without and with all offsets, from 0 to 1; not a number without gold.
        precision_before, precision: not a number if nothing is found.
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


def check_target_recall(what: str, target: RecallTarget) -> None:
    """Check a recall target.

    Args:
        what: the setting or option, for the message.

    Raises:
        BiomedError: if it is not above 0 and at most 1.
    """
    shares = target.values() if isinstance(target, Mapping) else [target]
    for share in shares:
        if share is not None and not 0.0 < share <= 1.0:
            raise BiomedError(f"{what} = {share}: use a number above 0 and up to 1, such as 0.99")


def fit_recall(development: Development, target: RecallTarget) -> list[LabelRecall]:
    """Set the offsets with which the labels of a `biomed_ner` reach a recall.

    The entities that are found without offsets stay. Beside them, the odds of a label's entities
    are multiplied by the exponential of its offset (`TagScheme.find_more`). Recall is of exact
    matches, over the gold mentions that tokens can represent. Of the offsets from 0 in steps of
    0.25, a label has the first that reaches the target, or else the first with the highest recall.
    Labels compete for the same tokens, so the search raises all that are below their target
    together.

    Args:
        development: what the component makes of the development corpus.
        target: above 0 and at most 1, or by label, "*" for all others. None, and labels that are
            left out, are decoded as they are.

    Returns:
        what it makes of each label that has a target, and gold mentions.

    Raises:
        BiomedError: if it has a label that the component does not know, or the component decodes
            tags by themselves (`decoding = "argmax"`).
    """
    head = development.head
    if target is not None and head.cfg["decoding"] == "argmax":
        raise BiomedError(
            f"a recall for '{head.name}': its decoding is \"argmax\", which always takes the most "
            'probable tags; use "viterbi"'
        )
    targets = _targets(development, target)
    head.cfg["target_recall"] = target
    head.cfg["recall_offsets"] = {}
    before = _rates(development)
    gold = development.count(development.gold.label)
    wanted = np.where(gold > 0, targets, np.nan)
    if np.isnan(wanted).all():
        return []
    offsets = _search(development, wanted, gold)
    _set_offsets(development, offsets)
    after = _rates(development)
    return [
        LabelRecall(
            label=head.labels[i],
            target=float(targets[i]),
            offset=float(offsets[i]),
            gold=int(gold[i]),
            recall_before=float(before.recall[i]),
            recall=float(after.recall[i]),
            precision_before=float(before.precision[i]),
            precision=float(after.precision[i]),
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


def _search(development: Development, wanted: Floats1d, gold: Ints1d) -> Floats1d:
    """(labels,) the offsets; see `fit_recall`.

    Args:
        wanted: (labels,) the recall of each label; not a number to leave the label as it is.
        gold: (labels,) number of gold mentions.
    """
    offsets, best = np.zeros((2, len(wanted)))
    highest = np.full(len(wanted), -1)
    is_given_up = np.zeros(len(wanted), dtype=bool)
    while True:
        _set_offsets(development, offsets)
        found = development.count_found(development.decode()[0])
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


class _Rates(NamedTuple):
    """(labels,) each; not a number where there is nothing to count."""

    recall: Floats1d
    precision: Floats1d


def _rates(development: Development) -> _Rates:
    spans, _ = development.decode()
    judged = development.judge(spans)
    right = development.count(spans.label[judged == RIGHT])
    with np.errstate(invalid="ignore"):
        return _Rates(
            development.count_found(spans) / development.count(development.gold.label),
            right / development.count(spans.label[judged != OPEN]),
        )
