"""The options of commands that calibrate, and the tables they print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import typer
from rich.console import Console
from rich.table import Table

from ...errors import BiomedError, quote
from .display import create_table

if TYPE_CHECKING:
    from ...packaging.calibration import RecallOptions
    from ...pipeline.ner.calibrating import Calibration
    from ...pipeline.ner.component import RecallMeasure, RecallTarget
    from ...pipeline.ner.development import LabelRecall

TARGET_RECALL = typer.Option(
    [],
    metavar="[LABEL=]SHARE",
    help="Share of the mentions to find, such as 0.99, at the cost of precision; repeatable.",
)
RECALL_MEASURE = typer.Option(
    None,
    help="What that share counts: exact matches, or mentions covered by what is found, which is "
    "what de-identification needs.",
    metavar="exact|covered",
)
UNSEEN_SHARE = typer.Option(
    None,
    help="Share of new mentions in texts to come, if the corpus has too few; see docs/confidence.",
)


def read_recall(
    target_recall: Sequence[str], recall_measure: str | None, unseen_share: float | None
) -> RecallOptions:
    """The arguments of `calibrate` from the options."""
    return {
        "target_recall": _parse_target(target_recall),
        "recall_measure": cast("RecallMeasure | None", recall_measure),  # checked there
        "unseen_share": unseen_share,
    }


def _parse_target(given: Sequence[str]) -> RecallTarget:
    """Parse shares such as "0.99" and "NAME=0.995"; None if there are none."""
    from ...pipeline.ner.component import OTHERS, check_target_recall

    target: dict[str, float] = {}
    for one in filter(None, given):  # a variable of a workflow may be empty
        label, _, share = one.rpartition("=")
        try:
            target[label or OTHERS] = float(share)
        except ValueError:
            raise BiomedError(
                f"--target-recall {quote(one)}: write a share such as 0.99, or LABEL=0.99"
            ) from None
        check_target_recall(f"--target-recall {quote(one)}: share", target[label or OTHERS])
    return target or None


def print_calibrations(console: Console, report: Mapping[str, Calibration]) -> None:
    """Print what was fitted: recall and precision of labels with a target, and the confidence."""
    for name, calibration in report.items():
        if calibration.recalls:
            console.print(_recall_table(name, calibration.recalls))
        console.print(_describe_confidence(name, calibration), highlight=False, soft_wrap=True)


def _recall_table(name: str, recalls: Sequence[LabelRecall]) -> Table:
    numbers = [
        "mentions",
        "target",
        "recall before",
        "after",
        "precision before",
        "after",
        "offset",
    ]
    table = create_table(["label"], numbers, f"Recall of {name} on the development corpus")
    table.add_column("")
    for one in recalls:
        shares = (one.target, one.recall_before, one.recall, one.precision_before, one.precision)
        table.add_row(
            one.label,
            f"{one.gold:,}",
            *map(_percent, shares),
            f"{one.offset:.2f}",
            "" if one.is_reached else "not reached",
        )
    return table


def _percent(share: float) -> str:
    return "" if share != share else f"{100 * share:.1f}"  # not a number: nothing was found


def _describe_confidence(name: str, calibration: Calibration) -> str:
    if not calibration.predictions:
        return f"{name}: nothing was found, so confidence is not calibrated"
    own = ", ".join(calibration.own_curves) or "none"
    return (
        f"{name}: confidence is calibrated on {calibration.predictions:,} predictions (labels with "
        f"their own curve: {own}); expected calibration error on them "
        f"{calibration.before.error:.3f}, now {calibration.after.error:.3f}"
    )
