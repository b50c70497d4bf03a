"""`spacy biomed card`."""

from pathlib import Path

import typer


def card(
    pipeline: Path = typer.Argument(help="Trained pipeline, such as training/NAME/model-best."),
    output: Path = typer.Argument(help="Directory to write the described copy to."),
    corpus: Path = typer.Option(..., help="Folder that `spacy biomed convert` wrote."),
    metrics: Path = typer.Option(..., help="JSON file that `spacy evaluate --output` wrote."),
    name: str = typer.Option("", help="The package's name without language; else the corpus's."),
    version: str = typer.Option("0.1.0", help="The package's version."),
) -> None:
    """Give a pipeline the meta and the model card that its wheel will carry.

    Example: python -m spacy biomed card training/ncbi_disease/model-best pipelines/ncbi_disease
    --corpus corpus/ncbi_disease --metrics metrics/ncbi_disease.json
    """
    from wasabi import msg

    from ..evaluation.model_card import write_described_pipeline

    meta = write_described_pipeline(
        pipeline,
        output,
        corpus=corpus,
        metrics=metrics,
        name=name or None,
        pipeline_version=version,
    )
    msg.good(f"{output}: {meta['lang']}_{meta['name']} {meta['version']}, meta.json and README.md")
