"""`spacy biomed deidentify`, `reidentify` and `leakage`."""

import os
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape

from ..errors import BiomedError
from ..files.outputs import check_output
from ._shared import options
from ._shared.bad_input import explaining_interruption
from ._shared.display import create_bar, create_table

KINDS = typer.Option(
    [], "--kind", help="What a label of the pipeline stands for, as TWIN=name; repeatable."
)
PATTERNS = typer.Option(
    None,
    "--patterns/--no-patterns",
    help="Find dates, numbers and addresses by their form too; else where the language has "
    "patterns.",
)

# Fields of a row of --annotations that the command adds.
ROW_FIELDS = {"file", "replacements"}


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
    text_field: str = options.TEXT_COLUMN,
    patient_column: str = typer.Option(
        None,
        "--patient-column",
        "--id-field",
        help="Column or JSON field that says whose text it is: equal ones share surrogates and the "
        "shift of dates.",
    ),
    keep: list[str] = options.KEEP,
    encoding: str = options.ENCODING,
    delimiter: str = options.DELIMITER,
    quoting: options.Quoting = options.QUOTING,
    code: Path = options.CODE,
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
    max_errors: int = options.MAX_ERRORS,
    max_seconds: float = options.MAX_SECONDS,
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
    from ..bulk.annotating import BulkSettings, check_failed
    from ..bulk.deidentification import Deidentification
    from ..bulk.deidentified_files import DeidentifiedFiles, check_texts, deidentify_files
    from ..files.sources import Columns
    from ..formats.inputs import tell_unread
    from ..pipeline.encoder_pipe import reads_capitals
    from ..pipeline.pipeline_loading import load_pipeline

    files = DeidentifiedFiles(texts, output, annotations, vault)
    given = [path for path in (code, secret_file, vault_key_file) if path is not None]
    files.check_places([Path(pipeline), *given])
    if text_field in keep:
        raise BiomedError(f"--keep {text_field}: this is the field with the text; leave it out")
    for name in ROW_FIELDS.intersection(keep):
        raise BiomedError(f"--keep {name}: --annotations has a field of this name; rename it")
    if rename is not None and not texts.is_dir():
        raise BiomedError(f"{texts}: --rename and --keep-names are for folders; leave them out")
    key = files.read_key(vault_key_file)
    settings = BulkSettings(
        Columns(text_field, None, tuple(dict.fromkeys(keep)), patient_column),
        options.read_layout(encoding, delimiter, quoting),
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
        _read_kinds(kind),
        patterns,
        None if secret_file is None else os.path.abspath(secret_file),
        bool(repair),
    )
    nlp = load_pipeline(pipeline, code)
    component = asked.prepare(nlp)
    names = component.make_key("") if rename else None
    part = files.read(settings, asked)
    tell_unread(texts)
    capitals, total = check_texts(part, is_any_allowed=repair is not None)
    if capitals and not reads_capitals(nlp):
        typer.echo(_explain_capitals(capitals, total), err=True)
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


def reidentify(
    texts: Path = typer.Argument(help="What `deidentify --vault` wrote: file or folder."),
    vault: Path = typer.Argument(help="The vault that it wrote."),
    output: Path = typer.Argument(help="The same with the original texts: file or folder."),
    vault_key_file: Path = typer.Option(
        None, help="File with the vault's key; else the variable SPACY_BIOMED_VAULT_KEY."
    ),
    text_field: str = options.TEXT_COLUMN,
    encoding: str = options.ENCODING,
    delimiter: str = options.DELIMITER,
    quoting: options.Quoting = options.QUOTING,
) -> None:
    """Restore the original texts from de-identified texts and their vault.

    Texts that were changed or left out are refused, and a vault that was written with other texts.
    Rows have to be in their order; files are found by their names.

    Example: python -m spacy biomed reidentify deidentified.jsonl vault restored.jsonl
    """
    from ..bulk.text_documents import check_same_format, find_texts, list_columns, writing_texts
    from ..deidentification.vault import Vault, read_vault_key
    from ..files.sources import Columns

    check_output(output, [vault, *filter(None, [vault_key_file])])
    key = read_vault_key(vault_key_file)
    layout = options.read_layout(encoding, delimiter, quoting)
    columns = Columns(text_field, keep=list_columns(texts, text_field, layout))
    check_same_format(texts, output)
    part = find_texts(texts, columns, layout)
    stored = Vault(vault, key, texts)
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


