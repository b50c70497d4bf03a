"""The formats that shards are written in."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_url

from spacy.tokens import Doc, DocBin

from ..corpora.gold import ANSWER_KEY, DOCUMENT_ID
from ..errors import BiomedError
from .findings import Layers
from .sources import require_pyarrow
from .tables import TableBuilder

# Of a file, without its ending.
_LONGEST_NAME = 150


class Sink(ABC):
    """Collects the documents of a shard, and gives the content of its files.

    The content depends only on the documents and their order.

    Args:
        layers: layers that the pipeline writes.

    Attributes:
        is_folder: whether the files of a shard are in a folder of their own.
        needs_all: whether a document that fails ends the run.
    """

    is_folder = False
    needs_all = False

    def __init__(self, layers: Layers):
        self.layers = layers

    @abstractmethod
    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        """Add a document: its number in the input, its identifier, and what was found in it."""

    @abstractmethod
    def files(self, part: str) -> dict[str, bytes]:
        """The content of each file by its path in the output, or in the folder of the shard.

        Args:
            part: the name of the shard, such as `part-00012`.
        """


class JsonLinesSink(Sink):
    """A JSON object for each document, as `findings.describe` describes it."""

    def __init__(self, layers: Layers):
        super().__init__(layers)
        self._lines: list[str] = []

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        row = {"document": document, "id": id, **found}
        self._lines.append(json.dumps(row, ensure_ascii=False) + "\n")

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.jsonl": "".join(self._lines).encode()}


class ParquetSink(Sink):
    """A folder for each table, with a file for each shard.

    Attributes:
        builder: has the tables.
    """

    def __init__(self, layers: Layers):
        super().__init__(layers)
        self.builder = TableBuilder(layers)

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        self.builder.add(document, id, found)

    def files(self, part: str) -> dict[str, bytes]:
        import pyarrow
        from pyarrow.parquet import write_table

        files = {}
        for name, table in self.builder.tables():
            buffer = pyarrow.BufferOutputStream()
            write_table(table, buffer, compression="zstd")
            files[f"{name}/{part}.parquet"] = buffer.getvalue().to_pybytes()
        return files


class SpacySink(Sink):
    """A `.spacy` file, with `doc.user_data["document_id"]` and other user data of plain types."""

    def __init__(self, layers: Layers):
        super().__init__(layers)
        self._docs = DocBin(store_user_data=True)

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        kept = {key: value for key, value in doc.user_data.items() if _is_plain(value)}
        doc.user_data = {**kept, DOCUMENT_ID: id}
        self._docs.add(doc)

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.spacy": self._docs.to_bytes()}


class PubTatorSink(Sink):
    """A PubTator file with titles, abstracts and mentions.

    The title is the first line of the text. White space of other kinds becomes a space, so offsets
    stay the same. An entity's `kb_id`, or else its `id`, is the concept.
    """

    def __init__(self, layers: Layers):
        super().__init__(layers)
        self._blocks: list[str] = []

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        name = re.sub(r"[|\s]", "_", id)
        title, _, abstract = doc.text.partition("\n")
        lines = [f"{name}|t|{_one_line(title)}", f"{name}|a|{_one_line(abstract)}"]
        for span in found["entities"]:
            place, attributes = (str(span["start"]), str(span["end"])), span["attributes"]
            concept = attributes.get("kb_id") or attributes.get("id") or ""
            cells = [name, *place, *map(_one_line, (span["text"], span["label"], concept))]
            lines.append("\t".join(cells))
        self._blocks.append("\n".join([*lines, "", ""]))

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.pubtator": "".join(self._blocks).encode()}


class BratSink(Sink):
    """A folder with a `.txt` and an `.ann` file for each document, named after its identifier.

    Entities and answers have a note with their confidence and attributes as JSON. Relations follow.
    """

    is_folder = True

    def __init__(self, layers: Layers):
        super().__init__(layers)
        self._files: dict[str, bytes] = {}
        self._names: set[str] = set()

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        name = self._name(document, id)
        self._files[f"{name}.txt"] = doc.text.encode()
        self._files[f"{name}.ann"] = "".join(_standoff(doc.text, found)).encode()

    def files(self, part: str) -> dict[str, bytes]:
        return self._files

    def _name(self, document: int, id: str) -> str:
        """A file name that is safe, visible, and not yet in the folder, also in another case."""
        name = quote_url(id, safe=" ,;=@()[]+")
        name = f"%2E{name[1:]}" if name.startswith(".") else name
        if len(name) > _LONGEST_NAME or name.lower() in self._names:
            name = f"{name[:_LONGEST_NAME]}-{document}"
        self._names.add(name.lower())
        return name


class ReplacementSink(Sink):
    """A line for each document, with what replaces its mentions and nothing of its text.

    It has offsets in the document, label and replacement of each mention, in text order.
    """

    needs_all = True

    def __init__(self, layers: Layers):
        super().__init__(layers)
        self._lines: list[str] = []

    def add(self, document: int, id: str, doc: Doc, found: dict[str, Any]) -> None:
        deidentified = doc._.deidentified
        if deidentified is None:
            raise BiomedError(
                f"{id}: no component has looked for mentions: give a pipeline that does, or the "
                "component's spans_key"
            )
        rows = [(one.start, one.end, one.label, one.text) for one in deidentified.replacements]
        self._lines.append(json.dumps(rows, ensure_ascii=False) + "\n")

    def files(self, part: str) -> dict[str, bytes]:
        return {f"{part}.jsonl": "".join(self._lines).encode()}


def _standoff(text: str, found: dict[str, Any]) -> Iterator[str]:
    """The lines of an `.ann` file."""
    ids: dict[tuple[int, int, str], str] = {}
    for span in [*found["entities"], *found.get("answers", ())]:
        label = span.get("label", ANSWER_KEY)
        id = f"T{len(ids) + 1}"
        if not span["text"].strip():
            continue  # brat has no mentions of white space alone
        if ids.setdefault((span["start"], span["end"], label), id) != id:
            continue  # in another group too
        yield _mention(id, label, span["start"], span["end"], text)
        note = {"confidence": span["confidence"], **span.get("attributes", {})}
        note = {name: value for name, value in note.items() if value is not None}
        if note:
            yield f"#{id[1:]}\tAnnotatorNotes {id}\t{json.dumps(note, ensure_ascii=False)}\n"
    for number, relation in enumerate(found.get("relations", ()), start=1):
        arguments = []
        for end in ("head", "tail"):
            key = (relation[f"{end}_start"], relation[f"{end}_end"], relation[f"{end}_label"])
            if key not in ids:
                ids[key] = f"T{len(ids) + 1}"
                yield _mention(ids[key], key[2], *key[:2], text)
            arguments.append(ids[key])
        label = _one_word(relation["label"])
        yield f"R{number}\t{label} Arg1:{arguments[0]} Arg2:{arguments[1]}\n"


def _mention(id: str, label: str, start: int, end: int, text: str) -> str:
    """A mention, of a fragment for each line of the text, as brat requires."""
    lines = [match.span() for match in re.finditer(r"[^\r\n]+", text[start:end])]
    places = ";".join(f"{start + first} {start + last}" for first, last in lines)
    covered = " ".join(text[start + first : start + last] for first, last in lines)
    return f"{id}\t{_one_word(label)} {places}\t{covered}\n"


def _one_word(label: str) -> str:
    return re.sub(r"\s", "_", label) or "_"


def _one_line(text: str) -> str:
    return re.sub(r"[\t\r\n]", " ", text)


def _is_plain(value: Any) -> bool:
    """Whether a value consists of types that MessagePack has."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


SINKS: dict[str, type[Sink]] = {
    "brat": BratSink,
    "jsonl": JsonLinesSink,
    "parquet": ParquetSink,
    "pubtator": PubTatorSink,
    "spacy": SpacySink,
}


# The format of the parts of a run of `spacy biomed deidentify`, which are put together at its end.
REPLACEMENTS = "replacements"


def create_sink(format: str, layers: Layers) -> Sink:
    """A sink of one of the formats of `SINKS`, or of `REPLACEMENTS`."""
    return (ReplacementSink if format == REPLACEMENTS else SINKS[format])(layers)


def find_format(output: Path) -> str:
    """The format of an output by the ending of its name: Parquet if it has none.

    Raises:
        BiomedError: if the ending is unknown, or the format needs a package that is missing.
    """
    format = output.suffix.lower().removeprefix(".") or "parquet"
    if format not in SINKS:
        endings = ", ".join(f".{name}" for name in SINKS)
        raise BiomedError(
            f"{output}: no known ending; end the name of the output folder in {endings}, or in "
            "none for Parquet"
        )
    if format == "parquet":
        require_pyarrow(str(output))
    return format
