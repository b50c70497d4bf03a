"""`spacy biomed deidentify`."""

from __future__ import annotations

import os
from pathlib import Path

import typer
from rich.console import Console

from ..bulk.failed_documents import check_failed
from ..errors import BiomedError
from ._shared.bad_input import explaining_interruption
from ._shared.display import create_bar, explain_capitals
from ._shared.input_options import (
    CODE,
    DELIMITER,
    ENCODING,
    KEEP,
    KINDS,
    MAX_ERRORS,
    MAX_SECONDS,
    PATTERNS,
    QUOTING,
    TEXT_COLUMN,
    read_kinds,
    read_layout,
)

# Fields of a row of --annotations that the command adds.
ROW_FIELDS = ("file", "replacements")


def deidentify(
    pipeline: str = typer.Argument(help="Pipeline that finds mentions: directory or package."),
    texts: Path = typer.Argument(
        help=".txt (a document a line), .jsonl, .json, .csv or .tsv, also .gz, .xz, .zst; "
        ".parquet; or a folder of notes, a document in each .txt file."
    ),
    output: Path = typer.Argument(
        help="The same with de-identified texts: file or folder. With the same output, an "
        "interrupted run continues."
    ),
    mode: str = typer.Option(None, help="tags or surrogates; else the pipeline's own."),
    kind: list[str] = KINDS,
    patterns: bool = PATTERNS,
    annotations: Path = typer.Option(
        None, help="JSON lines to write: labels, replacements and offsets in both texts."
    ),
    text_field: str = TEXT_COLUMN,
    patient_column: str = typer.Option(
        None,
        "--patient-column",
        "--id-field",
        help="Column or JSON field that says whose text it is: equal ones share surrogates and the "
        "shift of dates.",
    ),
    keep: list[str] = KEEP,
    encoding: str = ENCODING,
    delimiter: str = DELIMITER,
    quoting: str = QUOTING,
    code: Path = CODE,
    repair: bool = typer.Option(
        None,
        "--repair/--no-repair",
        help="Decode texts that look encoded (Jos&eacute;, Jos=C3=A9, JosÃ©, words hyphenated at "
        "line ends), or take them as they are; else they are refused.",
    ),
    rename: bool = typer.Option(
        None,
        "--rename/--keep-names",
        help="In a folder: give files names that follow from the secret, or keep theirs.",
    ),
    secret_file: Path = typer.Option(
        None, help="File with the secret; else the environment variable SPACY_BIOMED_SECRET."
    ),
    vault: Path = typer.Option(
        None, help="New encrypted file to write with the originals, for `reidentify`."
    ),
    vault_key_file: Path = typer.Option(
        None, help="File with the vault's key; else the variable SPACY_BIOMED_VAULT_KEY."
    ),
    shard_size: int = typer.Option(1000, min=1, help="Documents after which work is saved."),
    batch_size: int = typer.Option(None, min=1, help="Documents in a batch; else the pipeline's."),
    n_process: int = typer.Option(1, min=1, help="Processes that find mentions."),
    max_errors: int = MAX_ERRORS,
    max_seconds: float = MAX_SECONDS,
) -> None:
    """Replace personal data in texts by tags or surrogates.

    Only the texts are written, since other fields may identify people too: list the fields that do
    not with --keep. Surrogates and --rename need a secret in the environment variable
    SPACY_BIOMED_SECRET or in a file. A pipeline without biomed_deidentify gets that component. Each
    document is in OUTPUT exactly once, also after an interruption, or it failed, is listed in
    OUTPUT.errors.jsonl, and the exit status is 1. Messages name files, lines and labels, and never
    quote a text.

    Example: python -m spacy biomed deidentify training/meddocan/model-best notes.parquet
    deidentified.parquet --mode surrogates --patient-column patient_id
    """
    from ..bulk.annotating import BulkSettings
    from ..bulk.deidentification import Deidentification
    from ..bulk.deidentified_files import DeidentifiedFiles, check_texts, deidentify_files
    from ..files.sources import Columns
    from ..pipeline.encoder_pipe import reads_capitals
    from ..pipeline.pipeline_loading import load_pipeline

    files = DeidentifiedFiles(texts, output, annotations, vault)
    given = [path for path in (code, secret_file, vault_key_file) if path is not None]
    files.check_places([Path(pipeline), *given])
    _check_options(texts, text_field, keep, rename)
    key = files.read_key(vault_key_file)
    settings = BulkSettings(
        Columns(text_field, None, tuple(dict.fromkeys(keep)), patient_column),
        read_layout(encoding, delimiter, quoting),
        None if code is None else str(code),
        shard_size,
        batch_size,
        n_process,
        max_errors,
        max_seconds=max_seconds,
    )
    asked = Deidentification(
        patient_column is not None,
        mode,
        read_kinds(kind),
        patterns,
        None if secret_file is None else os.path.abspath(secret_file),
        bool(repair),
    )
    nlp = load_pipeline(pipeline, code)
    component = asked.prepare(nlp)
    names = component.make_key("") if rename else None
    part = files.read(settings, asked)
    capitals, total = check_texts(part, is_any_allowed=repair is not None)
    if capitals and not reads_capitals(nlp):
        typer.echo(explain_capitals(capitals, total), err=True)
    del nlp, component
    with explaining_interruption(), create_bar(Console(highlight=False)) as bar:
        task = bar.add_task("De-identifying", total=None)
        total, failed = deidentify_files(
            pipeline,
            files,
            part,
            settings,
            asked,
            key=key,
            names=names,
            on_progress=lambda rows, total, _: bar.update(task, completed=rows, total=total),
        )
    typer.echo(f"✔ Wrote {', '.join(map(str, files.written))}: {total} documents")
    if texts.is_dir() and rename is None:
        typer.echo(
            "⚠ The files have the names that they had: where these may tell who somebody is, use "
            "--rename (or --keep-names, to say that they do not)"
        )
    if failed and total and max_errors is not None:
        typer.echo(f"⚠ {len(failed):,} documents failed: see {files.listed}")
    check_failed(output, total, failed, files.listed, max_errors)


def _check_options(texts: Path, text_field: str, keep: list[str], rename: bool | None) -> None:
    if text_field in keep:
        raise BiomedError(f"--keep {text_field}: this is the field with the text; leave it out")
    for name in ROW_FIELDS:
        if name in keep:
            raise BiomedError(f"--keep {name}: --annotations has a field of this name; rename it")
    if rename is not None and not texts.is_dir():
        raise BiomedError(f"{texts}: --rename and --keep-names are for folders; leave them out")
