"""`doc._.deidentified`: a text without personal data, and the mapping of its offsets."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from spacy.tokens import Doc

from .document_keys import declare_extension, get_user_data

DEIDENTIFIED = "deidentified"
# The key in `doc.user_data`, as spaCy names the values of extensions of a whole document.
_KEY = ("._.", DEIDENTIFIED, None, None)

Spans = list[tuple[int, int]]


class Replacement(NamedTuple):
    """A mention and its replacement; offsets in characters, ends exclusive.

    Attributes:
        start, end: offsets of the mention in the document's text.
        new_start, new_end: offsets of the replacement in the new text.
        label: label of the mention.
        text: the replacement, which may equal the mention: an age that stays, or by chance.
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
        original: the original text.
        replaced: (start, end, label, replacement) of each mention; disjoint, not empty, in order.

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
        self.original = original
        self.replacements: list[Replacement] = []
        pieces, last, length = [], 0, 0
        for start, end, label, text in replaced:
            pieces += [original[last:start], text]
            new_start = length + start - last
            length = new_start + len(text)
            self.replacements.append(Replacement(start, end, new_start, length, label, text))
            last = end
        self.text = "".join([*pieces, original[last:]])
        # The corresponding spans in both texts, with the beginning of the texts as the first.
        self._old = [(0, 0), *((item.start, item.end) for item in self.replacements)]
        self._new = [(0, 0), *((item.new_start, item.new_end) for item in self.replacements)]

    def offset_to_new(self, offset: int) -> int:
        """Map an offset in the original text to the new text.

        An offset inside a mention becomes the start of its replacement.
        """
        return _move(offset, self._old, self._new, to_end=False)

    def offset_to_original(self, offset: int) -> int:
        """Map an offset in the new text to the original text; the reverse of `offset_to_new`."""
        return _move(offset, self._new, self._old, to_end=False)

    def span_to_new(self, start: int, end: int) -> tuple[int, int]:
        """Map a span of the original text to the new text, with all replacements it overlaps."""
        return self.offset_to_new(start), _move(end, self._old, self._new, to_end=True)

    def span_to_original(self, start: int, end: int) -> tuple[int, int]:
        """Map a span of the new text to the original text; the reverse of `span_to_new`."""
        return self.offset_to_original(start), _move(end, self._new, self._old, to_end=True)


def _move(offset: int, spans: Spans, others: Spans, *, to_end: bool) -> int:
    """Map an offset to another text, in which disjoint `spans`, in order, are `others`.

    One inside a span becomes the start, or with `to_end` the end, of the other span.
    """
    # If two spans touch at the offset, both give the same result.
    index = bisect_right(spans, offset, key=lambda span: span[0]) - 1
    (start, end), (other_start, other_end) = spans[index], others[index]
    if offset >= end:
        return other_end + offset - end
    return other_end if to_end and offset > start else other_start


def _get_deidentified(doc: Doc) -> Deidentified | None:
    replaced = get_user_data(doc).get(_KEY)
    return None if replaced is None else Deidentified(doc.text, replaced)


def _set_replaced(doc: Doc, replaced: Iterable[tuple[int, int, str, str]]) -> None:
    get_user_data(doc)[_KEY] = list(replaced)


# `doc._.deidentified`: a `Deidentified`; None if `biomed_deidentify` has not run. Only the
# replacements are stored, in `doc.user_data`, which `DocBin(store_user_data=True)` keeps.
declare_extension(DEIDENTIFIED, _get_deidentified, _set_replaced)
