"""`spacy biomed deidentify`."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from ..errors import BiomedError
from ..outputs import MARKER, remove_directory, replacing_file
from ._shared.bad_input import explaining_interruption
from ._shared.display import create_bar

if TYPE_CHECKING:
    from ..annotations.deidentified import Deidentified
    from ..bulk.annotating import BulkSettings
    from ..bulk.deidentification import Deidentification
    from ..bulk.text_documents import TextDocument
    from ..pipeline.deidentify import BiomedDeidentifier

# Fields of a row of --annotations that the command adds.
ROW_FIELDS = ("file", "replacements")


def deidentify(
    pipeline: str = typer.Argument(help="Pipeline that finds mentions: directory or package."),
    texts: Path = typer.Argument(
        help=".txt (a document a line), .jsonl, .csv or .tsv, also .gz, .xz, .zst; .parquet; or a "
        "folder of notes, a document in each .txt file."
    ),
    output: Path = typer.Argument(
        help="The same with de-identified texts: file or folder. With the same output, an "
        "interrupted run continues."
    ),
    mode: str = typer.Option(None, help="tags or surrogates; else the pipeline's own."),
    kind: list[str] = typer.Option(
        [], help="What a label of the pipeline stands for, as TWIN=name; repeatable."
    ),
    patterns: bool = typer.Option(
        None,
        "--patterns/--no-patterns",
        help="Find dates, numbers and addresses by their form too; else where the language has "
        "patterns.",
    ),
    annotations: Path = typer.Option(
        None, help="JSON lines to write: labels, replacements and offsets in both texts."
    ),
    text_field: str = typer.Option(
        "text", "--text-column", "--text-field", help="Column or JSON field with the text."
    ),
    patient_column: str = typer.Option(
        None,
        "--patient-column",
        "--id-field",
        help="Column or JSON field that says whose text it is: equal ones share surrogates and the "
        "shift of dates.",
    ),
    keep: list[str] = typer.Option([], help="Other column to write too; repeatable."),
    rename: bool = typer.Option(
        None,
        "--rename/--keep-names",
        help="In a folder: give files names that follow from the secret, or keep theirs.",
    ),
    secret_file: Path = typer.Option(
        None, help="File with the secret; else the environment variable SPACY_BIOMED_SECRET."
    ),
    vault: Path = typer.Option(
        None, help="Encrypted file to write with the originals, for `reidentify`."
    ),
    vault_key_file: Path = typer.Option(
        None, help="File with the vault's key; else the variable SPACY_BIOMED_VAULT_KEY."
    ),
    shard_size: int = typer.Option(1000, min=1, help="Documents after which work is saved."),
    batch_size: int = typer.Option(None, min=1, help="Documents in a batch; else the pipeline's."),
    n_process: int = typer.Option(1, min=1, help="Processes that find mentions."),
) -> None:
    """Replace personal data in texts by tags or surrogates.

    Only the texts are written, since other fields may identify people too: list the fields that do
    not with --keep. Surrogates and --rename need a secret in the environment variable
    SPACY_BIOMED_SECRET or in a file. A pipeline without biomed_deidentify gets that component. Each
    document is in OUTPUT exactly once, also after an interruption. Messages name files, lines and
    labels, and never quote a text.

    Example: python -m spacy biomed deidentify training/meddocan/model-best notes.parquet
    deidentified.parquet --mode surrogates --patient-column patient_id
    """
    from ..bulk.annotating import BulkSettings
    from ..bulk.deidentification import Deidentification
    from ..bulk.text_documents import check_same_format, read_text_documents
    from ..deidentification.vault import read_vault_key
    from ..pipeline.pipeline_loading import load_pipeline

    written = [path for path in (annotations, vault) if path is not None]
    _check_places([texts, Path(pipeline)], output, annotations, vault)
    _check_options(texts, text_field, keep, rename)
    if vault is None and vault_key_file is not None:
        raise BiomedError(f"{vault_key_file}: the key of a vault, but there is no --vault")
    key = None if vault is None else read_vault_key(vault_key_file)
    asked = Deidentification(
        text_field,
        patient_column,
        mode,
        _read_kinds(kind),
        patterns,
        None if secret_file is None else os.path.abspath(secret_file),
    )
    nlp = load_pipeline(pipeline)
    component = asked.prepare(nlp)
    if rename:
        component.make_key("")
    check_same_format(texts, output)
    # All files are checked first, so that errors in them are reported before the work begins.
    total = 0
    for document in read_text_documents(texts, text_field):
        _check(document, patient_column, keep, nlp.max_length)
        if not rename:
            _check_writable(document.place, "the name of the file", document.name)
        total += 1
    settings = BulkSettings(shard_size=shard_size, batch_size=batch_size, n_process=n_process)
    del nlp
    finding = _finding(pipeline, texts, output, settings, asked)
    with explaining_interruption(), finding as found:
        documents = _combine(read_text_documents(texts, text_field), found)
        if rename:
            documents = _rename(documents, component)
        _write(documents, texts, output, annotations, text_field, keep, vault, key)
    typer.echo(f"✔ Wrote {', '.join(map(str, [output, *written]))}: {total} documents")
    if texts.is_dir() and rename is None:
        typer.echo(
            "⚠ The files have the names that they had: where these may tell who somebody is, use "
            "--rename (or --keep-names, to say that they do not)"
        )


def _check_places(
    sources: list[Path], output: Path, annotations: Path | None, vault: Path | None
) -> None:
    """Refuse to write to what is read, or twice to one place."""
    if any(_overlap(output, source) for source in sources):
        raise BiomedError(
            f"{output}: this is what is read, or in it, or around it; name another output"
        )
    others = [*sources, output]
    for option, path in (("--annotations", annotations), ("--vault", vault)):
        if path is None:
            continue
        if any(_overlap(path, other) for other in others):
            raise BiomedError(
                f"{path}: this is what is read or written besides, or in it, or around it; give "
                f"{option} a file of its own"
            )
        if path.is_dir():
            raise BiomedError(f"{path}: this is a directory; give {option} a file")
        others.append(path)


def _overlap(path: Path, other: Path) -> bool:
    """Whether one path is or contains the other, also by links, other case or other accents."""
    first, second = _true_place(path), _true_place(other)
    if first.is_relative_to(second) or second.is_relative_to(first):
        return True
    return _has_file(path, other) or _has_file(other, path)


def _true_place(path: Path) -> Path:
    return Path(unicodedata.normalize("NFC", os.path.realpath(path)).casefold())


def _has_file(path: Path, file: Path) -> bool:
    """Whether a path is a file or a folder that contains it, also by a hard link."""
    if not file.is_file():
        return False
    there = (one for one in (path, *path.rglob("*")) if one.is_file())
    return any(one.samefile(file) for one in there)


def _check_options(texts: Path, text_field: str, keep: list[str], rename: bool | None) -> None:
    if text_field in keep:
        raise BiomedError(f"--keep {text_field}: this is the field with the text; leave it out")
    for name in ROW_FIELDS:
        if name in keep:
            raise BiomedError(f"--keep {name}: --annotations has a field of this name; rename it")
    if rename is not None and not texts.is_dir():
        raise BiomedError(f"{texts}: --rename and --keep-names are for folders; leave them out")


def _read_kinds(given: list[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one.strip("="):
            raise BiomedError(f"--kind {one}: write LABEL=kind, such as TWIN=name")
    return {label: kind for label, _, kind in (one.rpartition("=") for one in given)}


def _check(document: TextDocument, id_field: str | None, keep: list[str], max_length: int) -> None:
    if id_field is not None and not isinstance(document.fields.get(id_field), str | int):
        raise BiomedError(f"{document.place}: no identifier in the field {id_field}; name it")
    if len(document.text) > max_length:
        raise BiomedError(
            f"{document.place}: {len(document.text):,} characters, and the pipeline reads "
            f"{max_length:,}: split the document"
        )
    _check_writable(document.place, "the text", document.text)
    for name in keep:
        _check_writable(document.place, f"the field {name}", document.fields.get(name))


def _check_writable(place: str, what: str, value: Any) -> None:
    """Refuse what UTF-8 or JSON cannot contain: half of a surrogate pair, infinity."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise BiomedError(
            f"{place}: {what} has what is no character, such as half of a surrogate pair (U+D800 "
            "to U+DFFF): remove it, or put the character there that was meant"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BiomedError(
            f"{place}: {what} has a number that is none in JSON, or too deep a structure: "
            "leave it out of --keep, or mend it"
        ) from error


