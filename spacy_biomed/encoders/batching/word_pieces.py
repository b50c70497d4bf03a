"""Word pieces of batches of texts in flat arrays, and those of words that occurred before.

A tokenizer like BERT's splits texts at spaces, and no rule of it looks across one. The pieces of a
text are therefore those of what stands between its spaces, which mostly has occurred before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from ...arrays import Ints1d
from .ragged import borders, split_at

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
    first of a new collection. Copies and pickles start without any. Threads may share it: a
    collection never changes.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all words."""
        # Each word's pieces, as id, start, end, id, start, end, ...; and the number of all pieces.
        self._known: tuple[dict[str, tuple[int, ...]], int] = {}, 0

    def look_up(self, texts: list[str], tokenize: Tokenize) -> WordPieces:
        """The word pieces of texts, as `tokenize` gives them."""
        split = [text.split(" ") for text in texts]
        words = list(chain.from_iterable(split))
        known = self._learn(words, tokenize)
        if known is None:
            return tokenize(texts)
        found = [known[word] for word in words]
        counts = np.fromiter(map(len, found), "int64", len(words)) // 3
        numbers = np.fromiter(chain.from_iterable(found), "int64", 3 * int(counts.sum()))
        ids, starts, ends = numbers.reshape(-1, 3).T
        words_of_texts = np.fromiter(map(len, split), "int64", len(split))
        first_words = np.cumsum(words_of_texts) - words_of_texts
        room = np.fromiter(map(len, words), "int64", len(words)) + 1  # and the space after it
        offsets = np.cumsum(room) - room
        offsets -= np.repeat(offsets[first_words], words_of_texts)
        moved = np.repeat(offsets, counts)
        return WordPieces(ids, starts + moved, ends + moved, np.add.reduceat(counts, first_words))

    def _learn(self, words: list[str], tokenize: Tokenize) -> dict[str, tuple[int, ...]] | None:
        """A collection with all these words; None if they are too many."""
        for known, kept in (self._known, ({}, 0)):
            new = [word for word in dict.fromkeys(words) if word not in known]
            if not new:
                return known
            if len(known) + len(new) <= MOST_WORDS:
                pieces = tokenize(new)
                kept += len(pieces.ids)
                if kept <= MOST_PIECES:
                    rows = np.stack([pieces.ids, pieces.starts, pieces.ends], axis=1)
                    parts = split_at(rows.ravel(), 3 * borders(pieces.lengths))
                    known = known | dict(
                        zip(new, map(tuple, map(np.ndarray.tolist, parts)), strict=True)
                    )
                    self._known = known, kept
                    return known
        return None

    def __reduce__(self) -> tuple[type[KnownWords], tuple[()]]:
        return KnownWords, ()
