"""The component `biomed_sections`: the sections of notes."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import SimpleFrozenDict

from ..annotations.sections import SECTIONS, install_section
from ..normalization import get_text
from ..notes.headings import Heading, find_headings, key_of, read_headings
from ..notes.term_files import NOTE_LANGUAGES
from .described import Described
from .factories import register_factory
from .sentences import choose_language

FACTORY = "biomed_sections"


class BiomedSections(Described, Pipe):
    """Find the sections of notes and abstracts by their headings.

    `doc.spans["sections"]` gets a span for each section, from its heading to the next one. The
    span's label is the section's name, the same in all languages: `past_history`, `family_history`,
    `allergies`, `medications` and others (`spacy_biomed/notes/terms/`). A section whose heading is
    in no table is "other", and so is what follows the paragraph of a heading within a line. What is
    before the first heading is in no section. `span._.section` is the name of the section that a
    span starts in.

    Attributes:
        language: "en" or "es", for the table of headings; by default the pipeline's.
        headings: more headings: the name of a section to its headings. A heading that the table has
            too gets the new section.
        nlp: the pipeline of the component; None to use it alone.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("es")
        >>> more = {"headings": {"travel": ["viajes recientes"]}}
        >>> sections = nlp.add_pipe("biomed_sections", config=more)
        >>> doc = nlp("ALERGIAS: penicilina\\nViajes recientes: ninguno")
        >>> [(section.text, section.label_) for section in doc.spans["sections"]]
        [('ALERGIAS: penicilina', 'allergies'), ('Viajes recientes: ninguno', 'travel')]
        >>> doc[2:3]._.section
        'allergies'
    """

    default_name, languages = FACTORY, NOTE_LANGUAGES

    def __init__(
        self,
        name: str = FACTORY,
        *,
        language: Literal["en", "es"] | None = None,
        headings: dict[str, list[str]] = SimpleFrozenDict(),
        nlp: Language | None = None,
    ):
        install_section()
        self.name = name
        # The layer that it writes, so that it counts as a finder of no other.
        self.cfg = {"spans_key": SECTIONS}
        own = {key_of(one): section for section, names in headings.items() for one in names}
        self._table = {**read_headings(choose_language(name, language, nlp)), **own}

    def __call__(self, doc: Doc) -> Doc:
        """Write `doc.spans["sections"]`."""
        text = get_text(doc)
        end = Heading(len(text), len(text), "")
        doc.spans[SECTIONS] = [
            _find_span(doc, one.start, next.start, one.section)
            for one, next in pairwise([*find_headings(text, self._table), end])
        ]
        return doc


make_biomed_sections = register_factory(
    FACTORY, BiomedSections, assigns=["doc.spans", "span._.section"]
)


def _find_span(doc: Doc, start: int, stop: int, section: str) -> Span:
    """The tokens of a section, without white space at its end."""
    span = doc.char_span(start, stop, section, alignment_mode="expand")
    assert span is not None  # a heading has a letter
    end = span.end
    while doc[end - 1].is_space:
        end -= 1
    return Span(doc, span.start, end, section)
