"""Read documents from text, JSON lines, tables and XML, compressed or not, one at a time."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from ..errors import BiomedError, escape
from ..files import folders, sources
from ..files.compression import strip_compression
from ..files.records import Layout

_KINDS: Mapping[str, type[sources.RecordFile]] = {
    **sources.TEXTS,
    **{ending: kind for ending, kind in sources.TABLES.items() if ending != ".json"},
    ".xml": sources.ArticleFile,
    ".nxml": sources.ArticleFile,
}
# One side of a parallel corpus of OPUS, such as EMEA.en-es.es: a line for each sentence.
_MOSES = re.compile(r"\.(\w{2,3})-(\w{2,3})\.(?:\1|\2)$")

_ENDINGS_IN_WORDS = ".txt, .jsonl, .csv, .tsv, .xml (each also .gz, .xz or .zst) or .parquet"
_BY_OPTION = "--text-column, or field in [text] of a recipe"
_NOTHING = f"no text in this folder; its files have to end in {_ENDINGS_IN_WORDS}"

# Marks notes of MIMIC-III that are errors, by one of these values: pandas writes 1.0.
_IS_ERROR, _ERRORS = "ISERROR", ("1", "1.0")

# Patents as Google Patents Public Data has them: lists of texts in several languages.
_TEXTS = ("title_localized", "abstract_localized", "description_localized", "claims_localized")
# Lists of codes of the international and the cooperative classification.
_CODES = ("ipc", "cpc")
# The codes that Carrino et al. 2022 accept ("Pre-trained Biomedical Language Models for Clinical
# NLP in Spanish", section 2).
MEDICAL_CODES = ("A61B", "A61C", "A61F", "A61H", "A61K", "A61L", "A61M", "A61P")


def read_documents(
    paths: Iterable[Path], *, text_field: str = "text", layout: Layout = Layout()
) -> Iterator[str]:
    """Read documents one at a time, in the order of the paths, with constant memory.

    The ending of a file's name determines its format: text with a document on each line (also
    `EMEA.en-es.es`, of a parallel corpus), JSON lines, CSV, Parquet or articles (`article_xml`).
    All but Parquet may be compressed (`.gz`, `.xz`, `.zst`). JSON objects without the field may be
    patents, of which medical ones are read. Notes of MIMIC-III that are marked as errors, and
    documents of only white space, are left out.

    Args:
        paths: files, or folders, which are searched recursively in order of name. Files in folders
            are skipped if they have another ending, or if a part of their path starts with a dot.
        text_field: JSON field or column with the text.
        layout: encoding of text files, and how CSV is written.

    Raises:
        BiomedError: at once if a path does not exist, is not a regular file or has an unknown
            ending, or a folder has no such file, or something that cannot be read. While reading,
            if a file is damaged, too large when decompressed, in another encoding or not in its
            format, or if a document has no text field.
    """
    files = find_files(paths)
    return (text for path in files for text in _read_file(path, text_field, layout) if text.strip())


def sample_documents(paths: Sequence[Path], words: int, *, seed: int = 0) -> Iterator[str]:
    """Draw documents with equal probability, and return them in their order.

    The text is read twice. The choice depends on a hash of each document, and not on its file or
    place. Equal documents are drawn together.

    Args:
        paths: see `read_documents`.
        words: number of words, separated by white space, that the documents have at least, or all
            documents if the text has fewer.

    Raises:
        BiomedError: as in `read_documents`.
    """

    def place(text: str) -> int:
        digest = blake2b(text.encode(), digest_size=8, key=seed.to_bytes(8, "big")).digest()
        return int.from_bytes(digest, "big")

    total, last = 0, -1
    for drawn, count in sorted((place(text), len(text.split())) for text in read_documents(paths)):
        if total >= words:
            break
        total, last = total + count, drawn
    return (text for text in read_documents(paths) if place(text) <= last)


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files of paths and folders; see `read_documents`."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += folders.list_files(path, _is_text, _NOTHING)
        elif not path.exists():
            raise BiomedError(f"{path}: no such file or folder; check the path")
        elif not path.is_file() or _find_class(path.name) is None:
            raise BiomedError(f"{path}: not a regular file that ends in {_ENDINGS_IN_WORDS}")
        else:
            files.append(path)
    return files


def tell_unread(path: Path) -> None:
    """Print how many files of a folder have other endings than those that are read."""
    folders.tell_unread(path, _is_text)


def _is_text(name: str) -> bool:
    return _find_class(name) is not None


def _find_class(name: str) -> type[sources.RecordFile] | None:
    """The class of a file by the ending of its name; None if it is unknown."""
    kind = sources.find_kind(name, _KINDS)
    if kind is None and _MOSES.search(strip_compression(name.lower())):
        return sources.TextLines
    return None if kind is None else _KINDS[kind]


def _read_file(path: Path, text_field: str, layout: Layout) -> Iterator[str]:
    kind = _find_class(path.name)
    assert kind is not None  # find_files has looked
    how = sources.Reading(sources.Columns(text_field), layout, text_option=_BY_OPTION)
    part = kind(path, path.name, how)
    if isinstance(part, sources.ParquetPart) and _IS_ERROR in part.list_columns():
        columns = sources.Columns(text_field, keep=(_IS_ERROR,))
        part = sources.ParquetPart(path, path.name, how._replace(columns=columns))
    for place, value in part.read_strictly():
        if isinstance(value, str):
            yield value
        elif text_field not in value and not value.keys().isdisjoint(_TEXTS):
            yield from map(_replace_halves, read_patent(value, place))
        elif str(value.get(_IS_ERROR)) not in _ERRORS:
            yield _replace_halves(_take_text(value, text_field, place))


def _replace_halves(text: str) -> str:
    """Replace each half of a surrogate pair, which cannot be encoded in UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _take_text(row: dict[str, object], text_field: str, place: str) -> str:
    if text_field not in row:
        found = escape(", ".join(row) or "none", 300)
        raise BiomedError(f"{place}: no field {text_field}, but {found}; name it with {_BY_OPTION}")
    value = row[text_field]
    if not isinstance(value, str):
        # The value itself may be personal data.
        raise BiomedError(
            f"{place}: field {text_field} is not text; name the field with the text, or remove "
            "documents without text"
        )
    return value


def read_patent(row: dict[str, object], place: str) -> Iterator[str]:
    """Yield the text of a patent in each of its languages; nothing if it is not of medicine."""
    codes = [code for name in _CODES for code in _read_list(row, name, "code", place)]
    if not any(code.startswith(MEDICAL_CODES) for code in codes):
        return
    by_language: dict[str, list[str]] = {}
    for name in _TEXTS:
        languages = _read_list(row, name, "language", place)
        for language, text in zip(languages, _read_list(row, name, "text", place), strict=True):
            by_language.setdefault(language, []).append(text)
    yield from map("\n\n".join, by_language.values())


def _read_list(row: dict[str, object], name: str, key: str, place: str) -> list[str]:
    """A field of each of a list's objects; null stands for an empty list."""
    entries = row.get(name) or []
    objects = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    texts = [one[key] for one in objects if isinstance(one.get(key), str)]
    if not isinstance(entries, list) or len(texts) != len(entries):
        raise BiomedError(
            f"{place}: {name} of a patent is not a list of objects with {key}, a text; mend it, "
            "or name the field with the text"
        )
    return texts
