"""`spacy biomed scores`."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from ._shared.display import create_table


def scores(
    pipeline: Path = typer.Argument(help="Directory of the pipeline that was evaluated."),
    metrics: Path = typer.Argument(help="JSON file that `spacy evaluate --output` wrote."),
) -> None:
    """Say in words what `spacy evaluate` measured.

    Its SPAN P, R and F, with --spans-key unseen, are of the mentions whose text is nowhere in the
    training part.

    Example: python -m spacy biomed scores compressed/mynotes metrics/mynotes.json
    """
    from ..evaluation.tasks import find_heads, read_scores
    from ..packaging.described_pipeline import read_pipeline_config

    heads = find_heads(read_pipeline_config(pipeline / "config.cfg"))
    measured = read_scores(metrics, heads)
    console = Console(highlight=False)
    for head in heads:
        title = Text(f"{head.name}: {head.kind.task_name}")
        table = create_table([""], ["precision", "recall", "F1"], title)
        for row, values in head.rows(measured):
            cells = ("" if value is None else f"{100 * value:.2f}" for value in values)
            table.add_row(Text(row), *cells)
        console.print(table)
    if any(name.startswith("spans_unseen_") for name in measured):
        console.print(
            "SPAN P, R and F, and SPANS (per type), of `spacy evaluate` are of the mentions that "
            "were not seen in training",
            soft_wrap=True,
        )
