"""`spacy biomed deidentify`."""

from __future__ import annotations

import json
import os
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from ..errors import BiomedError
from ..files.compression import strip_compression
from ..outputs import MARKER, remove_directory, replace_text, replacing_file
from ._shared.bad_input import explaining_interruption
from ._shared.display import create_bar, explain_capitals
from ._shared.input_options import (
    CODE,
    DELIMITER,
    ENCODING,
    KEEP,
    MAX_ERRORS,
    MAX_SECONDS,
    QUOTING,
    TEXT_COLUMN,
    check_failed,
    read_layout,
)

if TYPE_CHECKING:
    from ..annotations.deidentified import Deidentified
    from ..bulk.annotating import BulkSettings
    from ..bulk.deidentification import Deidentification
    from ..files.records import Layout
    from ..files.sources import Columns, Item, Part
    from ..pipeline.deidentify import BiomedDeidentifier

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
    from ..bulk.deidentification import DEIDENTIFIED_BY, Deidentification
    from ..bulk.text_documents import check_same_format, find_texts
    from ..deidentification.vault import check_new, read_vault_key
    from ..files.sources import Columns, is_text, printable
    from ..pipeline.encoder_pipe import reads_capitals
    from ..pipeline.pipeline_loading import load_pipeline

    written = [path for path in (annotations, vault) if path is not None]
    listed, work = (Path(f"{output}.{end}") for end in ("errors.jsonl", "shards"))
    given = [path for path in (code, secret_file, vault_key_file) if path is not None]
    sources = [texts, Path(pipeline), *given]
    _check_places(sources, output, [listed, work], annotations, vault)
    _check_list(listed)
    _check_options(texts, text_field, keep, rename)
    if vault is None and vault_key_file is not None:
        raise BiomedError(f"{vault_key_file}: the key of a vault, but there is no --vault")
    key = None
    if vault is not None:
        check_new(vault)
        key = read_vault_key(vault_key_file)
    layout = read_layout(encoding, delimiter, quoting)
    columns = Columns(text_field, None, tuple(dict.fromkeys(keep)), patient_column)
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
    if rename:
        component.make_key("")
    check_same_format(texts, output)
    part = asked.read(find_texts(texts, columns, layout))
    settings = BulkSettings(
        columns,
        layout,
        None if code is None else str(code),
        shard_size,
        batch_size,
        n_process,
        max_errors,
        max_seconds=max_seconds,
    )
    _check_texts(part, repair is not None, reads_capitals(nlp))
    del nlp
    # Begun before the work, so that a place that cannot be written is reported at once.
    total = 0
    writing = _writing(texts, output, columns, layout, annotations, vault, key)
    with explaining_interruption(), writing as write:
        failed = _find(pipeline, texts, work, settings, asked)
        documents = _combine(part, _read_found(work))
        for item, deidentified in _rename(documents, component) if rename else documents:
            if is_text(item.id):
                write(item, deidentified)
                total += 1
            else:
                reason = "a name that is not UTF-8; rename the file, or use --rename"
                failed.append({"id": printable(item.id), "reason": reason})
        if not total:
            remove_directory(work, DEIDENTIFIED_BY)
            check_failed(output, total, failed, listed, max_errors)
    _list_failed(listed, failed)
    remove_directory(work, DEIDENTIFIED_BY)
    typer.echo(f"✔ Wrote {', '.join(map(str, [output, *written]))}: {total} documents")
    if texts.is_dir() and rename is None:
        typer.echo(
            "⚠ The files have the names that they had: where these may tell who somebody is, use "
            "--rename (or --keep-names, to say that they do not)"
        )
    check_failed(output, total, failed, listed, max_errors)


def _check_texts(part: Part, is_any_allowed: bool, knows_capitals: bool) -> None:
    """Refuse texts in which names are encoded, and warn of those in capitals, before the work.

    Args:
        is_any_allowed: whether encoded texts are taken as they are.
        knows_capitals: whether the pipeline finds names in capitals as well.
    """
    from ..deidentification.encoded_text import find_encodings
    from ..normalization import is_in_capitals

    total, capitals = 0, 0
    found: list[tuple[str, str]] = []
    for row, item in enumerate(part.read_from(0, 0)):
        total += 1
        capitals += is_in_capitals(item.text)
        if not is_any_allowed:
            found += [(part.place(row), name) for name in find_encodings(item.text)[:1]]
    if found:
        place, name = found[0]
        raise BiomedError(
            f"{place}: this text looks encoded ({name}), as {len(found)} of {total} do, and its "
            "names would stay: decode it with --repair, or take it as it is with --no-repair"
        )
    if capitals and not knows_capitals:
        typer.echo(explain_capitals(capitals, total), err=True)


def _check_places(
    sources: list[Path],
    output: Path,
    beside: list[Path],
    annotations: Path | None,
    vault: Path | None,
) -> None:
    """Refuse to write to what is read, or twice to one place, also of what is beside the output."""
    from ..deidentification.vault import identifier_place

    if any(_overlap(output, source) for source in sources):
        raise BiomedError(
            f"{output}: this is what is read, or in it, or around it; name another output"
        )
    others = [*sources, output, *beside, identifier_place(output)]
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


