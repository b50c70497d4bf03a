"""`doc._.deidentified`: a text without what identifies people, and where everything went."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from spacy.tokens import Doc

DEIDENTIFIED = "deidentified"


class Replacement(NamedTuple):
    """A mention and what stands in its place; offsets in characters, ends exclusive.

    Attributes:
        start, end: where the mention is in the document's text.
        new_start, new_end: where the replacement is in the new text.
        label: the mention's.
        text: the replacement; the mention itself if it is an age that stays, or if it was drawn.
    """

    start: int
    end: int
    new_start: int
    new_end: int
    label: str
    text: str


class Deidentified:
    """A text with its mentions replaced.

    Attributes:
        original: the text as it was.
        replaced: (start, end, label, replacement) of each mention, disjoint, in text order, none
            empty.

    Examples:
        >>> deidentified = Deidentified("Ms. Lee, 40, came.", [(4, 7, "NAME", "[NAME]")])
        >>> deidentified.text
        'Ms. [NAME], 40, came.'
        >>> deidentified.offset_to_new(9), deidentified.offset_to_original(12)
        (12, 9)
        >>> deidentified.span_to_new(5, 11)
        (4, 14)
    """

    def __init__(self, original: str, replaced: Iterable[tuple[int, int, str, str]]):
        self.replacements: list[Replacement] = []
        pieces, last, length = [], 0, 0
        for start, end, label, text in replaced:
            pieces += [original[last:start], text]
            new_start = length + start - last
            length = new_start + len(text)
            self.replacements.append(Replacement(start, end, new_start, length, label, text))
            last = end
        self.text = "".join([*pieces, original[last:]])
        # Of each replacement, here and there, and before them the beginning of both texts.
        self._old = _Side([(0, 0), *((one.start, one.end) for one in self.replacements)])
        self._new = _Side([(0, 0), *((one.new_start, one.new_end) for one in self.replacements)])

    def offset_to_new(self, offset: int) -> int:
        """Where a place of the original text is in the new one.

        Exact outside of mentions and at their edges. A place inside a mention becomes the start of
        its replacement.
        """
        return self._old.move(offset, self._new, to_end=False)

    def offset_to_original(self, offset: int) -> int:
        """Where a place of the new text is in the original one; the reverse of `offset_to_new`."""
        return self._new.move(offset, self._old, to_end=False)

    def span_to_new(self, start: int, end: int) -> tuple[int, int]:
        """Where a span of the original text is in the new one, with all of what it touches.

        Exact where no edge is inside a mention; an edge that is goes to that of the replacement.
        """
        return self.offset_to_new(start), self._old.move(end, self._new, to_end=True)

    def span_to_original(self, start: int, end: int) -> tuple[int, int]:
        """Where a span of the new text is in the original one; the reverse of `span_to_new`."""
        return self.offset_to_original(start), self._new.move(end, self._old, to_end=True)


class _Side:
    """The spans that correspond in two texts, in one of these; disjoint and in text order."""

    def __init__(self, spans: list[tuple[int, int]]):
        self.starts = [start for start, _ in spans]
        self.ends = [end for _, end in spans]

    def move(self, offset: int, other: _Side, to_end: bool) -> int:
        # Of spans that touch at the offset, either gives the same.
        index = bisect_right(self.starts, offset) - 1
        if offset >= self.ends[index]:
            return other.ends[index] + offset - self.ends[index]
        if offset == self.starts[index]:
            return other.starts[index]
        return other.ends[index] if to_end else other.starts[index]


def register_extensions() -> None:
    """Declare `doc._.deidentified`, a `Deidentified`; None where `biomed_deidentify` has not run.

    What was replaced lies as character offsets, labels and strings in `doc.user_data`, so it
    survives `DocBin(store_user_data=True)` and `Doc.to_disk`. So does the original text, which is
    the Doc's own.
    """
    Doc.set_extension(DEIDENTIFIED, getter=_get_deidentified, setter=_set_replaced, force=True)


def _get_deidentified(doc: Doc) -> Deidentified | None:
    replaced = doc.user_data.get(DEIDENTIFIED)
    return None if replaced is None else Deidentified(doc.text, replaced)


def _set_replaced(doc: Doc, replaced: Iterable[tuple[int, int, str, str]]) -> None:
    doc.user_data[DEIDENTIFIED] = list(replaced)


register_extensions()
