"""Flaws of published files: annotations are moved to their text, or left out, and listed.

One of hundreds of files of a corpus may have a flaw. It is repaired if the repair is certain: an
annotation whose text occurs once near its offsets is moved there. Otherwise it is bad input, or
left out with `--on-error skip`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar

from ..errors import BiomedError, quote
from .documents import Document, Mention, Offsets, check_mention, is_covered
from .offsets import Quoted, count_code_points
from .spelling import SPELLINGS, Spelling, reads_as, spell

T = TypeVar("T")
Item = TypeVar("Item")
OnError = Literal["stop", "skip"]
MOVED, RESPELT, LEFT_OUT = "moved", "spelt otherwise", "left out"
# These occur in the files of annotation tools.
NOT_ANNOTATED, OTHER_ANNOTATION = "not annotated", "other annotation"

_ADVICE = "; or leave such things out with --on-error skip"

# Distances from its offsets at which an annotation is searched for, in characters. The nearest is
# first, so that a word that occurs twice is not confused with its other occurrence.
_DISTANCES = (2, 10, 40)
# Longer annotations, and those with more fragments, are not searched for elsewhere.
_LONGEST, _MOST_FRAGMENTS = 2000, 20

_WHERE = re.compile(r"(?P<file>.+?)(?::(?P<line>\d+))?: (?P<what>.*)", re.DOTALL)


class Change(NamedTuple):
    """The repair of a flaw.

    Attributes:
        kind: "moved", "spelt otherwise" (the annotation has a normal form of the text: `spelling`)
            or "left out". Two kinds are not flaws, and both are left out: "not annotated" (a
            document that nobody has annotated or that was skipped) and "other annotation" (of a
            document that was annotated several times).
        file, line: where the flaw is; line is None if only the file is known.
    """

    kind: str
    file: str
    line: int | None
    what: str


@dataclass
class ChangeLog:
    """The repairs in a corpus.

    Attributes:
        on_error: whether to stop at a flaw that cannot be repaired, or to skip it.
    """

    on_error: OnError = "stop"
    changes: list[Change] = field(default_factory=list)

    def add(self, kind: str, message: str) -> None:
        """Add a change by a message of the form `file:line: what`."""
        match = _WHERE.fullmatch(message)
        file, line, what = match.group("file", "line", "what") if match else ("", None, message)
        self.changes.append(Change(kind, file, int(line) if line else None, what))

    def rename(self, folder: str, name: str) -> None:
        """Call a folder otherwise in the files of the changes."""
        self.changes = [one._replace(file=one.file.replace(folder, name)) for one in self.changes]

    def describe(self) -> dict[str, object]:
        """Return the content of `conversion.json`."""
        return {
            "on_error": self.on_error,
            "counts": dict(Counter(change.kind for change in self.changes)),
            "changes": [change._asdict() for change in self.changes],
        }


_current: ContextVar[ChangeLog | None] = ContextVar("changes", default=None)


@contextmanager
def keeping_log(on_error: OnError) -> Iterator[ChangeLog]:
    """Keep a log of what readers repair and leave out. Without a log they leave out nothing."""
    log = ChangeLog(on_error)
    token = _current.set(log)
    try:
        yield log
    finally:
        _current.reset(token)


@contextmanager
def leaving_out() -> Iterator[None]:
    """Leave out what is wrong: the context for reading an annotation, a line or a document.

    Raises:
        BiomedError: if it is raised inside and flaws are not to be skipped.
    """
    try:
        yield
    except BiomedError as error:
        log = _current.get()
        if log is None or str(error).endswith(_ADVICE):
            raise
        if log.on_error == "stop":
            raise BiomedError(f"{error}{_ADVICE}") from None
        log.add(LEFT_OUT, str(error))


def keep_sound(make: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
    """Yield what is made of each item, within `leaving_out`."""
    for item in items:
        with leaving_out():
            yield make(item)


def is_new(document: Document, known: dict[str, int]) -> bool:
    """Whether a document's id is new; raise BiomedError if another document has it.

    A copy with the same text and annotations is logged as left out; without a log it is an error.
    The document is added to `known`, the hashes of the documents before by id.
    """
    content = hash(repr(replace(document, source="", changes=[])))
    if document.id not in known:
        known[document.id] = content
        return True
    message = f"{document.source}: there is a document {quote(document.id)} already"
    log = _current.get()
    if log is None or known[document.id] != content:
        raise BiomedError(
            f"{message}; remove one, or put all annotations of a text into one document"
        )
    log.add(LEFT_OUT, f"{message}, with the same annotations")
    return False


def with_changes(documents: Iterable[Document]) -> Iterator[Document]:
    """Set `changes` of each document to what was logged while it, or after the last, was read."""
    log = _current.get()
    if log is None:
        yield from documents
        return
    seen, last = len(log.changes), None
    for document in documents:
        if last is not None:
            yield last
        document.changes = [change.kind for change in log.changes[seen:]]
        seen, last = len(log.changes), document
    if last is not None:
        last.changes += [change.kind for change in log.changes[seen:]]
        yield last


def locate_all(
    text: str, found: Sequence[Quoted], shifts: Sequence[int] = (0,)
) -> Iterator[tuple[int, Mention]]:
    """Yield the number in `found` of each mention that is sound, and what `locate` returns for it.

    Offsets may be in other units, and need one of the shifts (`count_code_points`).
    """
    placed = count_code_points(text, found, shifts)
    for number, (mention, (given, covered, where)) in enumerate(zip(placed, found, strict=True)):
        with leaving_out():
            if covered is None and mention != given:
                place = f"{mention.start}-{mention.end}, since not all mentions were whole words"
                note(MOVED, f"{where}: {quote(given.start)}-{quote(given.end)} to {place}")
            yield number, locate(text, mention, covered, where)


def locate(text: str, mention: Mention, covered: str | None, where: str) -> Mention:
    """Return a mention at the place where the text reads as its file quotes it.

    Its offsets are used if the text there is the string, white space aside, or if the string is a
    normal form of the text (`reads_as`). Else the mention moves to the only occurrence within 2, 10
    or 40 characters. White space at the edges of fragments is removed, since no token has it.

    Args:
        covered: the string that the file gives for the mention; None if it gives none.
        where: `file:line`, for messages.

    Raises:
        BiomedError: if there is no such place, or more than one.
    """
    if covered is not None and covered.strip() and len(covered) <= _LONGEST:
        if _lies_in(text, mention):
            if is_covered(text, mention, covered):
                return _strip(text, mention)
            read = mention.read(text)
            if reads_as(read, covered):
                what = f"the annotation reads {quote(covered)}, the text {quote(read)}"
                note(RESPELT, f"{where}: {what}")
                return _strip(text, mention)
        if (moved := _search(text, mention, covered)) is not None:
            place = f"{quote(mention.start)}-{quote(mention.end)} to {moved.start}-{moved.end}"
            note(MOVED, f"{where}: {quote(covered)} from {place}")
            return _strip(text, moved)
    check_mention(text, mention, covered, where)
    return _strip(text, mention)


def _strip(text: str, mention: Mention) -> Mention:
    """Remove white space at the edges of fragments, and fragments of only white space."""
    fragments = []
    for start, end in mention.fragments:
        covered = text[start:end]
        if stripped := covered.strip():
            start += covered.index(stripped)
            fragments.append((start, start + len(stripped)))
    if not fragments or tuple(fragments) == mention.fragments:
        return mention
    return replace(mention, fragments=tuple(fragments))


def note(kind: str, message: str) -> None:
    """Add a change to the log, if one is kept, by a message of the form `file:line: what`."""
    if log := _current.get():
        log.add(kind, message)


def _lies_in(text: str, mention: Mention) -> bool:
    return all(0 <= start < end <= len(text) for start, end in mention.fragments)


def _search(text: str, mention: Mention, covered: str) -> Mention | None:
    """Find the only place near its offsets where a text has a mention; None if there is none."""
    if len(mention.fragments) > _MOST_FRAGMENTS:
        return None
    find = _shifts if mention.is_discontinuous else _places
    for spelling in (str.strip, *SPELLINGS):  # the first leaves out white space only
        for distance in _DISTANCES:
            found = find(text, mention, covered, distance, spelling)
            if len(found) == 1:
                return replace(mention, fragments=found[0])
            if found:
                return None
    return None


def _places(
    text: str, mention: Mention, covered: str, distance: int, spelling: Spelling
) -> list[tuple[Offsets, ...]]:
    """Find the places of a string that begin at most `distance` characters from a mention's."""
    first = max(0, mention.start - distance)
    last = max(first, min(len(text), mention.start + 2 * (distance + len(covered))))
    parts = [spelling(character) for character in text[first:last]]
    offsets = [first + place for place, part in enumerate(parts) for _ in part]
    string, wanted = "".join(parts), spell(covered, spelling)
    if not wanted:
        return []
    found: list[tuple[Offsets, ...]] = []
    place = string.find(wanted)
    while place >= 0 and offsets[place] <= mention.start + distance:
        end = offsets[place + len(wanted) - 1] + 1
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
        found.append(((offsets[place], end),))
        place = string.find(wanted, place + 1)
    return found


def _shifts(
    text: str, mention: Mention, covered: str, distance: int, spelling: Spelling
) -> list[tuple[Offsets, ...]]:
    """Find the places to which all fragments of a mention can be moved together."""
    found = []
    for shift in range(-distance, distance + 1):
        moved = mention.move(shift)
        if _lies_in(text, moved) and spell(moved.read(text), spelling) == spell(covered, spelling):
            found.append(moved.fragments)
    return found
