from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ..errors import BiomedError, add_hint
from .corpora import check_no_filters, print_fields, print_json, print_rows, select, shorten

if TYPE_CHECKING:
    from ..encoders.encoder_catalogue import EncoderEntry


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
    from ..encoders.encoder_catalogue import all_encoders

    if name is not None:
        check_no_filters(language=language)
        entry = _find(name)
        print_json(entry) if as_json else print_fields(entry.name, _describe(entry))
        return
    entries = select(all_encoders(), language=language)
    print_json(entries) if as_json else _print_table(entries)


def _find(name: str) -> EncoderEntry:
    from ..encoders.encoder_catalogue import find_encoder
    from ..encoders.loading import suggest_encoder

    entry = find_encoder(name)
    if entry is None:
        problem = (
            f"no encoder named '{name}' in the catalogue: `python -m spacy biomed encoders` lists "
            "them all; a config also takes any hub id or directory"
        )
        raise BiomedError(add_hint(problem, suggest_encoder(name)))
    return entry


def _print_table(entries: list[EncoderEntry]) -> None:
    headers: dict[str, dict[str, object]] = {
        "Name": {"style": "bold", "no_wrap": True},
        "Language": {"no_wrap": True},
        "Cased": {"no_wrap": True},
        "Params": {"no_wrap": True, "justify": "right"},
        "Layers": {"no_wrap": True, "justify": "right"},
        "Licence": {"max_width": 14},
        "Papers": {"no_wrap": True},
        "Hub id": {},
    }
    print_rows(headers, [_row(entry) for entry in entries])


def _row(entry: EncoderEntry) -> list[str]:
    return [
        entry.name,
        entry.language,
        _say_cased(entry),
        f"{entry.parameters / 1e6:.0f}M",
        f"{entry.layers} × {entry.width}",
        _say_licence(entry, shorten(entry.licence)),
        " ".join(str(paper) for paper in entry.papers),
        entry.hub_id or "not on the hub, see NAME",
    ]


def _say_cased(entry: EncoderEntry) -> str:
    return {True: "yes", False: "no", None: "?"}[entry.cased]


def _say_licence(entry: EncoderEntry, licence: str) -> str:
    return f"{licence}, no commercial use" if entry.forbids_commercial_use else licence


def _describe(entry: EncoderEntry) -> dict[str, object]:
    size = f", {entry.vocabulary_size:,} entries" if entry.vocabulary_size else ""
    return {
        "Hub id": entry.hub_id or "none of its authors'",
        "Revision": entry.revision or ("none pinned: the newest" if entry.hub_id else None),
        "Download": entry.download,
        "Language": entry.language,
        "Cased": _say_cased(entry),
        "Parameters": entry.parameters,
        "Layers": entry.layers,
        "Width": entry.width,
        "Vocabulary": f"{entry.vocabulary}{size}",
        "Licence": _say_licence(entry, entry.licence),
        "Paper": entry.paper,
        "Papers": entry.papers,
        "Also called": entry.aliases,
        "Notes": entry.notes,
    }
