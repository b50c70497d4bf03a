"""The formats that corpora are published in, and reading them.

Another package adds a format by an entry point of the group `spacy_biomed_formats`: its name, and a
function that takes a path (a file or folder) and the keyword `encoding`, and yields `Document`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from ..errors import BiomedError, list_choices, quote
from .documents import Document, Mention, Relation, check_characters
from .repairs import leaving_out, with_changes

Labelled = TypeVar("Labelled", Mention, Relation)

# The entry points of other packages' readers.
GROUP = "spacy_biomed_formats"

# Module and function of the reader of each of our formats, and the function's further arguments.
FORMATS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "columns": ("columns", "read_columns", {}),
    "conll": ("columns", "read_columns", {}),
    "bio": ("columns", "read_columns", {}),
    "iob1": ("columns", "read_columns", {"scheme": "iob1"}),
    "iob2": ("columns", "read_columns", {"scheme": "iob2"}),
    "bioes": ("columns", "read_columns", {"scheme": "bioes"}),
    "bilou": ("columns", "read_columns", {"scheme": "bioes"}),
    "brat": ("brat", "read_brat", {}),
    "pubtator": ("pubtator", "read_pubtator", {}),
    "bioc": ("bioc", "read_bioc", {}),
    "hoc": ("hoc", "read_hoc", {}),
    "hoc_sentences": ("hoc", "read_hoc", {"by_sentence": True}),
    "jsonl": ("jsonl", "read_jsonl", {}),
    "prodigy": ("jsonl", "read_jsonl", {}),
    "label_studio": ("label_studio", "read_label_studio", {}),
    "inception": ("inception", "read_inception", {}),
    "i2b2_2010": ("i2b2_2010", "read_i2b2_2010", {}),
    "i2b2_2012": ("i2b2_xml", "read_i2b2_2012", {}),
    "i2b2_2012_temporal": ("i2b2_xml", "read_i2b2_2012", {"temporal": True}),
    "i2b2_2014": ("i2b2_xml", "read_i2b2_2014", {}),
    "share_clef": ("share_clef", "read_share_clef", {}),
    "ddi": ("ddi", "read_ddi", {}),
    "chemprot": ("chemprot", "read_chemprot", {}),
    "nli": ("nli", "read_nli", {}),
    "medrqe": ("medrqe", "read_medrqe", {}),
    "sts": ("sts", "read_sts", {}),
    "clinical_sts": ("sts", "read_clinical_sts", {}),
    "squad": ("squad", "read_squad", {}),
    "bioasq": ("bioasq", "read_bioasq", {}),
    "marked_relations": ("marked_relations", "read_marked_relations", {}),
    "relation_tsv": ("marked_relations", "read_relation_tsv", {}),
}


def list_formats() -> list[str]:
    """The names of all formats: ours, and those of other packages."""
    return [*FORMATS, *sorted({*entry_points(group=GROUP).names} - {*FORMATS})]


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
        BiomedError: if the format is unknown, if its reader finds something wrong, or if a text has
            half of a surrogate pair.
    """
    reader, module, arguments = _find_reader(format)
    if module == "columns":
        arguments = {**arguments, "n_sents": n_sents, "tag_label": tag_label}
    elif n_sents != 1:
        raise BiomedError(f"format {format} has documents of its own: leave --n-sents out")
    elif tag_label is not None:
        raise BiomedError(f"format {format} has no tags: leave --tag-label out")
    # The types of marked arguments may be unknown.
    layers = ("relations",) if module == "marked_relations" else ("mentions", "relations")
    for path in paths:
        documents = reader(Path(path), encoding=encoding, **arguments)
        yield from with_changes(_check(documents, layers))


def _find_reader(format: str) -> tuple[Callable[..., Iterable[Document]], str, dict[str, Any]]:
    """The reader of a format, the name of its module ("" of another package), and its arguments."""
    if format in FORMATS:
        module, function, arguments = FORMATS[format]
        reader = getattr(importlib.import_module(f"{__package__}.readers.{module}"), function)
        return reader, module, arguments
    for point in entry_points(group=GROUP, name=format):
        return point.load(), "", {}
    raise BiomedError(f"unknown format {quote(format)}; {list_choices(format, list_formats())}")


def _check(documents: Iterable[Document], layers: Sequence[str]) -> Iterator[Document]:
    """Check characters and labels; what is wrong is left out, or an error."""
    for document in documents:
        with leaving_out():
            check_characters(document)
            if any(not name.strip() for name in document.cats or ()):
                raise _unlabelled(document, "a class")
            for layer in layers:
                found = getattr(document, layer)
                if any(not one.label.strip() for one in found or ()):
                    setattr(document, layer, list(_keep_labelled(document, found)))
            yield document


def _keep_labelled(document: Document, found: Iterable[Labelled]) -> Iterator[Labelled]:
    for one in found:
        with leaving_out():
            if not one.label.strip():
                raise _unlabelled(document, f"the {type(one).__name__.lower()} {quote(one.id)}")
            yield one


def _unlabelled(document: Document, what: str) -> BiomedError:
    return BiomedError(
        f"{document.source}: {what} of document {quote(document.id)} has an empty label; give it "
        "one"
    )
