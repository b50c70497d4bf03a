"""`spacy biomed reidentify`."""

from __future__ import annotations

from pathlib import Path

import typer

from ..errors import BiomedError


def reidentify(
    texts: Path = typer.Argument(help="What `deidentify --vault` wrote: file or folder."),
    vault: Path = typer.Argument(help="The vault that it wrote."),
    output: Path = typer.Argument(help="The same with the original texts: file or folder."),
    vault_key_file: Path = typer.Option(
        None, help="File with the vault's key; else the variable SPACY_BIOMED_VAULT_KEY."
    ),
    text_field: str = typer.Option(
        "text", "--text-column", "--text-field", help="Column or JSON field with the text."
    ),
) -> None:
    """Restore the original texts from de-identified texts and their vault.

    Texts that were changed, left out or put in another order are refused.

    Example: python -m spacy biomed reidentify deidentified.jsonl vault restored.jsonl
    """
    from ..bulk.text_documents import (
        check_same_format,
        read_text_documents,
        writing_text_documents,
    )
    from ..deidentification.vault import open_vault, read_vault_key

    stored = open_vault(vault, read_vault_key(vault_key_file))
    check_same_format(texts, output)
    number = -1
    keep: list[str] = []
    for document in read_text_documents(texts, text_field):
        keep = [name for name in document.fields if name != text_field]
        break
    with writing_text_documents(texts, output, text_field, keep) as write:
        for number, document in enumerate(read_text_documents(texts, text_field)):
            write(document, stored.restore(number, document.place, document.text))
        if number + 1 != len(stored):
            raise BiomedError(
                f"{texts}: {number + 1} documents, and {vault} has {len(stored)}; give all of them"
            )
    typer.echo(f"✔ Wrote {output}: {number + 1} documents")
