"""The page of a server: the form, and what was found as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from spacy.displacy import EntityRenderer
from spacy.language import Language

PAGE_FILES = Path(__file__).parent / "page_files"

# Black text on each has a contrast of 7 or more.
COLOURS = (
    "#9ad0f5",
    "#ffc48a",
    "#b5e3a1",
    "#f7a8b8",
    "#d5b8f5",
    "#ffe27a",
    "#8fe0d4",
    "#e3c4a8",
    "#c3cbf9",
    "#d9e88a",
    "#f3b4e4",
    "#c9d3da",
)

# For displaCy, which fills it with `str.format`.
_ENTITY = (
    '<mark class="entity" style="background: {bg}" title="{tooltip}">'
    '{text}<span class="label">{label}</span></mark>'
)


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(PAGE_FILES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_form(nlp: Language, max_characters: int, has_token: bool) -> str:
    """The page with the form."""
    template = _environment().get_template("form.html.jinja")
    name = f"{nlp.meta['lang']}_{nlp.meta['name']}"
    return template.render(
        name=name,
        version=nlp.meta["version"],
        max_characters=max_characters,
        has_token=has_token,
    )


class ResultPage:
    """Writes what was found in a text: marked entities, and tables of everything.

    Args:
        nlp: the pipeline. Its labels get the colours in alphabetical order.
    """

    def __init__(self, nlp: Language):
        labels = sorted({label for own in nlp.pipe_labels.values() for label in own})
        self._colours = {
            label: COLOURS[number % len(COLOURS)] for number, label in enumerate(labels)
        }
        self._template = _environment().get_template("result.html.jinja")

    def write(self, text: str, found: dict[str, Any]) -> str:
        """Write what was found.

        Args:
            text: the text.
            found: what was found in it (`findings.describe`).
        """
        entities = found["entities"]
        groups = dict.fromkeys(entity["group"] for entity in entities) or {None: None}
        return self._template.render(
            layers=[
                self._write_layer(text, group, [one for one in entities if one["group"] == group])
                for group in groups
            ],
            text=text,
            found=found,
            cats=sorted(found.get("cats", {}).items(), key=lambda one: -one[1]),
        )

    def _write_layer(
        self, text: str, group: str | None, entities: list[dict[str, Any]]
    ) -> dict[str, Any]:
        shown = leave_out_overlapping(entities)
        counts = Counter(entity["label"] for entity in entities)
        colours = {label: self._colours.get(label, COLOURS[-1]) for label in counts}
        return {
            "group": group,
            "markup": Markup(render_entities(text, shown, colours)),
            "left_out": len(entities) - len(shown),
            "legend": [(label, colours[label], counts[label]) for label in sorted(counts)],
        }


def render_entities(text: str, entities: Iterable[dict[str, Any]], colours: dict[str, str]) -> str:
    """Mark entities in a text with displaCy.

    Args:
        text: the text.
        entities: disjoint and in text order (`findings.describe`).
        colours: by label.

    Returns:
        HTML.
    """
    # displaCy escapes the text, but not labels, and looks colours up by what is to be shown.
    renderer = EntityRenderer(
        {"template": _ENTITY, "colors": {escape(name): one for name, one in colours.items()}}
    )
    spans = [
        {
            "start": entity["start"],
            "end": entity["end"],
            "label": escape(entity["label"]),
            "params": {"tooltip": escape(_describe(entity))},
        }
        for entity in entities
    ]
    return renderer.render_ents(text, spans, None)


def _describe(entity: dict[str, Any]) -> str:
    confidence = entity["confidence"]
    return entity["label"] + ("" if confidence is None else f", confidence {confidence:.2f}")


def leave_out_overlapping(entities: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that can be marked in one text: of overlapping ones the longest, else the first.

    Returns:
        disjoint and in text order.
    """
    kept: list[dict[str, Any]] = []
    taken: set[int] = set()
    for entity in sorted(entities, key=lambda one: (one["start"] - one["end"], one["start"])):
        if taken.isdisjoint((entity["start"], entity["end"] - 1)):
            taken.update(range(entity["start"], entity["end"]))
            kept.append(entity)
    return sorted(kept, key=lambda one: one["start"])