def leakage(
    pipeline: str = typer.Argument(help="Pipeline that finds mentions: directory or package."),
    corpus: Path = typer.Argument(help=".spacy file with gold mentions."),
    mode: str = typer.Option(None, help="tags or surrogates; else the pipeline's own."),
    kind: list[str] = KINDS,
    patterns: bool = PATTERNS,
    spans_key: str = typer.Option(None, help="Span group of the gold mentions; else entities."),
) -> None:
    """De-identify a corpus and count the annotated mentions that can still be read.

    A mention leaks if a word of it, of at least three letters or digits, is still in its place.
    Ages that are kept on purpose are counted separately, and so are mentions whose surrogate
    happens to contain a word of theirs. The pipeline gets what `deidentify` gives it.

    Example: python -m spacy biomed leakage training/meddocan/model-best
    corpus/meddocan/test.spacy --mode surrogates
    """
    from ..bulk.deidentification import Deidentification
    from ..evaluation.leakage import measure_leakage
    from ..formats.spacy_docs import read_docs
    from ..normalization import is_in_capitals
    from ..pipeline.encoder_pipe import reads_capitals
    from ..pipeline.pipeline_loading import load_pipeline

    nlp = load_pipeline(pipeline)
    deidentifier = Deidentification(mode=mode, kinds=_read_kinds(kind), patterns=patterns).prepare(
        nlp
    )
    gold = list(read_docs(corpus, nlp.vocab))
    if not gold:
        raise BiomedError(f"{corpus}: no documents there; give a converted part of a corpus")
    console = Console(highlight=False)
    with create_bar(console) as bar:
        predicted = nlp.pipe(doc.text for doc in gold)
        report = measure_leakage(
            zip(gold, bar.track(predicted, len(gold), description="De-identifying"), strict=True),
            lambda label: deidentifier.kind(label) != "keep",
            spans_key=spans_key,
            is_drawn=deidentifier.is_drawn,
        )
    if not report.total.mentions:
        raise BiomedError(f"{corpus}: no mention there is to be replaced; see --spans-key, --kind")
    titles = ("mentions", "kept", "by chance", "leaked", "")
    table = create_table([""], titles, "Gold mentions in the de-identified text")
    for label, counts in [*sorted(report.labels.items()), ("all labels", report.total)]:
        share = counts.leaked / max(counts.mentions, 1)
        numbers = (counts.mentions, counts.kept, counts.by_chance, counts.leaked)
        table.add_row(escape(label), *(f"{number:,}" for number in numbers), f"{share:.2%}")
    console.print(table)
    capitals = sum(is_in_capitals(doc.text) for doc in gold)
    if capitals and not reads_capitals(nlp):
        console.print(_explain_capitals(capitals, len(gold)))
    console.print(f"{report.leaking_documents} of {report.documents} documents leak")


def _read_kinds(given: list[str]) -> dict[str, str]:
    return dict(options.split_pair("--kind", one, "LABEL=kind, such as TWIN=name") for one in given)


def _explain_capitals(count: int, total: int) -> str:
    """The warning that a pipeline does not know the case of some of the texts."""
    return (
        f"⚠ {count} of {total} documents ({count / total:.0%}) are mostly in capitals, which this "
        "pipeline does not read as it reads other text: names in them may stay; train it with "
        "`normalize = true`"
    )
