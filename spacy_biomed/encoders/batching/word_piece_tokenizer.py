"""Word-piece tokenization of whole batches, into flat arrays.

A tokenizer like BERT's splits texts at spaces, and no rule of it looks across one. The pieces of a
text are therefore those of what stands between its spaces, which mostly has occurred before.

Only the `tokenizers` library is needed: a pipeline without torch uses this code too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from ...arrays import Ints1d
from ...errors import BiomedError
from ...normalization import normalize_text
from .ragged import borders, split_at

# Words and word pieces that are kept, in some 4 MB.
MOST_WORDS, MOST_PIECES = 2**14, 2**16


@dataclass(frozen=True, slots=True)
class WordPieces:
    """The word pieces of a batch of texts, without special tokens, concatenated."""

    ids: Ints1d  # (pieces,) vocabulary ids
    starts: Ints1d  # (pieces,) where each piece starts in its text, in characters
    ends: Ints1d  # (pieces,) where it ends, exclusive
    lengths: Ints1d  # (texts,) pieces in each text


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


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """The special tokens and segment ids an encoder expects for a pair of texts in one sequence."""

    before: list[int]  # vocabulary ids of special tokens
    between: list[int]
    after: list[int]
    # Segment ids (token types) of the special tokens before, of the first text, and so on.
    segments: tuple[list[int], int, list[int], int, list[int]]

    @property
    def has_segments(self) -> bool:
        """Whether the segment ids distinguish the two texts."""
        return any(np.hstack(self.segments))


class WordPieceTokenizer:
    """A `tokenizers.Tokenizer` whose special tokens around a sequence are stored separately.

    If the tokenizer `splits_at_spaces`, each distinct word is tokenized once. Words are kept until
    there is no room for new ones; then those of the present batch are the first of a new
    collection. Copies and pickles start without any.
    """

    def __init__(self, tokenizer: Tokenizer, pad: int = 0):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.pad = pad  # the id that pads short sequences of a batch
        # The ids around one sequence, such as [CLS] and [SEP], and around two texts, as the
        # tokenizer's post-processor has them.
        self.prefix, self.suffix = _special_ids(tokenizer)
        self.pair = _read_pair(tokenizer, self.prefix, self.suffix)
        known = map(tokenizer.token_to_id, ("[MASK]", "<mask>"))
        self.mask = next((token for token in known if token is not None), None)
        self._keeps_words = splits_at_spaces(tokenizer)
        self.forget_words()

    @classmethod
    def from_str(cls, data: str, pad: int) -> WordPieceTokenizer:
        return cls(Tokenizer.from_str(data), pad)

    def to_str(self) -> str:
        return self.tokenizer.to_str()

    @property
    def special_ids(self) -> list[int]:
        """Ids of the special tokens around sequences and of the padding token."""
        pair = self.pair
        around = (self.prefix, self.suffix, pair.before, pair.between, pair.after, [self.pad])
        return sorted(set(chain.from_iterable(around)))

    def forget_words(self) -> None:
        """Let go of the words of texts, which are otherwise kept for the next ones."""
        # Each word's pieces, as id, start, end, id, start, end, ...; and the number of all pieces.
        # A collection never changes, so that threads may share it.
        self._known: tuple[dict[str, tuple[int, ...]], int] = {}, 0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_known": ({}, 0)}

    def __call__(self, texts: list[str]) -> WordPieces:
        """The word pieces of texts, without special tokens around them."""
        split = [text.split(" ") for text in texts]
        words = list(chain.from_iterable(split))
        known = self._learn(words) if self._keeps_words else None
        if known is None:
            return self._tokenize(texts)
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

    def _learn(self, words: list[str]) -> dict[str, tuple[int, ...]] | None:
        """A collection with all these words; None if they are too many."""
        for known, kept in (self._known, ({}, 0)):
            new = [word for word in dict.fromkeys(words) if word not in known]
            if not new:
                return known
            if len(known) + len(new) <= MOST_WORDS:
                pieces = self._tokenize(new)
                kept += len(pieces.ids)
                if kept <= MOST_PIECES:
                    rows = np.stack([pieces.ids, pieces.starts, pieces.ends], axis=1)
                    parts = split_at(rows.ravel(), 3 * borders(pieces.lengths))
                    learned = map(tuple, map(np.ndarray.tolist, parts))
                    known = known | dict(zip(new, learned, strict=True))
                    self._known = known, kept
                    return known
        return None

    def read_normalized(self, texts: list[str]) -> WordPieces:
        """The word pieces of normalised texts; offsets are those of the texts as given."""
        normalized = [normalize_text(text) for text in texts]
        pieces = self(
            [new.text if new else text for new, text in zip(normalized, texts, strict=True)]
        )
        places = borders(pieces.lengths)
        for i, new in enumerate(normalized):
            own = slice(places[i], places[i + 1])
            if new is not None and pieces.lengths[i]:
                starts, ends = pieces.starts[own], pieces.ends[own]
                # Byte-level tokenizers have pieces of spaces that are empty, at the end too.
                is_empty = starts == ends
                pieces.starts[own] = np.append(new.starts, new.ends[-1:])[starts]
                pieces.ends[own] = np.where(is_empty, pieces.starts[own], new.ends[ends - 1])
        return pieces

    def _tokenize(self, texts: list[str]) -> WordPieces:
        try:
            if len(texts) == 1:  # a batch of one takes half as long again
                encodings = [self.tokenizer.encode(texts[0], add_special_tokens=False)]
            else:
                encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        except BaseException as error:
            # The library panics where a pattern takes too many steps on a text, as (a+)+$ does.
            if type(error).__name__ != "PanicException":  # which is not an Exception
                raise
            raise BiomedError(
                "the encoder's tokenizer fails on a text: a pattern in its tokenizer.json takes "
                "too long; get tokenizer.json from the encoder's authors again"
            ) from error
        lengths = np.fromiter(map(len, encodings), dtype="int64", count=len(texts))
        total = int(lengths.sum())
        flat_ids = chain.from_iterable(encoding.ids for encoding in encodings)
        ids = np.fromiter(flat_ids, dtype="int64", count=total)
        flat_offsets = chain.from_iterable(
            chain.from_iterable(encoding.offsets for encoding in encodings)
        )
        offsets = np.fromiter(flat_offsets, dtype="int64", count=2 * total).reshape(total, 2)
        return WordPieces(ids, offsets[:, 0], offsets[:, 1], lengths)


def _special_ids(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer puts before and after a sequence."""
    encoding = tokenizer.encode("a", add_special_tokens=True)
    inside = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
    if not inside:  # a vocabulary that cannot spell "a" and has no unknown token
        half = len(encoding.ids) // 2
        return encoding.ids[:half], encoding.ids[half:]
    return encoding.ids[: inside[0]], encoding.ids[inside[-1] + 1 :]


def _read_pair(tokenizer: Tokenizer, prefix: list[int], suffix: list[int]) -> PairTemplate:
    """The tokenizer's template for two texts.

    By default, there is `prefix` before the first and `suffix` after each, with segments 0 and 1.
    """
    encoding = tokenizer.encode("a", "a", add_special_tokens=True)
    text_of = encoding.sequence_ids
    if None not in text_of or not {0, 1} <= set(text_of):
        zeros, ones = [0] * len(suffix), [1] * len(suffix)
        return PairTemplate(prefix, suffix, suffix, ([0] * len(prefix), 0, zeros, 1, ones))
    first, second = text_of.index(0), text_of.index(1)
    first_end, second_end = first + text_of.count(0), second + text_of.count(1)
    special = slice(first), slice(first_end, second), slice(second_end, None)
    before, between, after = (encoding.type_ids[part] for part in special)
    segments = before, encoding.type_ids[first], between, encoding.type_ids[second], after
    before, between, after = (encoding.ids[part] for part in special)
    return PairTemplate(before, between, after, segments)
