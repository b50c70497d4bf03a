"""`spacy biomed clean`."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ..errors import BiomedError, quote
from ._shared.display import create_bar, create_table
from ._shared.input_options import DELIMITER, ENCODING, QUOTING, TEXT_COLUMN, read_layout

if TYPE_CHECKING:
    from ..language_models.cleaning import CleaningReport, Source


def clean(
    sources: list[str] = typer.Argument(
        help="Files (.txt, .jsonl, .csv, .parquet, .xml; .gz, .xz, .zst) and folders, each a "
        "separate source; NAME=PATH names a source, which may have several paths."
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Text file to write: .txt, .txt.gz, .txt.xz or .txt.zst."
    ),
    lang: str = typer.Option(..., help="Language of the corpus, such as en; others are removed."),
    text_field: str = TEXT_COLUMN,
    encoding: str = ENCODING,
    delimiter: str = DELIMITER,
    quoting: str = QUOTING,
    min_words: int = typer.Option(3, min=1, help="Fewest words of a sentence."),
    max_words: int = typer.Option(250, min=1, help="Most words of a sentence."),
    similarity: float = typer.Option(
        0.8, min=0.5, max=0.95, help="Jaccard similarity of near-duplicate documents."
    ),
    workers: int = typer.Option(1, min=1, help="Processes that split and filter."),
) -> None:
    """Clean a corpus to learn from: split sentences, remove noise, other languages, duplicates.

    Duplicates are found within a source and across sources; the first is kept. Writes a document
    per line, and beside it a report of what was removed and why. Memory does not grow with the
    corpus.

    Example: python -m spacy biomed clean abstracts=data/pubmed cases.jsonl.zst --output
    corpus/clean.txt.xz --lang en
    """
    from ..language_models.cleaning import CleaningSettings, clean_corpus, report_path
    from ..language_models.deduplication import NearDuplicates
    from ..language_models.sentences import Thresholds

    if min_words > max_words:
        raise BiomedError(f"--min-words {min_words} is above --max-words {max_words}: swap them")
    settings = CleaningSettings(
        lang,
        Thresholds(min_words=min_words, max_words=max_words),
        NearDuplicates(similarity=similarity),
    )
    console = Console(highlight=False)
    with create_bar(console) as progress:
        # Without a total, the bar shows that documents are being counted.
        task = progress.add_task("Cleaning", total=None)
        report = clean_corpus(
            group_sources(sources),
            output,
            settings,
            text_field=text_field,
            layout=read_layout(encoding, delimiter, quoting),
            workers=workers,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    console.print(_sources_table(report))
    console.print(_reasons_table(report))
    for path in (output, report_path(output)):
        typer.echo(f"✔ Wrote {path}")


def group_sources(arguments: list[str]) -> list[Source]:
    """The sources that arguments name: NAME=PATH, or a path whose source is named like it."""
    from ..language_models.cleaning import Source

    paths: dict[str, list[Path]] = {}
    for argument in arguments:
        name, sign, path = argument.partition("=")
        if not sign or os.path.exists(argument):
            name = path = argument
        if not (name and path):
            raise BiomedError(f"{quote(argument)}: name a file or folder of text, as in NAME=PATH")
        paths.setdefault(name, []).append(Path(path))
    return [Source(name, tuple(own)) for name, own in paths.items()]


def _sources_table(report: CleaningReport) -> Table:
    texts = (Column(title, overflow="fold") for title in ("source", ""))
    numbers = (Column(title, justify="right", no_wrap=True) for title in ("in", "out", "share"))
    table = Table(*texts, *numbers, title="Kept", title_justify="left")
    total = {"all sources": report.total} if len(report.sources) > 1 else {}
    for name, account in [*report.sources.items(), *total.items()]:
        for kind, counts in account.to_json().items():
            share = counts["out"] / max(counts["in"], 1)
            title = escape(name) if kind == "documents" else ""
            table.add_row(title, kind, f"{counts['in']:,}", f"{counts['out']:,}", f"{share:.1%}")
    return table


def _reasons_table(report: CleaningReport) -> Table:
    kinds = ("documents", "sentences")
    table = create_table([""], kinds, "Removed")
    counts = report.total.to_json()
    removed = [counts[kind]["removed"] for kind in kinds]
    for reason in dict.fromkeys(chain(*removed)):
        cells = [by_reason.get(reason, 0) for by_reason in removed]
        if any(cells):
            table.add_row(reason, *(f"{count:,}" if count else "" for count in cells))
    return table
