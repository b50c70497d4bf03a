"""Texts of one part of a corpus that also occur in another part, completely or as a sentence."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Words = tuple[str, ...]
Reason = Literal["text", "id", "sentence"]

# Shorter sentences ("No adverse effects were seen.") occur in unrelated texts.
LEAST_WORDS = 8
# Documents with the same number are one abstract if they share this part of their distinct words.
LEAST_SHARE = 0.5

_WORD = re.compile(r"[^\W_]+")
_PUBMED_ID = re.compile(r"(?:PMID)?[ :_-]?([1-9]\d{4,8})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownText:
    """The properties by which a document is recognised; words are normalised.

    `pubmed_id` is the document's id, if it is one of PubMed.
    """

    corpus: str
    pubmed_id: str | None
    words: Words
    sentences: tuple[Words, ...]

    def is_text_of(self, other: "KnownText") -> bool:
        """Whether both have the same words, and enough words to decide."""
        return self.words == other.words and len(self.words) >= LEAST_WORDS

    def is_abstract_of(self, other: "KnownText") -> bool:
        """Whether both have the same PubMed id, and enough common words."""
        if self.pubmed_id is None or self.pubmed_id != other.pubmed_id:
            return False
        own, others = set(self.words), set(other.words)
        return len(own & others) >= LEAST_SHARE * min(len(own), len(others))


def normalise_words(text: str) -> Words:
    """Split a text into words in lower case, without the spaces and signs between them."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def find_pubmed_id(document_id: str) -> str | None:
    """Find the PubMed id, such as `12345678`, in a document's id; None if there is none."""
    match = _PUBMED_ID.fullmatch(document_id.strip())
    return match.group(1) if match else None


def find_repeats(texts: Sequence[KnownText], held_out: Sequence[KnownText]) -> list[Reason | None]:
    """Find texts that must not be used together with held-out texts.

    Returns:
        for each text the reason, or None. "text": a held-out text has the same words. "id": a
        held-out text is the same abstract, by its number. "sentence": a held-out text of another
        corpus has a sentence that occurs in the text, or the other way round (for corpora that are
        published as sentences).
    """
    reasons: list[Reason | None] = [None] * len(texts)
    by_sentence = {(whole, part) for part, whole in _find_standing(held_out, texts)}
    for one, other in by_sentence.union(_find_standing(texts, held_out)):
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
    """Texts by their words and by their PubMed ids."""

    def __init__(self, texts: Iterable[KnownText] = ()):
        self._by_key: dict[Words | str | None, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            self.add(number, text)

    def add(self, number: int, text: KnownText) -> None:
        """Add a text under a number."""
        for key in _keys(text):
            self._by_key[key].append(number)

    def candidates(self, text: KnownText) -> list[int]:
        """Numbers of the texts with the same words or the same PubMed id, in order."""
        return sorted({number for key in _keys(text) for number in self._by_key.get(key, ())})


def _keys(text: KnownText) -> list[Words | str | None]:
    return [key for key in (text.words, text.pubmed_id) if key]


def _find_standing(
    parts: Sequence[KnownText], wholes: Sequence[KnownText]
) -> Iterator[tuple[int, int]]:
    """Yield (part, whole) for each sentence of a part that occurs in a whole text."""
    by_beginning: dict[Words, list[tuple[Words, int]]] = defaultdict(list)
    for number, text in enumerate(parts):
        for sentence in text.sentences:
            if len(sentence) >= LEAST_WORDS:
                by_beginning[sentence[:LEAST_WORDS]].append((sentence, number))
    for whole, text in enumerate(wholes):
        for start in range(len(text.words) - LEAST_WORDS + 1):
            for sentence, part in by_beginning.get(text.words[start : start + LEAST_WORDS], ()):
                if text.words[start : start + len(sentence)] == sentence:
                    yield part, whole
