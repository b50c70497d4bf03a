"""Texts that mark the two arguments of a relation: marking arguments, and finding them."""

import re
from typing import Literal, NamedTuple

Style = Literal["tags", "marks"]

# As in the published sentences of ChemProt: the head in << >>, the tail in [[ ]].
MARKS = (("<< ", " >>"), ("[[ ", " ]]"))
_MARKED = tuple(
    re.compile(f"{re.escape(opening)}(.+?){re.escape(closing)}") for opening, closing in MARKS
)
_TAG = re.compile(r"@([\w-]+)\$")
# Tags of BLUE and BLURB for two arguments that share words.
_SHARED_TAGS = {"CHEM-GENE": ("CHEMICAL", "GENE"), "DRUG-DRUG": ("DRUG", "DRUG")}


class Argument(NamedTuple):
    """An argument of a relation, in characters, the end exclusive; its label is "" if unknown."""

    start: int
    end: int
    label: str


def find_marked_arguments(text: str) -> tuple[Argument, Argument] | None:
    """Find the head and the tail in a text that marks them; None if it does not.

    Either the head is in `<< >>` and the tail in `[[ ]]`; then their types are unknown, and their
    offsets exclude the marks. Or tags such as @GENE$ replace the arguments; then the head is the
    first tag, and the tail is the first tag of another type, or else the second tag. A single tag
    @CHEM-GENE$ or @DRUG-DRUG$ is both arguments.

    Examples:
        >>> find_marked_arguments("<< Aspirin >> inhibits [[ COX-1 ]].")
        (Argument(start=3, end=10, label=''), Argument(start=26, end=31, label=''))
        >>> find_marked_arguments("@CHEMICAL$ inhibits @GENE$.")
        (Argument(start=0, end=10, label='CHEMICAL'), Argument(start=20, end=26, label='GENE'))
        >>> find_marked_arguments("An @CHEM-GENE$.")
        (Argument(start=3, end=14, label='CHEMICAL'), Argument(start=3, end=14, label='GENE'))
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
    if len(tags) == 1 and tags[0].label in _SHARED_TAGS:
        head, tail = (tags[0]._replace(label=label) for label in _SHARED_TAGS[tags[0].label])
        return head, tail
    if len(tags) < 2:
        return None
    head = tags[0]
    return head, next((tag for tag in tags if tag.label != head.label), tags[1])


def mark_arguments(
    text: str, head: Argument, tail: Argument, style: Style, window: tuple[int, int]
) -> str:
    """Cut a window out of a text, with two arguments marked or replaced by tags.

    The tags are those of Peng et al. 2020, "An Empirical Study of Multi-Task Learning on BERT for
    Biomedical Text Mining", section 3.2.

    Args:
        head, tail: arguments in the window. Marks cannot show two that share words; a tag such as
            @DRUG-DRUG$ does.
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
    ordered = sorted(zip((head, tail), MARKS, strict=True))
    (first, _), (second, _) = ordered
    if style == "tags" and second.start < first.end:
        types = {labels: tag for tag, labels in _SHARED_TAGS.items()}
        tag = types.get((first.label, second.label)) or types.get((second.label, first.label))
        tag = tag or f"{first.label}-{second.label}"
        return f"{text[start : first.start]}@{tag}${text[max(first.end, second.end) : end]}"
    pieces = []
    for argument, (opening, closing) in ordered:
        marked = f"{opening}{text[argument.start : argument.end]}{closing}"
        shown = f"@{argument.label}$" if style == "tags" else marked
        pieces += [text[start : argument.start], shown]
        start = argument.end
    return "".join([*pieces, text[start:end]])
