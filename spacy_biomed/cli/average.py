"""`spacy biomed average`."""

from __future__ import annotations

from pathlib import Path

import typer


def average(
    output: Path = typer.Argument(help="Directory to write the pipeline to."),
    pipelines: list[str] = typer.Argument(
        help="Two or more trained pipelines in PyTorch: directories or installed packages."
    ),
    share: list[float] = typer.Option(
        [], min=0, max=1, help="Share of a pipeline, in their order; by default equal shares."
    ),
) -> None:
    """Write the mean of the weights of pipelines that were trained from the same one.

    The mean of a pipeline and of the same one after further training keeps more of what it knew.
    The mean of several trainings is often better than each. Choose the shares on a development
    part. The first pipeline gives its settings, but not its calibration.

    Example: python -m spacy biomed average averaged/mynotes training/all/model-best
    training/mynotes/model-best --share 0.5 --share 0.5
    """
    from ..packaging.averaging import average_pipelines

    average_pipelines(pipelines, output, share)
    typer.echo(f"✔ Wrote {output}")
