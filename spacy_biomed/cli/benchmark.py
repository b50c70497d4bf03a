"""`spacy biomed benchmark`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

from ..errors import BiomedError
from ..outputs import replacing_file
from ._shared.input_options import (
    CODE,
    DELIMITER,
    ENCODING,
    QUOTING,
    TEXT_COLUMN,
    read_layout,
)

if TYPE_CHECKING:
    from ..evaluation.benchmark import Measure, PipelineFigures


def benchmark(
    pipeline: str = typer.Argument(help="Pipeline: a directory or an installed package."),
    texts: Path = typer.Argument(None, help="Texts: a file or folder, as of annotate."),
    robustness: Path = typer.Option(
        None,
        help="Converted corpus (.spacy) to score with changed texts: in capitals, without accents, "
        "... instead of measuring speed.",
    ),
    against: str = typer.Option(None, help="Another pipeline, measured in turn with the first."),
    repeats: int = typer.Option(5, min=1, help="How often everything is measured."),
    threads: int = typer.Option(
        None, min=1, help="Threads of every library; else what the environment says."
    ),
    batch_size: int = typer.Option(
        None, min=1, help="Documents that nlp.pipe takes at a time; else the pipeline's."
    ),
    text_column: str = TEXT_COLUMN,
    encoding: str = ENCODING,
    delimiter: str = DELIMITER,
    quoting: str = QUOTING,
    code: Path = CODE,
    output: Path = typer.Option(None, help="JSON file to write all figures to."),
) -> None:
    """Measure a pipeline: speed, latency, loading, memory and size; or its robustness.

    Each pipeline runs in separate processes. Words are the tokens of its tokenizer. Figures are
    medians of the repeats, followed by the smallest and the largest value.

    With --robustness the pipeline is scored on a corpus whose texts are changed: in capitals, in
    lower case, without accents, with other spaces, hyphens and line ends.

    Example: python -m spacy biomed benchmark compressed/ncbi_disease corpus/ncbi_disease/test.spacy
    --against training/ncbi_disease/model-best --threads 2
    """
    if robustness is not None:
        if texts is not None or against is not None:
            raise BiomedError("--robustness scores one pipeline on its corpus: give no other texts")
        _measure_robustness(pipeline, robustness, code, output)
        return
    if texts is None:
        raise BiomedError("give the texts to measure with, or a corpus with --robustness")
    from ..bulk.sources import Columns, read_texts
    from ..evaluation.benchmark import count_parts, measure_pipelines, to_json

    read = read_texts(texts, Columns(text_column), read_layout(encoding, delimiter, quoting))
    pipelines = [pipeline] if against is None else [pipeline, against]
    sources: list[Path | str] = [texts, *pipelines]
    console = Console()
    # Before the work, so that a file that cannot be written is reported at once.
    with (
        nullcontext() if output is None else replacing_file(output, sources) as partial,
        Progress(console=console, transient=True) as bar,
    ):
        task = bar.add_task("Measuring", total=count_parts(len(pipelines), repeats))
        measured = measure_pipelines(
            pipelines,
            read,
            repeats=repeats,
            threads=threads,
            batch_size=batch_size,
            code=None if code is None else str(code),
            progress=lambda part: bar.update(task, advance=1, description=part),
        )
        if partial is not None:
            content = to_json(measured, texts=texts, repeats=repeats, threads=threads)
            partial.write_text(json.dumps(content, indent=2), encoding="utf8")
    for figures in measured:
        size = f"{figures.documents:,} documents, {figures.words:,} words"
        engines = "".join(f", {name} in {engine}" for name, engine in figures.engines.items())
        typer.echo(f"{figures.pipeline}: {size}{engines}")
    console.print(_table(measured))
    if output is not None:
        typer.echo(f"✔ Wrote {output}")


def _measure_robustness(
    pipeline: str, corpus: Path, code: Path | None, output: Path | None
) -> None:
    """Score a pipeline on changed texts, and print and write the scores."""
    from ..evaluation.robustness import CHANGES, measure_robustness
    from ..pipeline.pipeline_loading import load_pipeline
    from ..training.corpus import read_docs

    nlp = load_pipeline(pipeline, code)
    console = Console()
    with (
        nullcontext() if output is None else replacing_file(output, [corpus, pipeline]) as partial,
        Progress(console=console, transient=True) as bar,
    ):
        task = bar.add_task("Scoring", total=len(CHANGES))
        measured = measure_robustness(
            nlp,
            read_docs(corpus, nlp.vocab),
            progress=lambda change: bar.update(task, advance=1, description=change),
        )
        if partial is not None:
            content = {"corpus": corpus.parent.name, "rows": [asdict(row) for row in measured]}
            partial.write_text(json.dumps(content, indent=2), encoding="utf8")
    names = [
        "precision",
        "recall",
        "F1",
        *(["clean documents"] if measured[0].clean is not None else []),
    ]
    table = Table("text", *(Column(name, justify="right") for name in names))
    for row in measured:
        shares = [row.precision, row.recall, row.f1, *([] if row.clean is None else [row.clean])]
        table.add_row(row.change, *(f"{100 * share:.1f}" for share in shares))
    console.print(table)
    if output is not None:
        typer.echo(f"✔ Wrote {output}")


def _table(measured: list[PipelineFigures]) -> Table:
    from ..evaluation.benchmark import MEASURES

    names = _short_names([figures.pipeline for figures in measured])
    table = Table("", *(Column(name, justify="right", overflow="fold") for name in names))
    if len(measured) > 1:
        table.add_column("times better", justify="right")
    for measure in MEASURES:
        row = [_format(measure, figures) for figures in measured]
        if len(measured) > 1:
            ratio = measure.times_better(*measured)
            row.append("" if ratio is None else f"{ratio:.2f}")
        title = f"{measure.title}, {measure.unit}" if measure.unit else measure.title
        table.add_row(title, *row)
    return table


def _short_names(pipelines: list[str]) -> list[str]:
    """The last parts of the paths, as many as are needed to distinguish them."""
    parts = [Path(pipeline).parts for pipeline in pipelines]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(own[-count:]) for own in parts]
        if len(set(names)) == len(names):
            break
    return names


def _format(measure: Measure, figures: PipelineFigures) -> str:
    value, spread = measure.value(figures), measure.spread(figures)
    if value is None:
        return "not known"
    numbers = [number * measure.scale for number in [value, *(spread or ())]]
    digits = 0 if numbers[0] >= 1000 else 1 if numbers[0] >= 10 else 2
    middle, *ends = (f"{number:,.{digits}f}" for number in numbers)
    return f"{middle} ({ends[0]} to {ends[1]})" if ends else middle
