"""`spacy biomed corpora` and `spacy biomed encoders`: what the package knows by name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ..errors import BiomedError, add_hint, list_choices

if TYPE_CHECKING:
    from ..corpora.corpus_catalogue import CorpusEntry
    from ..encoders.encoder_catalogue import EncoderEntry

# By the titles of columns: arguments of rich's `Table.add_column`, and what a cell shows.
Columns = dict[str, tuple[dict[str, Any], Callable[[Any], str]]]

# Width of the output, in characters, if it is not a terminal.
_PIPED_WIDTH = 120
_NAME: dict[str, Any] = {"style": "bold", "no_wrap": True}
_WHOLE: dict[str, Any] = {"no_wrap": True}


def corpora(
    name: str | None = typer.Argument(None, help="Show everything known about this corpus"),
    folder: Path | None = typer.Argument(
        None, help="Folder to download it to; else its place in assets/.", show_default=False
    ),
    download: bool = typer.Option(False, "--download", help="Download its files, or check them."),
    task: str | None = typer.Option(None, "--task", "-t", help="Only corpora of this task"),
    language: str | None = typer.Option(
        None, "--language", "-l", help="Only this language: en, es, fr"
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table"),
) -> None:
    """List the corpora that the package knows, or show or download one of them.

    Examples: python -m spacy biomed corpora --task ner --language es,
    python -m spacy biomed corpora ncbi_disease,
    python -m spacy biomed corpora ncbi_disease --download
    """
    from ..corpora.corpus_catalogue import all_corpora, find_corpus
    from ..corpora.downloads import download_corpus

    if download != (folder is not None) and not (download and name):
        raise BiomedError("give the corpus to download, and --download: NAME --download [FOLDER]")
    if name is None:
        entries = _select(all_corpora(), task=task, language=language)
        _print(entries, as_json, _CORPUS_COLUMNS, _describe_corpus)
        return
    _check_no_filters(task=task, language=language)
    entry = find_corpus(name)
    if not download:
        _print(entry, as_json, _CORPUS_COLUMNS, _describe_corpus)
        return
    folder = folder or Path("assets", entry.folder)
    if downloaded := download_corpus(entry, folder):
        typer.echo(f"✔ Downloaded {', '.join(map(str, downloaded))}")
    else:
        typer.echo(f"✔ {folder} has the files of {entry.name} already, as published")


def _check_no_filters(**filters: str | None) -> None:
    given = [f"--{field}" for field, value in filters.items() if value is not None]
    if given:
        raise BiomedError(f"{' and '.join(given)}: only for the table; leave it out, or NAME")


def _select(entries: Sequence[Any], **filters: str | None) -> list[Any]:
    """The entries whose fields equal the filters that are given; case does not matter."""
    chosen = list(entries)
    for field, wanted in filters.items():
        if wanted is None:
            continue
        values = sorted({getattr(entry, field) for entry in entries})
        if wanted.lower() not in values:
            advice = list_choices(wanted, values)
            raise BiomedError(f"no --{field} '{wanted}' in the catalogue: {advice}")
        chosen = [entry for entry in chosen if getattr(entry, field) == wanted.lower()]
    return chosen


def _print(
    shown: Any, as_json: bool, columns: Columns, describe: Callable[[Any], dict[str, object]]
) -> None:
    """Print an entry by its fields, or a list of them as a table; either may be JSON."""
    if as_json:
        typer.echo(json.dumps(shown, default=asdict, indent=2, ensure_ascii=False))
    elif isinstance(shown, list):
        headers = {title: options for title, (options, _) in columns.items()}
        print_rows(headers, [[show(entry) for _, show in columns.values()] for entry in shown])
    else:
        _print_fields(shown.name, describe(shown))


def _create_console() -> Console:
    """A console as wide as the terminal, or wide enough for the tables."""
    console = Console(markup=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH
    return console


def print_rows(headers: dict[str, dict[str, Any]], rows: list[list[str]]) -> None:
    """Print a table whose long cells are wrapped and never cut.

    `headers` are the titles of columns, with arguments of rich's `Table.add_column`.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for header, options in headers.items():
        table.add_column(header, overflow="fold", **options)
    for row in rows:
        table.add_row(*row)
    _create_console().print(table)


