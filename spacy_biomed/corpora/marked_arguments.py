"""Texts that show the two arguments of a relation: how they are marked, and how they are found."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Style = Literal["tags", "marks"]
STYLES: tuple[Style, ...] = ("tags", "marks")

# As ChemProt's sentences are passed on: the head in << >>, the tail in [[ ]].
MARKS = (("<< ", " >>"), ("[[ ", " ]]"))
_MARKED = tuple(
    re.compile(f"{re.escape(opening)}(.+?){re.escape(closing)}") for opening, closing in MARKS
)
_TAG = re.compile(r"@([\w-]+)\$")


class Argument(NamedTuple):
    """One of the two things that a relation relates.

    Attributes:
        start, end: half-open character offsets.
        label: its type, or "" where nothing tells it.
    """

    start: int
    end: int
    label: str


def find_marked_arguments(text: str) -> tuple[Argument, Argument] | None:
    """The head and the tail of a text that shows them; None where a text does not.

    Either one argument is in `<< >>` and one in `[[ ]]`, which are the head and the tail, without
    their types and without the marks; or tags as @GENE$ stand in their places, and the first one is
    the head and the first after it of another type (else the second one) the tail.

    >>> find_marked_arguments("<< Aspirin >> inhibits [[ COX-1 ]].")
    (Argument(start=3, end=10, label=''), Argument(start=26, end=31, label=''))
    >>> find_marked_arguments("@CHEMICAL$ inhibits @GENE$.")
    (Argument(start=0, end=10, label='CHEMICAL'), Argument(start=20, end=26, label='GENE'))
    """
    return _find_marks(text) or _find_tags(text)


def _find_marks(text: str) -> tuple[Argument, Argument] | None:
    if any(text.count(opening) != 1 for opening, _ in MARKS):
        return None
    head, tail = (pattern.search(text) for pattern in _MARKED)
    if head is None or tail is None:
        return None
    return Argument(*head.span(1), ""), Argument(*tail.span(1), "")


def _find_tags(text: str) -> tuple[Argument, Argument] | None:
    tags = [Argument(*tag.span(), tag.group(1)) for tag in _TAG.finditer(text)]
    if len(tags) < 2:
        return None
    head = tags[0]
    return head, next((tag for tag in tags if tag.label != head.label), tags[1])


def mark_arguments(
    text: str, head: Argument, tail: Argument, style: Style, window: tuple[int, int]
) -> str:
    """Cut a window out of a text, with two arguments marked, or tags in their places.

    Tags are those of Peng et al. 2020, "An Empirical Study of Multi-Task Learning on BERT for
    Biomedical Text Mining", section 3.2.

    Args:
        head, tail: arguments in the window that share no character.
        window: half-open character offsets.

    Examples:
        >>> text = "Aspirin works. It inhibits COX-1. Always."
        >>> arguments = Argument(15, 17, "CHEMICAL"), Argument(27, 32, "GENE")
        >>> mark_arguments(text, *arguments, "tags", (15, 33))
        '@CHEMICAL$ inhibits @GENE$.'
        >>> mark_arguments(text, *arguments, "marks", (15, 33))
        '<< It >> inhibits [[ COX-1 ]].'
    """
    start, end = window
    (first, first_marks), (second, second_marks) = sorted(zip((head, tail), MARKS, strict=True))
    return "".join(
        (
            text[start : first.start],
            _show(text, first, first_marks, style),
            text[first.end : second.start],
            _show(text, second, second_marks, style),
            text[second.end : end],
        )
    )


def _show(text: str, argument: Argument, marks: tuple[str, str], style: Style) -> str:
    if style == "tags":
        return f"@{argument.label}$"
    opening, closing = marks
    return f"{opening}{text[argument.start : argument.end]}{closing}"
