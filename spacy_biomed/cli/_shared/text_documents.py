"""Documents in files, and copies of the files with other texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import BiomedError
from ...language_models.sources import find_files, kind_of, open_binary, read_lines
from ...outputs import replacing_directory, replacing_file

MADE_BY = "spacy biomed deidentify"


@dataclass(slots=True)
class TextDocument:
    """A document of a file.

    Attributes:
        text: its text.
        place: file and line, for messages.
        name: path within the folder, if each document is a file.
        fields: the fields of its JSON object, which are written with the text.
    """

    text: str
    place: str
    name: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


def read_text_documents(path: Path, text_field: str = "text") -> Iterator[TextDocument]:
    """Read the lines of a .txt file, the objects of a .jsonl file, or the .txt files of a folder.

    Files may be compressed (.gz, .xz, .zst), but not in a folder. Texts are given unchanged, also
    with halves of surrogate pairs. Messages quote nothing of them.

    Raises:
        BiomedError: if the path is none of these; while reading, if a file is damaged.
    """
    files = find_files([path])
    if path.is_dir():
        for file in files:
            yield _read_note(file, path)
    elif kind_of(path) == "text":
        for number, line in read_lines(path):
            yield TextDocument(line, f"{path}:{number}")
    elif kind_of(path) == "json":
        yield from _read_objects(path, text_field)
    else:
        raise BiomedError(f"{path}: give .txt, .jsonl or a folder of .txt files")


Writer = Callable[[TextDocument, str], None]


@contextmanager
def writing_text_documents(
    source: Path, output: Path, text_field: str = "text"
) -> Iterator[Writer]:
    """Yields a function that writes a document of a source with another text.

    The output is of the same kind as the source, and appears once everything is written.

    Raises:
        BiomedError: if the output is the source, or in it, or of another kind.
    """
    if source.is_dir():
        with replacing_directory(output, MADE_BY, [source]) as folder:
            yield lambda document, text: _write_note(folder / document.name, text)
        return
    if kind_of(source) != kind_of(output):
        kind = ".txt" if kind_of(source) == "text" else ".jsonl"
        raise BiomedError(f"{output}: name a {kind} file, as {source.name} is one")
    with (
        replacing_file(output, [source]) as partial,
        open_binary(partial, "wb", output.suffix.lower()) as file,
    ):

        def write(document: TextDocument, text: str) -> None:
            if kind_of(source) == "json":
                row = {**document.fields, text_field: text}
                text = json.dumps(row, ensure_ascii=False)
            file.write(f"{text}\n".encode())

        yield write


def _read_objects(path: Path, text_field: str) -> Iterator[TextDocument]:
    for number, line in read_lines(path):
        place = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            at = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise BiomedError(f"{place}: not JSON{at}; put an object on each line") from error
        if not isinstance(row, dict):
            raise BiomedError(f"{place}: JSON, but no object; put an object on each line")
        text = row.get(text_field)
        if not isinstance(text, str):
            reason = f"no {'text in the field' if text_field in row else 'field'} {text_field}"
            raise BiomedError(f"{place}: {reason}; name the one with the text with --text-field")
        yield TextDocument(text, place, fields=row)


def _read_note(file: Path, folder: Path) -> TextDocument:
    if file.suffix.lower() != ".txt":
        raise BiomedError(f"{file}: in a folder, each .txt file is a document; give this by itself")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BiomedError(f"{file}: not UTF-8 ({error.reason}); convert the file") from error
    return TextDocument(text, str(file), file.relative_to(folder).as_posix())


def _write_note(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
