"""The report on a cleaned corpus: counts by source and by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from .deduplication import NearDuplicates
from .sentence_filters import RULES, Thresholds

OTHER_LANGUAGE, NO_STOP_WORDS = "other_language", "no_stop_words"
DUPLICATE, NEAR_DUPLICATE = "duplicate", "near_duplicate"
OF_OTHER_SOURCE = "_of_other_source"
IN_DUPLICATE = "in_duplicate_document"
NO_SENTENCE_LEFT = "no_sentence_left"

# Reasons to remove sentences and documents, in the order in which they are checked.
SENTENCE_REASONS = (
    *RULES,
    OTHER_LANGUAGE,
    NO_STOP_WORDS,
    IN_DUPLICATE,
    DUPLICATE,
    DUPLICATE + OF_OTHER_SOURCE,
)
DOCUMENT_REASONS = (
    *(kind + source for kind in (DUPLICATE, NEAR_DUPLICATE) for source in ("", OF_OTHER_SOURCE)),
    NO_SENTENCE_LEFT,
)


# The keys of the report as JSON.
REPORT_KEYS = {"settings", "sources", "total"}


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """How to clean a corpus.

    Attributes:
        lang: code of the language to keep.
    """

    lang: str
    thresholds: Thresholds = Thresholds()
    near_duplicates: NearDuplicates = NearDuplicates()


@dataclass(slots=True)
class Account:
    """Counts of the input, the output, and what was removed. Words are separated by white space.

    Attributes:
        documents_in, documents_out, sentences_in, sentences_out, words_in, words_out: counts before
            and after cleaning.
        removed_documents, removed_sentences: by reason; see `DOCUMENT_REASONS`, `SENTENCE_REASONS`.
            Sentences of a duplicate document count as `in_duplicate_document`.
    """

    documents_in: int = 0
    documents_out: int = 0
    sentences_in: int = 0
    sentences_out: int = 0
    words_in: int = 0
    words_out: int = 0
    removed_documents: Counter[str] = field(default_factory=Counter)
    removed_sentences: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Account) -> Account:
        names = self.__slots__
        return Account(*(getattr(self, name) + getattr(other, name) for name in names))

    def to_json(self) -> dict[str, dict[str, Any]]:
        documents, sentences = self.removed_documents, self.removed_sentences
        return {
            "documents": {
                "in": self.documents_in,
                "out": self.documents_out,
                "removed": {reason: documents[reason] for reason in DOCUMENT_REASONS},
            },
            "sentences": {
                "in": self.sentences_in,
                "out": self.sentences_out,
                "removed": {reason: sentences[reason] for reason in SENTENCE_REASONS},
            },
            "words": {"in": self.words_in, "out": self.words_out},
        }


@dataclass(slots=True)
class CleaningReport:
    """The counts of each source by name, and the settings of the cleaning."""

    settings: CleaningSettings
    sources: dict[str, Account]

    @property
    def total(self) -> Account:
        return sum(self.sources.values(), Account())

    def to_json(self) -> dict[str, object]:
        """The report, with `REPORT_KEYS`."""
        return {
            "settings": asdict(self.settings),
            "sources": {name: account.to_json() for name, account in self.sources.items()},
            "total": self.total.to_json(),
        }
