"""Documents as readers yield them, a text with annotations at character offsets; opening files.

Each reader is a generator of `Document` that takes a path and an encoding. A flaw in a file becomes
a `BiomedError` of one line: the file, the line, what is wrong, and what to do.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from ..annotations.document_keys import ANSWER_KEY, split_ids
from ..annotations.pairs import join_pair
from ..errors import BiomedError, quote
from ..files import folders
from ..files.compression import COMPRESSED_ENDINGS
from ..files.outputs import RUN_FILES
from ..files.records import CR_ALONE, check_text

T = TypeVar("T")
Offsets = tuple[int, int]

BYTE_ORDER_MARK = "\ufeff"

# Encodings that Python has for other purposes than files.
_NOT_OF_FILES = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}


@dataclass(frozen=True, slots=True)
class Mention:
    """An annotated mention.

    Attributes:
        fragments: half-open `(start, end)` pairs in Unicode code points, in text order. A mention
            of more than one is discontinuous.
        id: the identifier that the source file gives it (brat's `T1`), or "".
        attributes: further information in the source (negation, normalisation, note).
    """

    label: str
    fragments: tuple[tuple[int, int], ...]
    id: str = ""
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def start(self) -> int:
        return self.fragments[0][0]

    @property
    def end(self) -> int:
        return self.fragments[-1][1]

    @property
    def is_discontinuous(self) -> bool:
        return len(self.fragments) > 1

    def move(self, shift: int) -> Mention:
        """Add a number of characters to all offsets."""
        moved = tuple((start + shift, end + shift) for start, end in self.fragments)
        return replace(self, fragments=moved)

    def read(self, text: str) -> str:
        """The fragments as they stand in a text, joined by spaces."""
        return " ".join(text[start:end] for start, end in self.fragments)


@dataclass(frozen=True, slots=True)
class Relation:
    """A labelled relation between two mentions, named by their `Mention.id`.

    If the source relates concepts and not mentions (PubTator), head and tail are concepts.
    """

    label: str
    head: str
    tail: str
    id: str = ""


@dataclass(slots=True)
class Document:
    """A text with its annotations, all at character offsets.

    Attributes:
        mentions: None if the source does not annotate mentions; an empty list if it does and this
            text has none.
        relations: None if the source does not annotate relations.
        cats: class label to 0.0 or 1.0, or to any number if the source gives scores (similarity);
            None if the source annotates neither.
        tokens, sentences: `(start, end)` offsets if the source is published already split, else
            None.
        pair: offsets of the two texts that `text` joins (`create_pair`); None for a single text.
        answers: all annotated answers to the question (the pair's first text), as mentions in the
            second text; an empty list if there is no answer; None if answers are not annotated.
        annotated_labels: labels of mentions that the source annotates, so that the absence of such
            a mention means something. None if it annotates every label.
        uncertain: regions where a mention of their label would be neither right nor wrong
            (`label_map`).
        part_of: the id of the text that this is a part of, such as the abstract of a sentence;
            None for a whole text. Parts of a text are never split between train, dev and test.
        source: file (and line) that the document was read from, for messages.
        changes: kinds of repairs while the document was read (`repairs.Change`).
    """

    id: str
    text: str
    mentions: list[Mention] | None = None
    relations: list[Relation] | None = None
    cats: dict[str, float] | None = None
    tokens: list[Offsets] | None = None
    sentences: list[Offsets] | None = None
    pair: tuple[Offsets, Offsets] | None = None
    answers: list[Mention] | None = None
    annotated_labels: frozenset[str] | None = None
    uncertain: tuple[Mention, ...] = ()
    part_of: str | None = None
    source: str = ""
    changes: list[str] = field(default_factory=list)

    def append(self, text: str) -> Offsets:
        """Append a text, after a space, and return its offsets."""
        start = len(self.text) + 1 if self.text else 0
        self.text = f"{self.text} {text}" if self.text else text
        return start, start + len(text)


def list_concepts(mention: Mention) -> list[str]:
    """The values of a mention's attributes; a file may give it several concepts in one value."""
    values = mention.attributes.values()
    return [one for value in values for one in split_ids(value)]


def mention_names(mentions: Collection[Mention], among: Collection[Mention] = ()) -> set[str]:
    """The names that relations give to mentions: ids, and concepts that are not ids `among` all."""
    concepts = {concept for one in mentions for concept in list_concepts(one)}
    ids = {one.id for one in mentions if one.id}
    return ids | concepts.difference(one.id for one in among)


def create_pair(
    id: str,
    first: str,
    second: str,
    cats: dict[str, float] | None,
    where: str,
    *,
    may_be_empty: bool = False,
) -> Document:
    """Create the document of a pair of texts, without white space around them.

    Raises:
        BiomedError: at `where` (`file:line`), if a text contains the separator of pairs or is
            empty; with `may_be_empty`, if both are.
    """
    first, second = first.strip(), second.strip()
    for name, text in (("first", first), ("second", second)):
        if not text and not (may_be_empty and (first or second)):
            raise BiomedError(
                f"{where}: the {name} text of the pair is empty; write it, or remove the pair"
            )
    return replace(_join_texts(id, first, second, where), cats=cats)


def create_question(
    id: str, question: str, context: str, answers: Iterable[Offsets] | None, where: str
) -> Document:
    """Create the document of a question and its context.

    `answers` are offsets in the context; None if answers are not annotated.

    Raises:
        BiomedError: at `where`, if a text contains the separator of pairs.
    """
    document = _join_texts(id, question, context, where)
    if answers is not None:
        shift = len(document.text) - len(context)
        document.answers = [Mention(ANSWER_KEY, (one,)).move(shift) for one in sorted(set(answers))]
    return document


def _join_texts(id: str, first: str, second: str, where: str) -> Document:
    try:
        text, pair = join_pair(first, second)
    except BiomedError as error:
        raise BiomedError(f"{where}: {error}") from None
    return Document(id=id, text=text, pair=pair, source=where)


def read_text(path: Path, encoding: str = "utf-8", *, may_be_empty: bool = False) -> str:
    """Read a whole file, with its line ends and without a byte-order mark.

    Raises:
        BiomedError: if the file is missing, empty, or not in the encoding. The message then gives
            the line and the offset of the first byte that cannot be decoded.
    """
    if not path.is_file():
        raise BiomedError(f"{path}: no such file; check the path and that the corpus is unpacked")
    text = decode(path.read_bytes(), path, encoding, may_be_empty=may_be_empty)
    return text.removeprefix(BYTE_ORDER_MARK)


def decode(
    content: bytes, path: Path, encoding: str = "utf-8", *, may_be_empty: bool = False
) -> str:
    """Decode the content of a file, also its mark; raise BiomedError as `read_text` does."""
    try:
        if codecs.lookup(encoding).name in _NOT_OF_FILES:
            raise LookupError(encoding)
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        if path.suffix.lower() in COMPRESSED_ENDINGS:
            raise BiomedError(f"{path}: compressed, which is not read here: unpack it") from None
        line = content[: error.start].count(b"\n") + 1
        raise BiomedError(
            f"{path}:{line}: the byte at offset {error.start} is not {encoding.upper()}; convert "
            f"the file to UTF-8, or name its encoding with --encoding"
        ) from None
    except (LookupError, ValueError):
        raise BiomedError(
            f"{path}: unknown encoding {quote(encoding)}; name one of Python's, such as latin-1"
        ) from None
    if not may_be_empty and not text.strip(BYTE_ORDER_MARK + " \t\r\n"):
        raise BiomedError(f"{path}: the file is empty; unpack the corpus again")
    return text


def read_lines(path: Path, encoding: str = "utf-8", *, may_be_empty: bool = False) -> list[str]:
    """Read a file as lines without their ends (LF or CRLF) and without a byte-order mark.

    Only line feeds end a line: other separators of `str.splitlines` occur inside tokens of
    published corpora.

    Raises:
        BiomedError: as `read_text` does, and if the lines end in CR alone.
    """
    text = read_text(path, encoding, may_be_empty=may_be_empty)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if "\r" in lines[0].rstrip("\r"):
        raise BiomedError(f"{path}: {CR_ALONE}")
    return lines


def number_lines(
    path: Path, encoding: str = "utf-8", *, may_be_empty: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that has more than white space."""
    lines = read_lines(path, encoding, may_be_empty=may_be_empty)
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def parse_offset(digits: str) -> int:
    """Read a whole number; one of more than 18 digits as a number beyond the end of any text."""
    if len(digits) > 18:
        return -(10**18) if digits.startswith("-") else 10**18
    return int(digits)


def look_up(known: Mapping[str, T], id: str, where: str, what: str) -> T:
    """What has an id; raise BiomedError that there is no `what` at `where` if nothing has it."""
    if id not in known:
        raise BiomedError(f"{where}: there is no {what}; correct the id")
    return known[id]


def list_files(path: Path, suffixes: Iterable[str]) -> list[Path]:
    """List the path itself, or files with a suffix in and below a folder.

    Hidden files are left out, and what `annotate` notes beside its results.

    Raises:
        BiomedError: if there is no such file, or something in the folder cannot be read.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BiomedError(f"{path}: no such file or folder; check the path")
    suffixes = tuple(suffixes)
    missing = f"no {' or '.join(suffixes)} file in this folder; check the path and the format"

    def is_wanted(name: str) -> bool:
        return Path(name).suffix.lower() in suffixes and Path(name).name not in RUN_FILES

    return folders.list_files(path, is_wanted, missing)


def is_covered(text: str, mention: Mention, covered: str) -> bool:
    """Whether a mention's fragments, joined by spaces, read as its file quotes them.

    White space does not matter: formats write a line end inside a mention as a space or omit it.
    """
    found = mention.read(text)
    return found == covered or "".join(found.split()) == "".join(covered.split())


def check_characters(document: Document) -> None:
    """Raise BiomedError if a string has half of a surrogate pair, or the text has a NUL.

    JSON escapes can have such a half, which is not a character and cannot be stored. Text of a
    wrong encoding has NULs.
    """
    if problem := check_text(document.text):
        raise BiomedError(f"{document.source}: document {quote(document.id)} has {problem}")
    strings = [document.text, document.id, *(document.cats or ())]
    for mention in document.mentions or ():
        strings += [mention.label, mention.id, *chain(*mention.attributes.items())]
    for relation in document.relations or ():
        strings += [relation.label, relation.head, relation.tail, relation.id]
    stored = "".join(strings)
    try:
        stored.encode("utf-8")
    except UnicodeEncodeError as error:
        half = ascii(stored[error.start])[1:-1]
        raise BiomedError(
            f"{document.source}: document {quote(document.id)} has half of a surrogate pair, "
            f"{half}, which is not a character; correct it"
        ) from None


def join_fragments(text: str, mention: Mention, where: str) -> Mention:
    """Sort a mention's fragments, and join fragments with only white space between them.

    Raises:
        BiomedError: at `where` (`file:line`), if two fragments overlap.
    """
    joined: list[Offsets] = []
    for start, end in sorted(mention.fragments):
        if joined and start < joined[-1][1]:
            raise BiomedError(f"{where}: fragments of the mention overlap; correct their offsets")
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return replace(mention, fragments=tuple(joined))


def check_mention(text: str, mention: Mention, covered: str | None, where: str) -> None:
    """Check the offsets of a mention; the arguments are those of `repairs.locate`.

    Raises:
        BiomedError: if the mention lies beyond the text, is empty, or reads differently.
    """
    for start, end in mention.fragments:
        if not 0 <= start < end:
            raise BiomedError(
                f"{where}: a mention from {quote(start)} to {quote(end)} covers nothing; correct it"
            )
    end = max(end for _, end in mention.fragments)
    if end > len(text):
        raise BiomedError(
            f"{where}: the mention ends at {quote(end)}, beyond the text's end at {len(text)}; "
            f"check that text and annotations belong together and that offsets count characters"
        )
    if covered is not None and not is_covered(text, mention, covered):
        raise BiomedError(
            f"{where}: the annotation reads {quote(covered)} but the text at "
            f"{mention.start}-{mention.end} reads {quote(mention.read(text))}; check that text and "
            f"annotations belong together and that offsets count characters"
        )
