"""`doc.spans["sections"]` and `span._.section`: the sections of a note."""

from bisect import bisect_right

from spacy.tokens import Span

from ..errors import BiomedError
from .document_keys import declare_extension

SECTIONS = "sections"
SECTION = "section"


def install_section() -> None:
    """Declare `span._.section`: the name of the section that a span starts in.

    It is None before the first heading, and where nobody looked for sections.
    """
    declare_extension(SECTION, get_section, on=Span)


def get_section(span: Span) -> str | None:
    """`span._.section`, without the time that `span._` takes."""
    sections = span.doc.spans.get(SECTIONS)
    if not sections:
        return None
    try:
        place = bisect_right(sections, span.start_char, key=lambda one: one.start_char)
    except IndexError as error:  # the retokenizer leaves span groups as they are
        raise BiomedError("tokens were merged: do that before biomed_sections") from error
    return sections[place - 1].label_ if place else None