@contextmanager
def _finding(
    pipeline: str, texts: Path, output: Path, settings: BulkSettings, asked: Deidentification
) -> Iterator[Iterator[list]]:
    """Find the mentions of all documents, or go on with it; yields what replaces them, in order.

    It is saved in a folder beside the output, which only this user can read and which has nothing
    of the texts. The folder is deleted at the end, and where no shard has been finished.
    """
    from ..bulk.annotating import annotate_collection
    from ..bulk.deidentification import DEIDENTIFIED_BY
    from ..bulk.manifest import FINISHED

    work = output.with_name(f"{output.name}.shards")
    old = os.umask(0o077)
    try:
        with create_bar(Console(highlight=False)) as bar:
            task = bar.add_task("De-identifying", total=None)
            annotate_collection(
                pipeline,
                texts,
                work,
                settings,
                on_progress=lambda rows, total, _: bar.update(task, completed=rows, total=total),
                deidentification=asked,
            )
    except BaseException:
        if (work / MARKER).exists() and not (work / FINISHED).exists():
            remove_directory(work, DEIDENTIFIED_BY)
        raise
    finally:
        os.umask(old)
    yield _read_found(work)
    remove_directory(work, DEIDENTIFIED_BY)


def _read_found(work: Path) -> Iterator[list]:
    for part in sorted(work.glob("part-*.jsonl"), key=lambda path: (len(path.name), path.name)):
        with part.open(encoding="utf8") as lines:
            yield from map(json.loads, lines)