def _find(
    pipeline: str, texts: Path, work: Path, settings: BulkSettings, asked: Deidentification
) -> list[dict[str, str]]:
    """Find the mentions of all documents, or go on with it; return the documents that failed.

    It is saved in a folder beside the output, which only this user can read and which has nothing
    of the texts. The folder is deleted where no shard has been finished.
    """
    from ..bulk.annotating import annotate_collection
    from ..bulk.deidentification import DEIDENTIFIED_BY
    from ..bulk.manifest import FINISHED

    old = os.umask(0o077)
    try:
        with create_bar(Console(highlight=False)) as bar:
            task = bar.add_task("De-identifying", total=None)
            return annotate_collection(
                pipeline,
                texts,
                work,
                settings,
                on_progress=lambda rows, total, _: bar.update(task, completed=rows, total=total),
                deidentification=asked,
            ).failed
    except BaseException:
        if (work / MARKER).exists() and not (work / FINISHED).exists():
            remove_directory(work, DEIDENTIFIED_BY)
        raise
    finally:
        os.umask(old)


def _read_found(work: Path) -> Iterator[tuple[int, str, list]]:
    """The number of each document, the hash of its text, and what replaces its mentions."""
    for part in sorted(work.glob("part-*.jsonl"), key=lambda path: (len(path.name), path.name)):
        with part.open(encoding="utf8") as lines:
            for line in lines:
                number, text_hash, replaced = json.loads(line)
                yield number, text_hash, replaced


def _combine(
    part: Part, found: Iterable[tuple[int, str, list]]
) -> Iterator[tuple[Item, Deidentified]]:
    """The documents that did not fail, in order."""
    from ..annotations.deidentified import Deidentified
    from ..bulk.replacements import hash_text

    items = enumerate(part.read_from(0, 0))
    for number, text_hash, replaced in found:
        item = next((item for row, item in items if row == number), None)
        # Offsets in another text would leave names in it.
        if item is None or item.error or hash_text(item.text) != text_hash:
            raise part.has_changed()
        yield item, Deidentified(item.text, map(tuple, replaced))
    part.check_same()


def _rename(
    documents: Iterable[tuple[Item, Deidentified]], component: BiomedDeidentifier
) -> Iterator[tuple[Item, Deidentified]]:
    """Give documents names of 128 bits, which cannot be traced back without the secret.

    All documents go to one folder, since names of folders may be names of people too.
    """
    key = component.make_key("")
    for item, deidentified in documents:
        ending = item.id[len(strip_compression(item.id)) :].lower()
        name = key.digest(16, "file name", item.id).hex()
        yield item._replace(id=f"{name}.txt{ending}"), deidentified


@contextmanager
def _writing(
    texts: Path,
    output: Path,
    columns: Columns,
    layout: Layout,
    annotations: Path | None,
    vault: Path | None,
    key: bytes | None,
) -> Iterator[Callable[[Item, Deidentified], None]]:
    """Yield a function that writes a document wherever it is asked for."""
    from ..bulk.text_documents import writing_texts
    from ..deidentification.vault import writing_vault

    with ExitStack() as stack:
        identifier = "" if vault is None else secrets.token_hex(16)
        documents = writing_texts(texts, output, columns, layout, identifier)
        write_text = stack.enter_context(documents)
        notes = lock = None
        if annotations is not None:
            partial = stack.enter_context(replacing_file(annotations))
            notes = stack.enter_context(partial.open("w", encoding="utf8"))
        if vault is not None and key is not None:
            lock = stack.enter_context(writing_vault(vault, key, identifier))

        def write(item: Item, deidentified: Deidentified) -> None:
            write_text(item, deidentified.text)
            if notes is not None:
                name = {"file": item.id} if texts.is_dir() else {}
                replacements = [one._asdict() for one in deidentified.replacements]
                row = {**name, **item.fields, "replacements": replacements}
                notes.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            if lock is not None:
                lock(item.id if texts.is_dir() else "", deidentified, item.fields)

        yield write


def _list_failed(path: Path, failed: list[dict[str, str]]) -> None:
    """Write the documents that failed; without any, remove the list of an earlier run."""
    if failed:
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in failed)
        replace_text(path, "".join(lines))
    else:
        path.unlink(missing_ok=True)


def _check_list(path: Path) -> None:
    """Refuse to write the list of failed documents where something else is."""
    if path.is_dir() or (path.exists() and not _is_list_of_failed(path)):
        raise BiomedError(
            f"{path}: documents that fail would be listed here, and this is not such a list: move "
            "it away, or name another output"
        )


def _is_list_of_failed(path: Path) -> bool:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
        return bool(rows) and all(set(row) == {"id", "reason"} for row in rows)
    except (OSError, ValueError, TypeError):
        return False
