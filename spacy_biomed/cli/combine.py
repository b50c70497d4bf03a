"""`spacy biomed combine`: parse, call `combine_corpora`, print a table of the corpora."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from ._shared.display import create_table

if TYPE_CHECKING:
    from ..training.combining import CombinationReport


# Counts of a part of a corpus, by their titles in the table.
COUNTS = {
    "documents": "documents",
    "same text held out": "repeated_text",
    "same id": "repeated_id",
    "a sentence": "repeated_sentence",
    "merged": "merged",
    "kept twice": "kept_twice",
    "disputed mentions": "disputed",
}


def combine(
    output: Path = typer.Argument(help="The folder to write {train,dev,test}.spacy to."),
    corpora: list[Path] = typer.Argument(help="Folders that `spacy biomed convert` wrote."),
    map: list[str] = typer.Option(
        [],
        help="CORPUS:LABEL=NAME renames a label of a corpus, CORPUS:LABEL= leaves its mentions "
        "out, CORPUS:LABEL=?NAME makes them neither right nor wrong as NAME; repeatable.",
    ),
    spans_key: str | None = typer.Option(
        None, help="The mentions are in doc.spans[KEY] rather than doc.ents."
    ),
    train_first: bool = typer.Option(
        False,
        "--train-first",
        help="Train on texts of both a training and a development part; else hold them out.",
    ),
) -> None:
    """Combine corpora of mentions that annotate different labels into one to train on.

    Each document says which labels it annotates, so that the absence of other labels is neither
    learned nor scored. Texts of a test part are left out of the other parts. Texts of a development
    part are left out of the training part, or the other way round with --train-first.

    Example: python -m spacy biomed combine corpus/both corpus/ncbi_disease corpus/bc5cdr
    --map ncbi_disease:Disease=DISEASE --map bc5cdr:Disease=DISEASE --map bc5cdr:Chemical=CHEMICAL
    """
    from ..evaluation.cross_corpus import parse_label_maps
    from ..training.combining import combine_corpora

    report = combine_corpora(
        corpora,
        output,
        label_maps=parse_label_maps(map),
        spans_key=spans_key,
        train_first=train_first,
    )
    Console().print(_table(report))
    names = ", ".join(f"{part}.spacy" for part in report.parts)
    for part, counts in report.parts.items():
        mentions = ", ".join(f"{count:,} {label}" for label, count in counts.mentions.items())
        typer.echo(f"{part}: {counts.documents:,} documents; {mentions or 'no mentions'}")
    typer.echo(f"✔ Wrote {names} to {output}")


def _table(report: CombinationReport) -> Table:
    title = f"{report.name} ({report.language})"
    counts = [count for corpus in report.corpora for count in corpus.parts.values()]
    # Without the columns of zeros, which would squeeze the others.
    shown = {
        header: name
        for header, name in COUNTS.items()
        if name == "documents" or any(getattr(count, name) for count in counts)
    }
    table = create_table(["corpus", "labels", "part"], shown, title)
    for corpus in report.corpora:
        begin = [corpus.name, ", ".join(corpus.labels)]
        for part, count in corpus.parts.items():
            table.add_row(*begin, part, *(f"{getattr(count, name):,}" for name in shown.values()))
            begin = ["", ""]
    return table
