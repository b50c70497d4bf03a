"""`spacy biomed deidentify`."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from spacy.language import Language
from spacy.tokens import Doc

from ..errors import BiomedError
from ..outputs import replacing_file
from ._shared.display import track_deidentification

if TYPE_CHECKING:
    from ..annotations.deidentified import Deidentified
    from ..pipeline.deidentify import BiomedDeidentifier
    from ._shared.text_documents import TextDocument

# Key in `doc.user_data`: the place of a document, for messages.
PLACE = "place"

# Fields of a row of --annotations that the command adds.
ROW_FIELDS = ("file", "replacements")


def deidentify(
    pipeline: str = typer.Argument(help="Pipeline that finds mentions: directory or package."),
    texts: Path = typer.Argument(
        help=".txt (a document a line) or .jsonl, also .gz, .xz, .zst; or a folder of notes, a "
        "document in each .txt file."
    ),
    output: Path = typer.Argument(help="The same with de-identified texts: file or folder."),
    mode: str = typer.Option(None, help="tags or surrogates; else the pipeline's own."),
    kind: list[str] = typer.Option(
        [], help="What a label of the pipeline stands for, as TWIN=name; repeatable."
    ),
    annotations: Path = typer.Option(
        None, help="JSON lines to write: labels, replacements and offsets in both texts."
    ),
    text_field: str = typer.Option("text", help="JSON field with the text."),
    id_field: str = typer.Option(
        None, help="JSON field that says whose text it is: equal ones share surrogates."
    ),
    keep: list[str] = typer.Option([], help="Other JSON field to write too; repeatable."),
    rename: bool = typer.Option(
        None,
        "--rename/--keep-names",
        help="In a folder: give files names that follow from the secret, or keep theirs.",
    ),
) -> None:
    """Replace personal data in texts by tags or surrogates.

    Only the texts are written, since other fields may identify people too: list the fields that do
    not with --keep. Surrogates and --rename need a secret in the environment variable
    SPACY_BIOMED_SECRET. A pipeline without biomed_deidentify gets that component. Messages name
    files, lines and labels, and never quote a text.

    Example: python -m spacy biomed deidentify training/meddocan/model-best notes.jsonl
    deidentified.jsonl --mode surrogates --annotations replacements.jsonl
    """
    from ..pipeline.deidentify import add_deidentifier
    from ..pipeline.pipeline_loading import load_pipeline
    from ._shared.text_documents import read_text_documents

    _check_places([texts, Path(pipeline)], output, annotations)
    _check_options(texts, text_field, keep, rename)
    nlp = load_pipeline(pipeline)
    key_from = "document_id" if id_field is not None else None
    component = add_deidentifier(nlp, mode, key_from, _read_kinds(kind))
    component.check_pipeline()
    if rename:
        component.make_key("")
    # All files are checked first, so that errors in them are reported before the work begins.
    total = 0
    for document in read_text_documents(texts, text_field):
        _check(document, id_field, keep, nlp.max_length)
        if not rename:
            _check_writable(document.place, "the name of the file", document.name)
        total += 1
    deidentified = _deidentify(nlp, read_text_documents(texts, text_field), id_field)
    documents = track_deidentification(deidentified, total, Console(highlight=False))
    if rename:
        documents = _rename(documents, component)
    _write(documents, texts, output, annotations, text_field, keep)
    typer.echo(f"✔ Wrote {output}: {total} documents")
    if texts.is_dir() and rename is None:
        typer.echo(
            "⚠ The files have the names that they had: where these may tell who somebody is, use "
            "--rename (or --keep-names, to say that they do not)"
        )


def _check_places(sources: list[Path], output: Path, annotations: Path | None) -> None:
    """Refuse to write to what is read, or twice to one place."""
    if any(_overlap(output, source) for source in sources):
        raise BiomedError(
            f"{output}: this is what is read, or in it, or around it; name another output"
        )
    if annotations is None:
        return
    if any(_overlap(annotations, other) for other in [*sources, output]):
        raise BiomedError(
            f"{annotations}: this is what is read or written besides, or in it, or around it; give "
            "--annotations a file of its own"
        )
    if annotations.is_dir():
        raise BiomedError(f"{annotations}: this is a directory; give --annotations a file")


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


def _deidentify(
    nlp: Language, documents: Iterable[TextDocument], id_field: str | None
) -> Iterator[tuple[TextDocument, Deidentified]]:
    from ..corpora.gold import DOCUMENT_ID

    def make_docs() -> Iterator[tuple[Doc, TextDocument]]:
        for document in documents:
            doc = nlp.make_doc(document.text)
            doc.user_data[PLACE] = document.place
            if id_field is not None:
                doc.user_data[DOCUMENT_ID] = str(document.fields[id_field])
            yield doc, document

    nlp.set_error_handler(_stop)
    place = "the first document"
    try:
        for doc, document in nlp.pipe(make_docs(), as_tuples=True):
            place = document.place
            if doc._.deidentified is None:
                raise BiomedError(
                    f"{place}: no component has looked for mentions: give a pipeline that does, or "
                    "the component's spans_key"
                )
            yield document, doc._.deidentified
    except (BiomedError, OSError):
        raise
    except Exception as error:  # of a component that does not use the error handler
        raise BiomedError(f"{place} or soon after it: {_explain('a component', error)}") from None


def _stop(name: str, component: Any, docs: list[Doc], error: Exception) -> NoReturn:
    if isinstance(error, BiomedError):
        raise error
    first, last = (docs[i].user_data[PLACE] for i in (0, -1))
    where = first if first == last else f"{first} to {last}"
    raise BiomedError(f"{where}: {_explain(f'the component {name}', error)}") from None


def _explain(who: str, error: Exception) -> str:
    """What failed, without the message of the error, which may quote a text."""
    frame = extract_tb(error.__traceback__)[-1]
    return (
        f"{who} failed ({type(error).__name__} in {frame.filename}:{frame.lineno}) and nothing was "
        "written: try these documents by themselves, or without it"
    )


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
) -> None:
    from ._shared.text_documents import writing_text_documents

    with ExitStack() as stack:
        write = stack.enter_context(writing_text_documents(texts, output, text_field))
        notes = None
        if annotations is not None:
            partial = stack.enter_context(replacing_file(annotations))
            notes = stack.enter_context(partial.open("w", encoding="utf8"))
        for document, deidentified in documents:
            document.fields = {name: document.fields.get(name) for name in keep}
            write(document, deidentified.text)
            if notes is not None:
                name = {"file": document.name} if document.name else {}
                replacements = [one._asdict() for one in deidentified.replacements]
                row = {**name, **document.fields, "replacements": replacements}
                notes.write(json.dumps(row, ensure_ascii=False) + "\n")
