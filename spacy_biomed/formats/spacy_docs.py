"""spaCy's own format, `.spacy` files."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from srsly.msgpack import msgpack_decoders, msgpack_encoders

from ..annotations.document_keys import DOCUMENT_ID
from ..errors import BiomedError
from ..files.compression import check_deflated
from ..files.sources import Item, Part
from .findings import AnnotatedShard, show_value
from .registry import Format


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Read the documents of a .spacy file.

    Raises:
        BiomedError: at once if the file does not exist or is not a .spacy file; while reading, if a
            document is damaged.
    """
    return _unpack(read_doc_bin(path), path, vocab)


def _unpack(doc_bin: DocBin, path: Path, vocab: Vocab) -> Iterator[Doc]:
    with _explaining_damage(path):
        yield from doc_bin.get_docs(vocab)


def read_doc_bin(path: Path) -> DocBin:
    """Read a .spacy file.

    One that is missing, damaged, or too large when decompressed (`files.compression.max_ratio`) is
    a `BiomedError`.
    """
    find_coders_once()
    path = Path(path)
    if not path.is_file():
        raise BiomedError(f"{path}: no such file; `python -m spacy biomed convert` makes it")
    with _explaining_damage(path):
        content = path.read_bytes()
        check_deflated(content, path)
        return DocBin().from_bytes(content)


@contextmanager
def _explaining_damage(path: Path) -> Iterator[None]:
    """Convert any error to the message that the file is damaged, since spaCy does not check it."""
    try:
        yield
    except BiomedError:
        raise
    except Exception as error:
        raise BiomedError(
            f"{path}: not a readable .spacy file, or damaged; `python -m spacy biomed convert` "
            "writes it again"
        ) from error


@cache
def find_coders_once() -> None:
    """Keep the MessagePack encoders and decoders that are registered or of installed packages.

    Otherwise srsly searches the entry points of all packages for each object that it packs or
    unpacks, several times for a document with user data or span groups. This takes more than half
    of the time for reading or writing a corpus.
    """
    for coders in (msgpack_encoders, msgpack_decoders):
        coders.get_all = cache(coders.get_all)


class SpacyFile(Part):
    """A `.spacy` file, of which only the texts are read, all into memory."""

    def find_offsets(self) -> Iterator[int]:
        return iter(range(len(read_doc_bin(self.path))))

    def read_from(self, offset: int, row: int) -> Iterator[Item]:
        docs = read_docs(self.path, Vocab())
        for number, doc in enumerate(islice(docs, row, None), start=row):
            id = doc.user_data.get(DOCUMENT_ID)
            yield Item(self.place(number) if id in (None, "") else str(id), doc.text)


def write_spacy(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a file with `doc.user_data["document_id"]` and other user data of plain types."""
    find_coders_once()
    docs = DocBin(store_user_data=True)
    for _, item, doc, _ in shard.documents:
        kept = {key: value for key, value in doc.user_data.items() if _is_plain(value)}
        fields = {n: v if _is_plain(v) else show_value(v) for n, v in item.fields.items()}
        doc.user_data = {**kept, **fields, DOCUMENT_ID: item.id}
        docs.add(doc)
    return {f"{shard.name}.spacy": docs.to_bytes()}


def _is_plain(value: object) -> bool:
    """Whether a value consists of types that MessagePack has."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 64
    return value is None or isinstance(value, float | str)


SPACY = Format(write=write_spacy, has_fields=True)
