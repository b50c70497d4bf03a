"""The formats of annotated documents: what `convert` reads, and what `annotate` writes.

A format is an entry point of the group `spacy_biomed_formats`: its name, which is also the ending
of what is written in it, and a `Format`, or a function that reads it. Ours are in `setup.cfg`.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from pathlib import Path
from typing import TypeVar

from ..errors import BiomedError, add_hint, list_choices, quote, suggest
from ..files.sources import Columns, Item
from .documents import Document, Mention, Relation, check_characters
from .findings import AnnotatedShard
from .repairs import is_new, keep_sound, leaving_out, with_changes

Labelled = TypeVar("Labelled", Mention, Relation)

GROUP = "spacy_biomed_formats"

_OWN_NAMES = {
    *("document", "id", "text", "characters", "words", "cats", "entities", "relations", "answers"),
    *("document_id", "lowest confidence"),
}


@dataclass(frozen=True)
class Format:
    """A format that is read, written, or both.

    Attributes:
        read: takes the path of a file or folder and the keyword `encoding`, and yields `Document`.
        write: returns the content of each file of a shard by its path in the output, or in the
            folder of the shard. The content depends only on the shard.
        options: other keywords that `read` takes: `n_sents`, `tag_label`.
        is_joint: whether `read` takes the list of all paths of a part instead of one path.
        has_unknown_types: whether mentions that are read may lack a label.
        is_folder: whether the files of a shard are written to a folder of their own.
        has_fields: whether the columns that are kept are written.
        fields: the columns that can be kept, if not all.
        is_dated: whether the day that a run began is written.
        is_clinical: whether it depends on patients and on what labels mean.
        find_problem: says why a row of the input cannot be written; "" if it can.
        require: raises BiomedError, with the output, if a package that `write` needs is missing.
    """

    read: Callable[..., Iterable[Document]] | None = None
    write: Callable[[AnnotatedShard], dict[str, bytes]] | None = None
    options: tuple[str, ...] = ()
    is_joint: bool = False
    has_unknown_types: bool = False
    is_folder: bool = False
    has_fields: bool = False
    fields: Collection[str] | None = None
    is_dated: bool = False
    is_clinical: bool = False
    find_problem: Callable[[Item], str] = lambda item: ""
    require: Callable[[str], None] = lambda where: None


def list_formats() -> list[str]:
    """List the formats that are read, with those from other packages last."""
    return [name for name in _list_points() if get_format(name).read is not None]


def list_outputs() -> list[str]:
    """List the formats that are written, with those from other packages last."""
    return [name for name in _list_points() if get_format(name).write is not None]


def get_format(name: str) -> Format:
    """The format with a name; one that is neither read nor written if there is none."""
    point = _list_points().get(name)
    loaded = Format() if point is None else point.load()
    return loaded if isinstance(loaded, Format) else Format(loaded)


def _list_points() -> dict[str, EntryPoint]:
    """The entry points by name, ours first."""
    return _read_points(tuple(sys.path))


@cache
def _read_points(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The entry points of the packages on `sys.path`; reading all packages takes 10 ms."""
    found: dict[str, EntryPoint] = {}
    own = f"{__package__}."
    points = entry_points(group=GROUP)
    for point in sorted(points, key=lambda one: (not one.value.startswith(own), one.name)):
        found.setdefault(point.name, point)
    return found


def find_output(output: Path) -> str:
    """The format of an output by the ending of its name: Parquet if it has none.

    Raise BiomedError if the ending is unknown, or the format needs a package that is missing.
    """
    name = output.name.lower()
    found = [one for one in _list_points() if name.endswith(f".{one.lower()}")]
    format = max(found, key=len) if found else "" if output.suffix else "parquet"
    of = get_format(format)
    if of.write is None:
        endings = [f".{one}" for one in list_outputs()]
        problem = (
            f"{output}: no known ending; end the name of the output folder in "
            f"{', '.join(endings)}, or in none for Parquet"
        )
        raise BiomedError(add_hint(problem, suggest(output.suffix, endings)))
    of.require(str(output))
    return format


def check_columns(format: str, columns: Columns, meanings: Path | None = None) -> None:
    """Raise BiomedError if a format has no place for a column, or for meanings of labels."""
    of = get_format(format)
    for option, value in {"--patient-column": columns.patient, "--meanings": meanings}.items():
        if value and not of.is_clinical:
            clinical = [one for one in list_outputs() if get_format(one).is_clinical]
            raise BiomedError(
                f"{option}: the format {format} does not use it; leave it out, or write "
                f"{' or '.join(clinical)}"
            )
    for name in columns.keep:
        if not of.has_fields or (of.fields is not None and name not in of.fields):
            raise BiomedError(f"--keep {name}: format {format} has no place for it; leave it out")
        if name in _OWN_NAMES or name in (columns.text, columns.id):
            raise BiomedError(f"--keep {name}: the output has a column of this name; leave it out")


def read_documents(
    format: str,
    paths: Iterable[Path | str],
    encoding: str = "utf-8",
    n_sents: int = 1,
    tag_label: str | None = None,
) -> Iterator[Document]:
    """Read the documents of files or folders in one of the formats, one path after the other.

    Args:
        n_sents: sentences per document, for column files that do not mark documents.
        tag_label: label of column files whose tags have none.

    Raises:
        BiomedError: if the format is unknown, if its reader finds something wrong, if a text has
            half of a surrogate pair, or if a document is given again with other mentions.
    """
    found = get_format(format)
    if found.read is None:
        raise BiomedError(f"unknown format {quote(format)}; {list_choices(format, list_formats())}")
    if n_sents != 1 and "n_sents" not in found.options:
        raise BiomedError(f"format {format} has documents of its own: leave --n-sents out")
    if tag_label is not None and "tag_label" not in found.options:
        raise BiomedError(f"format {format} has no tags: leave --tag-label out")
    options = {"n_sents": n_sents, "tag_label": tag_label}
    given = {name: options[name] for name in found.options}
    layers = ("relations",) if found.has_unknown_types else ("mentions", "relations")
    places = [*map(Path, paths)]
    inputs = [places] if found.is_joint and places else places
    read = (found.read(one, encoding=encoding, **given) for one in inputs)
    yield from with_changes(_check(chain.from_iterable(read), layers))


def _check(documents: Iterable[Document], layers: Sequence[str]) -> Iterator[Document]:
    """Check characters and labels, and remove white space around labels.

    What is wrong is left out, or an error. So is a text that has mentions twice under one id, as
    several annotators give them.
    """
    known: dict[str, dict[str, int]] = defaultdict(dict)
    for document in documents:
        with leaving_out():
            check_characters(document)
            if any(not name.strip() for name in document.cats or ()):
                raise _unlabelled(document, "a class")
            for layer in layers:
                found = getattr(document, layer)
                if any(one.label != one.label.strip() or not one.label for one in found or ()):
                    setattr(document, layer, list(keep_sound(partial(_strip, document), found)))
            if document.mentions is None or is_new(document, known[document.text]):
                yield document


def _strip(document: Document, one: Labelled) -> Labelled:
    if not one.label.strip():
        raise _unlabelled(document, f"the {type(one).__name__.lower()} {quote(one.id)}")
    return replace(one, label=one.label.strip())


def _unlabelled(document: Document, what: str) -> BiomedError:
    name = quote(document.id)
    return BiomedError(
        f"{document.source}: {what} of document {name} has an empty label; give it one"
    )