def _print_fields(title: str, fields: dict[str, object]) -> None:
    """Print the fields that have a value, one below the other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for field, value in fields.items():
        if value not in (None, "", ()) and value != {}:
            grid.add_row(field, _format(value))
    console = _create_console()
    console.print(title, style="bold")
    console.print(grid)


def _list_fields(entry: Any, hidden: tuple[str, ...] = ()) -> dict[str, object]:
    """The fields of an entry by their titles, without its name and those that are hidden."""
    return {
        field.replace("_", " ").capitalize(): value
        for field, value in asdict(entry).items()
        if field not in ("name", *hidden)
    }


def _shorten(text: str) -> str:
    """The part of a catalogue field before its first qualification, for a cell of a table."""
    return re.split(r"[,;(]| over | of ", text, maxsplit=1)[0].strip()


def _format(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_format(part)}" for key, part in value.items())
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _say_labels(entry: CorpusEntry) -> str:
    labels = ", ".join(entry.labels)
    if len(entry.labels) > 2 or len(labels) > 20:
        return f"{len(entry.labels)} labels"
    return labels or "with the data"


def _say_splits(entry: CorpusEntry) -> str:
    return "undivided" if "all" in entry.splits else " ".join(entry.splits) or "see NAME"


def _shorten_source(entry: CorpusEntry) -> str:
    """Owner of a GitHub repository, domain of another page, else the first words."""
    address = entry.repository or entry.source.split()[0]
    if not address.startswith("http"):
        return _shorten(entry.source)
    host, owner = address.split("/")[2:4]
    return owner if host == "github.com" else ".".join(host.split(".")[-2:])


_CORPUS_COLUMNS: Columns = {
    "Name": (_NAME, attrgetter("name")),
    "Task": (_WHOLE, attrgetter("task")),
    "Lang": (_WHOLE, attrgetter("language")),
    "Labels": ({"max_width": 12}, _say_labels),
    "Splits": ({"max_width": 9}, _say_splits),
    "Metric": ({"max_width": 11}, lambda entry: _shorten(entry.metric)),
    "Licence": ({"max_width": 14}, lambda entry: _shorten(entry.licence)),
    "Access": ({"max_width": 9}, attrgetter("access")),
    "From": ({}, _shorten_source),
}


def _describe_corpus(entry: CorpusEntry) -> dict[str, object]:
    hidden = ("instructions", "drop_repeats", "part_ids", "repository_paths", "sha256")
    return {**_list_fields(entry, hidden), "Files": _where_files_go(entry)}


def _where_files_go(entry: CorpusEntry) -> str:
    if entry.instructions:
        return entry.instructions
    folder = f"assets/{entry.folder}/"
    if entry.access == "ships":
        return f"{folder} comes with the project."
    return f"`python -m spacy biomed corpora {entry.name} --download` downloads them to {folder}"


def encoders(
    name: str | None = typer.Argument(None, help="Show everything known about this encoder"),
    language: str | None = typer.Option(
        None, "--language", "-l", help="Only this language: en, es, multilingual"
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table"),
) -> None:
    """List the encoders that the package knows by name, or show one of them.

    Examples: python -m spacy biomed encoders --language es,
    python -m spacy biomed encoders biobert
    """
    from ..encoders.encoder_catalogue import all_encoders, find_encoder
    from ..encoders.loading import suggest_encoder

    if name is None:
        entries = _select(all_encoders(), language=language)
        _print(entries, as_json, _ENCODER_COLUMNS, _describe_encoder)
        return
    _check_no_filters(language=language)
    entry = find_encoder(name)
    if entry is None:
        problem = (
            f"no encoder named '{name}' in the catalogue: `python -m spacy biomed encoders` lists "
            "them all; a config also takes any hub id or directory"
        )
        raise BiomedError(add_hint(problem, suggest_encoder(name)))
    _print(entry, as_json, _ENCODER_COLUMNS, _describe_encoder)


def _say_cased(entry: EncoderEntry) -> str:
    return {True: "yes", False: "no", None: "?"}[entry.cased]


def _say_licence(entry: EncoderEntry, licence: str) -> str:
    return f"{licence}, no commercial use" if entry.forbids_commercial_use else licence


_ENCODER_COLUMNS: Columns = {
    "Name": (_NAME, attrgetter("name")),
    "Language": (_WHOLE, attrgetter("language")),
    "Cased": (_WHOLE, _say_cased),
    "Params": ({**_WHOLE, "justify": "right"}, lambda entry: f"{entry.parameters / 1e6:.0f}M"),
    "Layers": ({**_WHOLE, "justify": "right"}, lambda entry: f"{entry.layers} × {entry.width}"),
    "Licence": ({"max_width": 14}, lambda entry: _say_licence(entry, _shorten(entry.licence))),
    "Papers": (_WHOLE, lambda entry: " ".join(map(str, entry.papers))),
    "Hub id": ({}, lambda entry: entry.hub_id or "not on the hub, see NAME"),
}


def _describe_encoder(entry: EncoderEntry) -> dict[str, object]:
    licence = _say_licence(entry, entry.licence)
    return {**_list_fields(entry), "Cased": _say_cased(entry), "Licence": licence}
