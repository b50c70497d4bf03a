"""`spacy biomed reidentify`."""

from __future__ import annotations

from pathlib import Path

import typer

from ..errors import BiomedError
from ..files.output_places import check_output
from ._shared.input_options import DELIMITER, ENCODING, QUOTING, TEXT_COLUMN, read_layout


def reidentify(
    texts: Path = typer.Argument(help="What `deidentify --vault` wrote: file or folder."),
    vault: Path = typer.Argument(help="The vault that it wrote."),
    output: Path = typer.Argument(help="The same with the original texts: file or folder."),
    vault_key_file: Path = typer.Option(
        None, help="File with the vault's key; else the variable SPACY_BIOMED_VAULT_KEY."
    ),
    text_field: str = TEXT_COLUMN,
    encoding: str = ENCODING,
    delimiter: str = DELIMITER,
    quoting: str = QUOTING,
) -> None:
    """Restore the original texts from de-identified texts and their vault.

    Texts that were changed or left out are refused, and a vault that was written with other texts.
    Rows have to be in their order; files are found by their names.

    Example: python -m spacy biomed reidentify deidentified.jsonl vault restored.jsonl
    """
    from ..bulk.text_documents import check_same_format, find_texts, list_columns, writing_texts
    from ..deidentification.vault import open_vault, read_vault_key
    from ..files.sources import Columns

    check_output(output, [vault, *filter(None, [vault_key_file])])
    key = read_vault_key(vault_key_file)
    layout = read_layout(encoding, delimiter, quoting)
    check_same_format(texts, output)
    columns = Columns(text_field, keep=list_columns(texts, text_field, layout))
    part = find_texts(texts, columns, layout)
    stored = open_vault(vault, key, texts)
    number = -1
    with writing_texts(texts, output, columns, layout) as write:
        for number, item in enumerate(part.read_from(0, 0)):
            if item.error:
                raise BiomedError(f"{item.id}: {item.error}")
            name = item.id if texts.is_dir() else str(number)
            write(item, stored.restore(name, item.id, item.text, item.fields))
        if number + 1 != len(stored):
            raise BiomedError(
                f"{texts}: {number + 1} documents, and {vault} has {len(stored)}; give all of them"
            )
    typer.echo(f"✔ Wrote {output}: {number + 1} documents")
