"""`spacy biomed calibrate`."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from ._shared import calibration


def calibrate(
    pipeline: str = typer.Argument(help="Trained pipeline: a directory or an installed package."),
    output: Path = typer.Argument(help="Directory to write the calibrated copy to."),
    dev: Path = typer.Option(..., help=".spacy file that it was not trained on."),
    target_recall: list[str] = calibration.TARGET_RECALL,
    recall_measure: str = calibration.RECALL_MEASURE,
    unseen_share: float = calibration.UNSEEN_SHARE,
) -> None:
    """Make confidence a probability, and choose how many entities are found.

    A confidence of 0.8 then means that 80% of such entities are right, as on the corpus DEV. The
    probabilities of biomed_assertion, such as that of being negated, are calibrated too. With
    --target-recall, entities are found even where no entity is more probable, until this share of a
    label's mentions is found. `compress --check` does the same.

    Example: python -m spacy biomed calibrate training/mynotes/model-best calibrated/mynotes
    --dev corpus/mynotes/dev.spacy --target-recall 0.95 --target-recall NAME=0.99
    """
    from ..packaging.calibration import calibrate_pipeline

    recall = calibration.read_recall(target_recall, recall_measure, unseen_share)
    console = Console()
    with console.status("Calibrating"):
        report = calibrate_pipeline(
            pipeline,
            output,
            dev=dev,
            **recall,
        )
    calibration.print_calibrations(console, report)
    typer.echo(f"✔ Wrote {output}")
