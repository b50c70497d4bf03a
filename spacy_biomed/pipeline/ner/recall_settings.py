"""The settings of a `biomed_ner` that say how many mentions are to be found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from ...errors import BiomedError, list_choices, quote

# A recall for every label, or by label.
RecallTarget = float | dict[str, float] | None
# Every label that is not named.
OTHERS = "*"
# What a recall counts: mentions found exactly, or those of which no word stays readable.
RecallMeasure = Literal["exact", "covered"]


def check_target_recall(what: str, target: RecallTarget) -> None:
    """Raise BiomedError if a share is not above 0 and at most 1; `what` names the setting."""
    shares = target.values() if isinstance(target, Mapping) else [target]
    for share in shares:
        if share is not None and not 0.0 < share <= 1.0:
            raise BiomedError(f"{what} = {share}: use a number above 0 and up to 1, such as 0.99")


def check_recall_measure(what: str, measure: str) -> None:
    """Raise BiomedError if this is not a `RecallMeasure`; `what` names the setting."""
    if measure not in get_args(RecallMeasure):
        advice = list_choices(str(measure), get_args(RecallMeasure))
        raise BiomedError(f"{what} = {quote(measure)}: {advice}")
