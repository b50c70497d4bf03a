"""`spacy biomed vocabulary`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer
from rich.console import Console

from ..errors import BiomedError, list_choices
from ..files.outputs import replacing_directory

if TYPE_CHECKING:
    from ..language_models.vocabulary import Kind


def vocabulary(
    text: list[Path] = typer.Argument(help="Files or folders of text: .txt, .jsonl, .parquet."),
    output: Path = typer.Option(..., "--output", "-o", help="Tokenizer directory to write."),
    kind: str = typer.Option("wordpiece", help="wordpiece (BERT's) or bpe (RoBERTa's)."),
    size: int = typer.Option(..., min=1, help="Largest number of entries."),
    lowercase: bool = typer.Option(
        False, "--lowercase", help="Fold case and accents; for wordpiece."
    ),
    text_field: str = typer.Option("text", help="Field of .jsonl and .parquet with the text."),
) -> None:
    """Learn a vocabulary from text, and write it as a Hugging Face fast tokenizer.

    A recipe for `spacy biomed pretrain` takes the directory as [vocabulary] name. Without it, the
    recipe describes a vocabulary that pretraining learns.

    Example: python -m spacy biomed vocabulary texts/ --output vocabularies/mine --kind bpe
    --size 50262
    """
    from ..language_models.vocabulary import Documents, learn_vocabulary, save_tokenizer

    if kind not in ("bpe", "wordpiece"):
        raise BiomedError(f"--kind {kind}: {list_choices(kind, ('bpe', 'wordpiece'))}")
    if lowercase and kind == "bpe":
        raise BiomedError("--lowercase: only --kind wordpiece folds case; leave it out")
    with (
        replacing_directory(output, "spacy biomed vocabulary", text) as partial,
        Console().status("Learning the vocabulary"),
    ):
        documents = Documents(text, text_field)
        tokenizer = learn_vocabulary(documents, cast("Kind", kind), size, lowercase=lowercase)
        save_tokenizer(tokenizer, partial)
    typer.echo(f"✔ Wrote {output}: {tokenizer.get_vocab_size():,} entries")
