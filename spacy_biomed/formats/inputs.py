"""What annotation reads: tables and texts, and the texts of two formats of annotated documents."""

from functools import partial
from pathlib import Path

from ..errors import BiomedError
from ..files import folders
from ..files.records import Layout
from ..files.sources import TABLES, TEXTS, Columns, Part, find_kind
from ..files.sources import find_parts as find_plain_parts
from .pubtator import PubTatorFile
from .spacy_docs import SpacyFile

KINDS: dict[str, type[Part]] = {**TABLES, ".pubtator": PubTatorFile, ".spacy": SpacyFile, **TEXTS}


# The parts of an input of any of these kinds.
find_parts = partial(find_plain_parts, kinds=KINDS)


def tell_unread(path: Path) -> None:
    """Print how many files of an input, if it is a folder, are of none of these kinds."""
    folders.tell_unread(path, lambda name: find_kind(name, KINDS) is not None)


def read_texts(path: Path, columns: Columns = Columns(), layout: Layout = Layout()) -> list[str]:
    """Read all texts of an input into memory. Blank texts are left out.

    It is a `BiomedError` as in `find_parts`, if a document is damaged, or if there is no text.
    """
    texts: list[str] = []
    for part in find_parts(path, columns, layout):
        for _ in part.find_offsets():  # which finds damage before a row is read
            pass
        for item in part.read_from(0, 0):
            if item.error:
                raise BiomedError(f"{path}: {item.id}: {item.error}")
            texts += [item.text] if item.text.strip() else []
    if not texts:
        raise BiomedError(f"{path}: no text there; give a file with at least one")
    return texts
