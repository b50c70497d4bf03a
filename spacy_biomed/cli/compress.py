"""`spacy biomed compress`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer
from rich.console import Console
from rich.table import Table

from ._shared import calibration
from ._shared.display import create_table
from ._shared.number_options import at_least_zero

if TYPE_CHECKING:
    from ..packaging.compression import Compression, CompressionReport


def compress(
    pipeline: str = typer.Argument(help="Trained pipeline: a directory or an installed package."),
    output: Path = typer.Argument(help="Directory to write the compressed pipeline to."),
    precision: str = typer.Option(
        "int8", help="int8 or fp32: run without PyTorch; fp16: half the size, can be trained."
    ),
    check: Path = typer.Option(None, help=".spacy file to score it on, before and after."),
    calibrate: Path = typer.Option(
        None,
        help="For int8: .spacy file with texts to measure ranges on, such as the training part.",
    ),
    max_loss: float = typer.Option(
        0.3, callback=at_least_zero, help="Largest loss of F1 on it, in points."
    ),
    confidence: bool = typer.Option(
        True, help="Calibrate the confidence of entities and assertions on the --check corpus."
    ),
    target_recall: list[str] = calibration.TARGET_RECALL,
    recall_measure: str = calibration.RECALL_MEASURE,
    unseen_share: float = calibration.UNSEEN_SHARE,
) -> None:
    """Export a pipeline's encoder, so that it runs fast, and without PyTorch.

    With --precision fp16 the encoder stays in PyTorch, can be trained, and takes half the space.
    Nothing is written if the exported encoder gives other results, or if a score falls by more than
    --max-loss. Then the pipeline is calibrated on the --check corpus (`spacy biomed calibrate`).
    The result is an ordinary pipeline for spacy.load, evaluate and package.

    Example: python -m spacy biomed compress training/ncbi_disease/model-best
    compressed/ncbi_disease --precision int8 --check corpus/ncbi_disease/dev.spacy
    --calibrate corpus/ncbi_disease/train.spacy
    """
    from ..packaging.compression import compress_pipeline

    recall = calibration.read_recall(target_recall, recall_measure, unseen_share)
    console = Console()
    with console.status(f"Writing in {precision} and checking"):
        report = compress_pipeline(
            pipeline,
            output,
            precision=cast("Compression", precision),
            check=check,
            calibrate=calibrate,
            max_loss=max_loss,
            confidence=confidence,
            **recall,
        )
    console.print(_table(report))
    calibration.print_calibrations(console, report.calibrations)
    if check is None:
        console.print("F1 was not compared: give --check, a .spacy file")
    typer.echo(f"✔ Wrote {output}")


def _table(report: CompressionReport) -> Table:
    what: str = report.precision
    if what == "int8":
        what += ", embeddings too" if report.quantized_embeddings else ", embeddings in fp32"
        what += ", static" if report.static else ""
    table = create_table([""], ["before", "after"], f"Encoder in {what}")
    table.add_column("")
    for name in report.names:
        before = 100 * report.scores_before[name]
        for engine, scores in report.scores_by_engine.items():
            title = name if len(report.scores_by_engine) == 1 else f"{name}, {engine}"
            after = 100 * scores[name]
            table.add_row(title, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}")
    if report.bytes_before:
        share = report.bytes_after / report.bytes_before
        sizes = [report.bytes_before, report.bytes_after]
        table.add_row("size, MB", *(f"{size / 1e6:.1f}" for size in sizes), f"{share:.0%}")
    table.add_row("mean cosine of the encoder's rows", "", f"{report.cosine:.5f}", "")
    table.add_row("largest difference in them", "", f"{report.difference:.2g}", "")
    return table
