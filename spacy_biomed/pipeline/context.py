"""The component `biomed_context`: what a text says of its mentions, by rules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import numpy as np
from spacy.attrs import IS_SPACE, LOWER, SENT_START
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import SimpleFrozenDict

from ..annotations.assertions import ASSERTIONS, install_assertions, set_assertions
from ..annotations.sections import SECTIONS, install_section
from ..errors import BiomedError
from ..notes.cues import CueMatcher, parse_group
from ..notes.term_files import NOTE_LANGUAGES, read_groups
from .described import Described
from .factories import register_factory
from .sentences import choose_language

FACTORY = "biomed_context"

# Labels of findings and diseases: only these are history where a section is.
CONDITIONS = (
    *("DISEASE", "DISORDER", "DIAGNOSTICO", "MORFOLOGIA_NEOPLASIA", "CONDITION", "PROBLEM"),
    *("DISO", "ENFERMEDAD", "SINTOMA", "SYMPTOM", "SIGN", "FINDING"),
)
# By category, the share of mentions of which it is true: of those without a cue, of those with one
# (measured, see docs/notes.md).
_SHARES = {
    "uncertain": (0.01, 0.60),
    "historical": (0.05, 0.88),
    "hypothetical": (0.01, 0.95),
    "family": (0.01, 0.91),
}
PROBABILITIES = {
    "en": {"negated": (0.01, 0.98), **_SHARES},
    "es": {"negated": (0.02, 0.85), **_SHARES},
}
# Section: the category of all its mentions.
SECTION_CATEGORIES = {"family_history": "family", "past_history": "historical"}


class BiomedContext(Described, Pipe):
    """Say of each entity whether it is negated, uncertain, past, hypothetical, or of a relative.

    The rules are those of NegEx and ConText (`notes.CueMatcher`): cues such as "no evidence of" or
    "descartado", how far they reach, and what ends their scope. The terms are in
    `spacy_biomed/notes/terms/`. Entities in a section of family history are of a relative, and
    the patient's conditions in one of past history are past, if `biomed_sections` is before this
    component.

    A component that sets sentences has to be before this one: `biomed_sentences`, or another.

    Declares `span._.is_negated`, `is_uncertain`, `is_historical`, `is_hypothetical` and
    `is_family`: True or False, None for spans that were not looked at. The probabilities in
    `span._.assertion_probabilities` are measured shares: how often the rules are right.

    Attributes:
        language: "en" or "es", for the terms; by default the pipeline's.
        spans_key: span group of the entities; None for `doc.ents`.
        labels: labels of the entities to look at; None for all.
        cues: more terms by group: "negated forward", "uncertain backward 3", "stop", "none" and so
            on (`notes.cues.parse_group`). A term that exists already moves to the new group.
        conditions: labels that are history in a section of past history; by default `CONDITIONS`.
        nlp: the pipeline of the component, whose tokenizer divides the terms.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> sentences = nlp.add_pipe("biomed_sentences")
        >>> ruler = nlp.add_pipe("entity_ruler")
        >>> ruler.add_patterns([{"label": "DISEASE", "pattern": "metastasis"}])
        >>> context = nlp.add_pipe("biomed_context")
        >>> nlp("No evidence of metastasis.").ents[0]._.is_negated
        True
    """

    default_name, languages = FACTORY, NOTE_LANGUAGES

    def __init__(
        self,
        name: str = FACTORY,
        *,
        language: Literal["en", "es"] | None = None,
        spans_key: str | None = None,
        labels: list[str] | None = None,
        cues: dict[str, list[str]] = SimpleFrozenDict(),
        conditions: list[str] | None = None,
        nlp: Language,
    ):
        install_assertions()
        install_section()
        self.name = name
        self.nlp = nlp
        self._spans_key = spans_key
        self._labels = None if labels is None else frozenset(labels)
        self._conditions = frozenset(CONDITIONS if conditions is None else conditions)
        try:
            for group in cues:
                parse_group(group)
        except BiomedError as error:
            raise BiomedError(f"[components.{name}] {error}") from error
        chosen = choose_language(name, language, nlp)
        self._groups = read_groups(chosen, "cues")
        self._probabilities = PROBABILITIES[chosen]
        self._absent = {f"is_{name}": absent for name, (absent, _) in self._probabilities.items()}
        self._own = dict(cues)
        self._matcher: CueMatcher | None = None

    def __call__(self, doc: Doc) -> Doc:
        """Set the assertions of the entities."""
        spans = doc.ents if self._spans_key is None else doc.spans.get(self._spans_key, ())
        looked_at = [one for one in spans if self._labels is None or one.label_ in self._labels]
        if looked_at:
            if len(doc) > 1 and not doc.has_annotation("SENT_START"):
                raise BiomedError(
                    f"[components.{self.name}] no component has set sentences: add "
                    "biomed_sentences before it"
                )
            self._look(doc, sorted(looked_at) if self._spans_key else looked_at)
        return doc

    def _look(self, doc: Doc, spans: Sequence[Span]) -> None:
        if self._matcher is None:  # the tokenizer is the final one only now
            self._matcher = CueMatcher(
                self._groups,
                self._own,
                lambda term: [token.text for token in self.nlp.tokenizer(term)],
            )
        words = doc.to_array([LOWER, SENT_START, IS_SPACE])
        sentences = np.cumsum(words[:, 1] == 1)
        is_word = words[:, 2] == 0
        places = [0, *np.cumsum(is_word).tolist()]
        mentions = [(places[span.start], places[span.end]) for span in spans]
        found = self._matcher.find(
            words[is_word, 0].tolist(), sentences[is_word].tolist(), mentions
        )
        self._read_sections(doc, spans, found)
        for span, categories in zip(spans, found, strict=True):
            marked = {f"is_{one}": self._probabilities[one][1] for one in categories}
            set_assertions(span, self._absent | marked if marked else self._absent)

    def _read_sections(self, doc: Doc, spans: Sequence[Span], found: Sequence[set[str]]) -> None:
        """Add the categories that the sections give."""
        sections = doc.spans.get(SECTIONS, ())
        given = [SECTION_CATEGORIES.get(section.label_) for section in sections]
        if not any(given):
            return
        starts = [section.start for section in sections]
        for span, categories in zip(spans, found, strict=True):
            place = bisect_right(starts, span.start)
            category = given[place - 1] if place else None
            is_past = "family" not in categories and span.label_ in self._conditions
            if category == "family" or (category and is_past):
                categories.add(category)


make_biomed_context = register_factory(
    FACTORY,
    BiomedContext,
    assigns=[f"span._.{name}" for name in ASSERTIONS],
)