def _combine(
    documents: Iterable[TextDocument], found: Iterable[list]
) -> Iterator[tuple[TextDocument, Deidentified]]:
    from ..annotations.deidentified import Deidentified

    for document, replaced in zip(documents, found, strict=True):
        yield document, Deidentified(document.text, map(tuple, replaced))


def _rename(
    documents: Iterable[tuple[TextDocument, Deidentified]], component: BiomedDeidentifier
) -> Iterator[tuple[TextDocument, Deidentified]]:
    """Give documents names of 128 bits, which cannot be traced back without the secret.

    All documents go to one folder, since names of folders may be names of people too.
    """
    key = component.make_key("")
    for document, deidentified in documents:
        document.name = key.digest(16, "file name", document.name).hex() + ".txt"
        yield document, deidentified


def _write(
    documents: Iterable[tuple[TextDocument, Deidentified]],
    texts: Path,
    output: Path,
    annotations: Path | None,
    text_field: str,
    keep: list[str],
    vault: Path | None,
    key: bytes | None,
) -> None:
    from ..bulk.text_documents import writing_text_documents
    from ..deidentification.vault import writing_vault

    with ExitStack() as stack:
        write = stack.enter_context(writing_text_documents(texts, output, text_field, keep))
        notes = lock = None
        if annotations is not None:
            partial = stack.enter_context(replacing_file(annotations))
            notes = stack.enter_context(partial.open("w", encoding="utf8"))
        if vault is not None and key is not None:
            lock = stack.enter_context(writing_vault(vault, key))
        for document, deidentified in documents:
            document.fields = {name: document.fields.get(name) for name in keep}
            write(document, deidentified.text)
            if notes is not None:
                name = {"file": document.name} if document.name else {}
                replacements = [one._asdict() for one in deidentified.replacements]
                row = {**name, **document.fields, "replacements": replacements}
                notes.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            if lock is not None:
                lock(deidentified)
