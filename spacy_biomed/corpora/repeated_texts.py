"""Which texts of one part of a corpus stand in another part, in whole or with a sentence."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Words = tuple[str, ...]
Reason = Literal["text", "id", "sentence"]

# Shorter sentences ("No adverse effects were seen.") stand in texts that have nothing in common.
LEAST_WORDS = 8
# Documents with the same number are one abstract if they share so many of their different words.
LEAST_SHARE = 0.5

_WORD = re.compile(r"[^\W_]+")
_PUBMED_ID = re.compile(r"(?:PMID)?[ :_-]?([1-9]\d{4,8})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownText:
    """What a document is recognised by.

    Attributes:
        corpus: its name.
        pubmed_id: where the document's id is such a number, else None.
        words: normalised (`normalise_words`).
        sentences: the same of each sentence.
    """

    corpus: str
    pubmed_id: str | None
    words: Words
    sentences: tuple[Words, ...]

    def is_text_of(self, other: KnownText) -> bool:
        """Whether both have the same words, and enough of them to tell."""
        return self.words == other.words and len(self.words) >= LEAST_WORDS

    def is_abstract_of(self, other: KnownText) -> bool:
        """Whether both have the same number, and words to go with it."""
        if self.pubmed_id is None or self.pubmed_id != other.pubmed_id:
            return False
        own, others = set(self.words), set(other.words)
        return len(own & others) >= LEAST_SHARE * min(len(own), len(others))


def normalise_words(text: str) -> Words:
    """The words of a text in small letters, however it writes spaces and signs between them."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def find_pubmed_id(document_id: str) -> str | None:
    """The number in a document's id, where that is one of PubMed's, as `12345678`."""
    match = _PUBMED_ID.fullmatch(document_id.strip())
    return match.group(1) if match else None


def find_repeats(texts: Sequence[KnownText], held_out: Sequence[KnownText]) -> list[Reason | None]:
    """Tell of each text why it is not to stand beside those held out; None where it may.

    "text": one of those held out has the same words. "id": or is the same abstract by its number.
    "sentence": one of another corpus has a sentence that stands in the text, or the other way
    round, for corpora that are published in sentences.
    """
    reasons: list[Reason | None] = [None] * len(texts)
    by_sentence = [*_standing_in(held_out, texts), *_standing_in(texts, held_out, is_turned=True)]
    for one, other in by_sentence:
        if texts[one].corpus != held_out[other].corpus:
            reasons[one] = "sentence"
    same = TextIndex(held_out)
    for number, text in enumerate(texts):
        for other in same.candidates(text):
            if text.is_text_of(held_out[other]):
                reasons[number] = "text"
                break
            if text.is_abstract_of(held_out[other]):
                reasons[number] = "id"
    return reasons


class TextIndex:
    """Texts by their words and by their numbers."""

    def __init__(self, texts: Iterable[KnownText] = ()):
        self._by_key: dict[Words | str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            self.add(number, text)

    def add(self, number: int, text: KnownText) -> None:
        """Make a text known as the one of a number."""
        keys: tuple[Words | str | None, ...] = (text.words, text.pubmed_id)
        for key in keys:
            if key:
                self._by_key[key].append(number)

    def candidates(self, text: KnownText) -> list[int]:
        """Numbers of the texts that have its words or its number, in order."""
        found = {*self._by_key.get(text.words, ()), *self._by_key.get(text.pubmed_id or "", ())}
        return sorted(found)


def _standing_in(
    parts: Sequence[KnownText], wholes: Sequence[KnownText], *, is_turned: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield (whole, part) for each sentence of a part that stands in a whole text.

    Args:
        is_turned: yield (part, whole) instead.
    """
    by_beginning: dict[Words, list[tuple[Words, int]]] = defaultdict(list)
    for number, text in enumerate(parts):
        for sentence in text.sentences:
            if len(sentence) >= LEAST_WORDS:
                by_beginning[sentence[:LEAST_WORDS]].append((sentence, number))
    for whole, text in enumerate(wholes):
        for start in range(len(text.words) - LEAST_WORDS + 1):
            for sentence, part in by_beginning.get(text.words[start : start + LEAST_WORDS], ()):
                if text.words[start : start + len(sentence)] == sentence:
                    yield (part, whole) if is_turned else (whole, part)
