"""`spacy biomed annotate`."""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from rich.console import Console
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..errors import BiomedError


def annotate(
    pipeline: str = typer.Argument(help="Installed package or pipeline directory."),
    text: str = typer.Argument("", help="Text to annotate; else standard input."),
    corpus: Path = typer.Option(None, help="Annotate the first text of a .spacy file instead."),
) -> None:
    """Annotate one text and print what was found, with probabilities.

    Example: python -m spacy biomed annotate en_biomed_ner "Aspirin reduced the risk of cancer."
    """
    from ..annotations.pairs import PAIR_SEPARATOR
    from ..pipeline.pipeline_loading import load_pipeline

    nlp = load_pipeline(pipeline)
    if corpus is not None:
        text = _first_text(corpus)
    doc = nlp(text or sys.stdin.read())
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(pipeline, style="bold")
    for part in doc.text.split(PAIR_SEPARATOR):
        console.print(part.strip())
    for line in findings(doc):
        console.print(f"  {line}")


def findings(doc: Doc) -> list[str]:
    """A line for each entity, answer or other span, relation and class, with its probability."""
    from ..annotations.pairs import PAIR_KEY

    layers = [doc.ents, *(group for key, group in doc.spans.items() if key != PAIR_KEY)]
    lines = [_describe(span) for layer in layers for span in layer]
    relations = doc._.relations if doc.has_extension("relations") else None
    for head, tail, label, score in relations or ():
        lines.append(f"{head.text} [{label}] {tail.text} {score:.2f}")
    ranked = sorted(doc.cats.items(), key=lambda item: -item[1])
    return [*lines, *(f"{label} {value:.2f}" for label, value in ranked)]


def _describe(span: Span) -> str:
    # spaCy's own components give no probability.
    confidence = span._.confidence if span.has_extension("confidence") else None
    return f"{span.text} [{span.label_}]" + ("" if confidence is None else f" {confidence:.2f}")


def _first_text(corpus: Path) -> str:
    from ..training.corpus import read_docs

    for doc in read_docs(corpus, Vocab()):
        return doc.text
    raise BiomedError(f"{corpus}: no documents there; give another --corpus, or a text")
