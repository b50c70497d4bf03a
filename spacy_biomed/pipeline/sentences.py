"""The component `biomed_sentences`: the sentences of notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from spacy.attrs import IDX, SENT_START
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc

from ..errors import BiomedError
from ..normalization import get_text
from ..notes.sentence_starts import find_sentence_starts
from ..notes.term_files import NOTE_LANGUAGES
from .described import Described
from .factories import register_factory

FACTORY = "biomed_sentences"


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

    default_name, languages = FACTORY, NOTE_LANGUAGES

    def __init__(
        self,
        name: str = FACTORY,
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
    FACTORY, BiomedSentences, assigns=["token.is_sent_start", "doc.sents"]
)


def choose_language(
    name: str,
    language: str | None,
    nlp: Language | None,
    known: Sequence[str] = NOTE_LANGUAGES,
    what: str = "rules",
) -> str:
    """The language of a component's rules: the given one, or the pipeline's."""
    chosen = language or (nlp.lang if nlp is not None else None) or "en"
    if chosen not in known:
        raise BiomedError(
            f"[components.{name}] there are no {what} for the language {chosen}: leave the "
            f"component out, or set language to {' or '.join(known)}"
        )
    return chosen
