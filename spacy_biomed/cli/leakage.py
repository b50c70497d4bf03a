"""`spacy biomed leakage`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import BiomedError
from ._shared.display import create_bar, create_table, explain_capitals
from ._shared.input_options import KINDS, PATTERNS, read_kinds

if TYPE_CHECKING:
    from ..evaluation.leakage import LeakageReport


def leakage(
    pipeline: str = typer.Argument(help="Pipeline that finds mentions: directory or package."),
    corpus: Path = typer.Argument(help=".spacy file with gold mentions."),
    mode: str = typer.Option(None, help="tags or surrogates; else the pipeline's own."),
    kind: list[str] = KINDS,
    patterns: bool = PATTERNS,
    spans_key: str = typer.Option(None, help="Span group of the gold mentions; else entities."),
) -> None:
    """De-identify a corpus and count the annotated mentions that can still be read.

    A mention leaks if a word of it, of at least three letters or digits, is still in its place.
    Ages that are kept on purpose are counted separately, and so are mentions whose surrogate
    happens to contain a word of theirs. The pipeline gets what `deidentify` gives it.

    Example: python -m spacy biomed leakage training/meddocan/model-best
    corpus/meddocan/test.spacy --mode surrogates
    """
    from ..bulk.deidentification import Deidentification
    from ..evaluation.leakage import measure_leakage
    from ..formats.spacy_docs import read_docs
    from ..normalization import is_in_capitals
    from ..pipeline.encoder_pipe import reads_capitals
    from ..pipeline.pipeline_loading import load_pipeline

    nlp = load_pipeline(pipeline)
    deidentifier = Deidentification(mode=mode, kinds=read_kinds(kind), patterns=patterns).prepare(
        nlp
    )
    gold = list(read_docs(corpus, nlp.vocab))
    if not gold:
        raise BiomedError(f"{corpus}: no documents there; give a converted part of a corpus")
    console = Console(highlight=False)
    with create_bar(console) as bar:
        predicted = nlp.pipe(doc.text for doc in gold)
        report = measure_leakage(
            zip(gold, bar.track(predicted, len(gold), description="De-identifying"), strict=True),
            lambda label: deidentifier.kind(label) != "keep",
            spans_key=spans_key,
            is_drawn=deidentifier.is_drawn,
        )
    console.print(_table(report))
    capitals = sum(is_in_capitals(doc.text) for doc in gold)
    if capitals and not reads_capitals(nlp):
        console.print(explain_capitals(capitals, len(gold)))
    console.print(f"{report.leaking_documents} of {report.documents} documents leak")


def _table(report: LeakageReport) -> Table:
    titles = ("mentions", "kept", "by chance", "leaked", "")
    table = create_table([""], titles, "Gold mentions in the de-identified text")
    for label, counts in [*sorted(report.labels.items()), ("all labels", report.total)]:
        share = counts.leaked / max(counts.mentions, 1)
        numbers = (counts.mentions, counts.kept, counts.by_chance, counts.leaked)
        table.add_row(escape(label), *(f"{number:,}" for number in numbers), f"{share:.2%}")
    return table
