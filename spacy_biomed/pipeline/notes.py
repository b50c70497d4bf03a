"""Rules for notes: `biomed_sentences`, `biomed_sections` and `biomed_context`."""

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from spacy.attrs import IDX, IS_SPACE, LOWER, SENT_START
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.strings import get_string_id
from spacy.tokens import Doc, Span
from spacy.util import SimpleFrozenDict

from ..annotations.assertions import ASSERTIONS, install_assertions, set_assertions
from ..annotations.sections import SECTIONS, get_section, install_section
from ..annotations.seen_mentions import mentions_of
from ..deidentification.phi_kinds import KINDS_OF_LABELS
from ..errors import BiomedError
from ..normalization import get_text
from ..notes.cues import AFFIRMED, CURRENT, OF_CONDITIONS, OWN, PLAN, CueMatcher, parse_group
from ..notes.headings import Heading, find_headings, key_of, read_headings
from ..notes.sentence_starts import find_sentence_starts
from ..notes.term_files import NOTE_LANGUAGES, read_groups
from .described import Described
from .factories import register_factory

# Labels of findings and diseases: only these are history where a section is.
CONDITIONS = (
    *("DISEASE", "DISORDER", "DIAGNOSTICO", "MORFOLOGIA_NEOPLASIA", "CONDITION", "PROBLEM"),
    *("DISO", "ENFERMEDAD", "SINTOMA", "SYMPTOM", "SIGN", "FINDING"),
)
# Labels of what may prevent a condition, or is taken for it.
TREATMENTS = frozenset(
    ("CHEMICAL", "DRUG", "FARMACO", "MEDICATION", "TREATMENT", "PROCEDURE", "PROCEDIMIENTO")
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
# A tab is between cells, as a bar is.
_TAB, _CELL_END = get_string_id("\t"), get_string_id("|")
# Section: the category of all its mentions.
SECTION_CATEGORIES = {"family_history": "family", "past_history": "historical"}
# A list below a line that ends with a colon: items with a bullet or a number, or short lines. What
# the line says of its end, of these categories, is said of the items: "Denies:", "Call if:".
_LIST = re.compile(
    r":[ \t]*\r?(?:\n[ \t]*(?:(?:[-*•·–—○◦▪]|\d{1,2}[.)])[^\n]*[^\s:]"
    r"|(?=[^\n]*[a-z])[^\s:.][^\n:.]{1,60})[ \t]*\r?(?=\n|\Z))+"
)
# A code in parentheses: "Pneumonia (J18.9) resolved".
_CODE = re.compile(r"\([^()\n]{0,10}\b[A-Z]\d\d[\dA-Z.]{0,5}\)")
# Boxes, the first two empty; an empty one in a line that ends with a box.
_BOXES, _BOX_AFTER = [get_string_id(one) for one in "☐□☑☒"], get_string_id("▢")
_LIST_BEGIN = get_string_id(":\n")
_OF_LISTS = {"negated", "uncertain", "hypothetical", "differential"}


class BiomedSentences(Described, Pipe):
    """Divide notes and other texts into sentences, by rules.

    In notes, a sentence often ends without a full stop: at the end of its line, list item, heading
    or table row. Where a text has wrapped lines, their ends do not count
    (`notes.find_sentence_starts` has the rules). The time is linear in the length of the text.

    Relations, and everything else that reads `doc.sents`, keep to these sentences. Put the
    component before them.

    Attributes:
        language: "en" or "es", for the abbreviations; by default the pipeline's.
        nlp: the pipeline of the component; None to use it alone.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> sentences = nlp.add_pipe("biomed_sentences")
        >>> doc = nlp("Allergies: penicillin\\nSeen by Dr. Lee. Aspirin 81 mg q.d. with food")
        >>> [sentence.text.strip() for sentence in doc.sents]
        ['Allergies: penicillin', 'Seen by Dr. Lee.', 'Aspirin 81 mg q.d. with food']
    """

    default_name, languages = "biomed_sentences", NOTE_LANGUAGES

    def __init__(
        self,
        name: str = "biomed_sentences",
        *,
        language: Literal["en", "es"] | None = None,
        nlp: Language | None = None,
    ):
        self.name = name
        self._language = choose_language(name, language, nlp)

    def __call__(self, doc: Doc) -> Doc:
        """Set `token.is_sent_start` of all tokens."""
        if len(doc):
            starts = find_sentence_starts(get_text(doc), self._language)
            # A sentence that starts inside a token starts with the next one.
            first = np.searchsorted(doc.to_array(IDX), np.array(starts, dtype="uint64"))
            marks = np.full(len(doc) + 1, -1, dtype="int64")
            marks[first] = marks[0] = 1
            doc.from_array([SENT_START], marks[:-1].view("uint64"))
        return doc


make_biomed_sentences = register_factory(
    "biomed_sentences", BiomedSentences, assigns=["token.is_sent_start", "doc.sents"]
)


class BiomedSections(Described, Pipe):
    """Find the sections of notes and abstracts by their headings.

    `doc.spans["sections"]` gets a span for each section, from its heading to the next one. The
    span's label is the section's name, the same in all languages: `past_history`, `family_history`,
    `allergies`, `medications` and others (`spacy_biomed/notes/terms/`). A section whose heading is
    in no table is "other", and so is what follows the paragraph of a heading within a line.
    `span._.section` is the name of the section that a span starts in.

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

    default_name, languages = "biomed_sections", NOTE_LANGUAGES

    def __init__(
        self,
        name: str = "biomed_sections",
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
    "biomed_sections", BiomedSections, assigns=["doc.spans", "span._.section"]
)


def _find_span(doc: Doc, start: int, stop: int, section: str) -> Span:
    """The tokens of a section, without white space at its end."""
    span = doc.char_span(start, stop, section, alignment_mode="expand")
    assert span is not None  # a heading has a letter
    end = span.end
    while doc[end - 1].is_space:
        end -= 1
    return Span(doc, span.start, end, section)


class BiomedContext(Described, Pipe):
    """Say of each entity whether it is negated, uncertain, past, hypothetical, or of a relative.

    The rules are those of NegEx and ConText (`notes.CueMatcher`): cues such as "no evidence of" or
    "descartado", how far they reach, and what ends their scope. The terms are in
    `spacy_biomed/notes/terms/`. Entities in a section of family history are of a relative, and
    the patient's conditions in one of past history are past, if `biomed_sections` is before this
    component. A component that sets sentences has to be before this one.

    Declares `span._.is_negated`, `is_uncertain`, `is_historical`, `is_hypothetical` and
    `is_family`: True or False, None for spans that were not looked at. The probabilities in
    `span._.assertion_probabilities` are measured shares: how often the rules are right.

    Attributes:
        language: "en" or "es", for the terms; by default the pipeline's.
        spans_key: span group of the entities; None for `doc.ents`.
        labels: labels of the entities to look at; None for all.
        cues: more terms by group, such as "uncertain backward 3" (`notes.cues.parse_group`). A term
            that exists already moves to the new group.
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

    default_name, languages = "biomed_context", NOTE_LANGUAGES

    def __init__(
        self,
        name: str = "biomed_context",
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

    def __call__(self, doc: Doc) -> Doc:
        """Set the assertions of the entities."""
        spans = mentions_of(doc, self._spans_key)
        looked_at = [one for one in spans if self._labels is None or one.label_ in self._labels]
        if looked_at:
            if len(doc) > 1 and not doc.has_annotation("SENT_START"):
                raise BiomedError(
                    f"[components.{self.name}] no component has set sentences: add "
                    "biomed_sentences before it"
                )
            self._look(doc, sorted(looked_at))
        return doc

    @cached_property
    def _matcher(self) -> CueMatcher:  # made late, when the tokenizer is the final one
        divide = self.nlp.tokenizer
        return CueMatcher(self._groups, self._own, lambda term: [one.text for one in divide(term)])

    def _look(self, doc: Doc, spans: Sequence[Span]) -> None:
        words, starts, is_space = doc.to_array([LOWER, SENT_START, IS_SPACE]).T
        sentences = np.cumsum(starts == 1)
        is_tab = words == _TAB
        words[is_tab] = _CELL_END
        lists = _find_lists(doc)
        words[list(lists)] = _LIST_BEGIN
        is_word = (is_space == 0) | is_tab
        for code in _CODE.finditer(get_text(doc)):
            span = _find_span(doc, *code.span(), "")
            is_word[span.start : span.end] = False
        places = [0, *np.cumsum(is_word).tolist()]
        looked_at = sorted([*spans, *(doc[place : place + 1] for place in lists)])
        mentions = [(places[span.start], places[span.end]) for span in looked_at]
        pairs = zip(mentions, looked_at, strict=True)
        taken = [one for one, span in pairs if KINDS_OF_LABELS.get(span.label_, "keep") == "keep"]
        words, sentences = words[is_word], sentences[is_word]
        is_last = np.append(np.diff(sentences) != 0, True)
        is_after = np.isin(sentences, sentences[is_last & np.isin(words, _BOXES)])
        words[is_after & np.isin(words, _BOXES[:2])] = _BOX_AFTER
        found = self._matcher.find(words.tolist(), sentences.tolist(), mentions, taken)
        of_items: tuple[int, set[str]] = (0, set())  # the end of a list, and what is said of it
        for span, categories in zip(looked_at, found, strict=True):
            if span.start in lists:
                of_items = lists[span.start], categories & _OF_LISTS
                continue
            if span.start_char < of_items[0] and not categories & _OF_LISTS:
                categories |= of_items[1]
            if span.label_ not in TREATMENTS:
                categories |= {OF_CONDITIONS[one] for one in categories if one in OF_CONDITIONS}
            else:
                if CURRENT in categories:
                    categories.discard("historical")
                if PLAN in categories and "negated" not in categories:
                    categories.discard("uncertain")
                    categories.add("hypothetical")
            category = SECTION_CATEGORIES.get(get_section(span) or "")
            if category == "family" and OWN in categories:
                category = None
            categories.difference_update(OF_CONDITIONS, {CURRENT, PLAN, OWN, AFFIRMED})
            is_past = "family" not in categories and span.label_ in self._conditions
            if category == "family" or (category and is_past):
                categories.add(category)
            if "family" in categories:
                categories.discard("historical")
            marked = {f"is_{one}": self._probabilities[one][1] for one in categories}
            set_assertions(span, self._absent | marked if marked else self._absent)


make_biomed_context = register_factory(
    "biomed_context", BiomedContext, assigns=[f"span._.{name}" for name in ASSERTIONS]
)


def _find_lists(doc: Doc) -> dict[int, int]:
    """The colons before lists, as tokens, with the end of each list in characters."""
    found = {one.start(): one.end() for one in _LIST.finditer(get_text(doc))}
    tokens = np.searchsorted(doc.to_array(IDX), np.array([*found], dtype="uint64"))
    return dict(zip(tokens.tolist(), found.values(), strict=True))


def choose_language(name: str, language: str | None, nlp: Language | None) -> str:
    """The language of a component's rules: the given one, or the pipeline's."""
    chosen = language or (nlp.lang if nlp is not None else None) or "en"
    if chosen not in NOTE_LANGUAGES:
        raise BiomedError(
            f"[components.{name}] there are no rules for the language {chosen}: leave the "
            f"component out, or set language to {' or '.join(NOTE_LANGUAGES)}"
        )
    return chosen
