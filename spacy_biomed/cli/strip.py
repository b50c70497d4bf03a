"""`spacy biomed strip`."""

from __future__ import annotations

from pathlib import Path

import typer


def strip(
    pipeline: Path = typer.Argument(help="Directory of a pipeline; it is changed in place."),
    force: bool = typer.Option(
        False, "--force", help="Also where a component of another package may need the words."
    ),
) -> None:
    """Remove the words of texts that a pipeline has read from its vocabulary.

    `nlp.to_disk`, `spacy train` and `spacy package` keep them, names of patients among them. The
    commands of this package write pipelines without them.

    Example: python -m spacy biomed strip training/mynotes/model-best
    """
    from ..pipeline.saved_words import strip_directory

    before, after = strip_directory(pipeline, force=force)
    typer.echo(f"✔ {pipeline}: {before:,} strings before, {after:,} now")
