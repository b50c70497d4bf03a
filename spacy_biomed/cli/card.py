"""`spacy biomed card`."""

from collections.abc import Sequence
from pathlib import Path

import typer
from wasabi import msg

from ..errors import BiomedError, quote


def card(
    pipeline: Path = typer.Argument(help="Trained pipeline, such as training/NAME/model-best."),
    output: Path = typer.Argument(help="Directory to write the described copy to."),
    corpus: Path = typer.Option(..., help="Folder that `spacy biomed convert` wrote."),
    metrics: Path = typer.Option(..., help="JSON file that `spacy evaluate --output` wrote."),
    other_metrics: list[str] = typer.Option(
        [], help="NAME=FILE: the metrics of another test part, shown as well; repeatable."
    ),
    robustness: list[Path] = typer.Option(
        [], help="JSON file that `benchmark --robustness --output` wrote; repeatable."
    ),
    name: str = typer.Option("", help="The package's name without language; else the corpus's."),
    version: str = typer.Option("0.1.0", help="The package's version."),
) -> None:
    """Write a copy of a pipeline with the meta and the model card of its wheel.

    Example: python -m spacy biomed card training/ncbi_disease/model-best pipelines/ncbi_disease
    --corpus corpus/ncbi_disease --metrics metrics/ncbi_disease.json
    """
    from ..packaging.described_pipeline import write_described_pipeline

    meta = write_described_pipeline(
        pipeline,
        output,
        corpus=corpus,
        metrics=metrics,
        other_metrics=_parse_metrics(other_metrics),
        robustness=robustness,
        name=name or None,
        pipeline_version=version,
    )
    msg.good(f"{output}: {meta['lang']}_{meta['name']} {meta['version']}, meta.json and README.md")


def _parse_metrics(pairs: Sequence[str]) -> dict[str, Path]:
    named = [pair.partition("=") for pair in pairs]
    for pair, (name, equals, path) in zip(pairs, named, strict=True):
        if not (name and equals and path):
            raise BiomedError(f"--other-metrics {quote(pair)}: write NAME=FILE")
    return {name: Path(path) for name, _, path in named}
