"""Word pieces of batches of texts in flat arrays, and those of words that occurred before.

A tokenizer like BERT's splits texts at spaces, and no rule of it looks across one. The pieces of a
text are therefore those of what stands between its spaces, which mostly has occurred before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from threading import Lock

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from ...arrays import Ints1d
from .ragged import ranges

# Words and word pieces that are kept, in some 4 MB.
MOST_WORDS, MOST_PIECES = 2**14, 2**16


@dataclass(frozen=True, slots=True)
class WordPieces:
    """The word pieces of a batch of texts, without special tokens, concatenated.

    Attributes:
        ids: (pieces,) vocabulary ids.
        starts, ends: (pieces,) half-open character offsets of each piece in its text.
        lengths: (texts,) pieces in each text.
    """

    ids: Ints1d
    starts: Ints1d
    ends: Ints1d
    lengths: Ints1d


Tokenize = Callable[[list[str]], WordPieces]


def splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Whether a text has the pieces that the words between its spaces have by themselves."""
    return (
        isinstance(tokenizer.normalizer, BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and isinstance(tokenizer.model, WordPiece)
        and not any(
            " " in token.content or token.lstrip or token.rstrip
            for token in tokenizer.get_added_tokens_decoder().values()
        )
    )


class KnownWords:
    """Tokenizes each distinct word once, for a tokenizer that `splits_at_spaces`.

    Words are kept until there is no room for new ones; then those of the present batch are the
    first of a new collection. Copies and pickles start without any. Threads may share it.
    """

    def __init__(self) -> None:
        self._words = _Words()
        self._lock = Lock()

    def look_up(self, texts: list[str], tokenize: Tokenize) -> WordPieces:
        """The word pieces of texts, as `tokenize` gives them."""
        split = [text.split(" ") for text in texts]
        words = list(chain.from_iterable(split))
        known = self._words
        try:
            places = known.find(words)
        except KeyError:
            learned = self._learn(words, tokenize)
            if learned is None:
                return tokenize(texts)
            known, places = learned, learned.find(words)
        words_of_texts = np.fromiter(map(len, split), "int64", len(split))
        first_words = np.cumsum(words_of_texts) - words_of_texts
        room = np.fromiter(map(len, words), "int64", len(words)) + 1  # and the space after it
        offsets = np.cumsum(room) - room
        offsets -= np.repeat(offsets[first_words], words_of_texts)
        counts = known.counts[places]
        pieces = ranges(known.firsts[places], counts)
        moved = np.repeat(offsets, counts)
        return WordPieces(
            known.ids[pieces],
            known.starts[pieces] + moved,
            known.ends[pieces] + moved,
            np.add.reduceat(counts, first_words),
        )

    def forget(self) -> None:
        """Forget all words."""
        self._words = _Words()

    def _learn(self, words: list[str], tokenize: Tokenize) -> _Words | None:
        """A collection with all these words; None if they are too many, or another thread learns.

        Nobody waits: a forked process inherits the lock, but not the thread that has it.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            for known in (self._words, _Words()):
                if known.add(words, tokenize):
                    self._words = known
                    return known
            return None
        finally:
            self._lock.release()

    def __reduce__(self) -> tuple[type[KnownWords], tuple[()]]:
        return KnownWords, ()


class _Words:
    """Words with their pieces, which never change once a word can be found.

    Attributes:
        firsts, counts: (words,) place of each word's first piece, and number of its pieces.
        ids, starts, ends: (pieces,) as in `WordPieces`; offsets count from the word's beginning.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._pieces = 0
        self.firsts, self.counts = np.empty((2, MOST_WORDS), "int64")
        self.ids, self.starts, self.ends = np.empty((3, MOST_PIECES), "int64")

    def find(self, words: list[str]) -> Ints1d:
        """(words,) the places of words; raises KeyError if one is not here."""
        return np.fromiter(map(self._places.__getitem__, words), "int64", len(words))

    def add(self, words: list[str], tokenize: Tokenize) -> bool:
        """Add the words that are new; False, and nothing is added, if there is no room."""
        new = [word for word in dict.fromkeys(words) if word not in self._places]
        end = len(self._places) + len(new)
        if end > MOST_WORDS:
            return False
        pieces = tokenize(new)
        last = self._pieces + len(pieces.ids)
        if last > MOST_PIECES:
            return False
        added, added_pieces = slice(end - len(new), end), slice(self._pieces, last)
        self.counts[added] = pieces.lengths
        self.firsts[added] = self._pieces + np.cumsum(pieces.lengths) - pieces.lengths
        self.ids[added_pieces] = pieces.ids
        self.starts[added_pieces] = pieces.starts
        self.ends[added_pieces] = pieces.ends
        self._pieces = last
        self._places.update(zip(new, range(end - len(new), end), strict=True))
        return True
