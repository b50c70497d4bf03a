"""Word-piece tokenization of whole batches, into flat arrays.

Only the `tokenizers` library is needed: a pipeline without torch tokenizes with this very code.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from thinc.types import Ints1d
from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class WordPieces:
    """The word pieces of a batch of texts, without special tokens, text after text.

    ids: (pieces,) vocabulary ids.
    starts, ends: (pieces,) half-open character offsets of each piece in its own text.
    lengths: (texts,) pieces in each text.
    """

    ids: Ints1d
    starts: Ints1d
    ends: Ints1d
    lengths: Ints1d


class WordPieceTokenizer:
    """A `tokenizers.Tokenizer` whose special tokens around a sequence are kept apart.

    prefix, suffix: ids that the encoder was trained to see around one sequence, such as [CLS] and
        [SEP], read off the tokenizer's own post-processor.
    pad: id that fills short sequences of a batch.
    mask: id of the token that stands for a hidden piece; None where the vocabulary has none.
    """

    def __init__(self, tokenizer: Tokenizer, pad: int = 0):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.pad = pad
        self.prefix, self.suffix = _special_ids(tokenizer)
        known = map(tokenizer.token_to_id, ("[MASK]", "<mask>"))
        self.mask = next((token for token in known if token is not None), None)

    @classmethod
    def from_str(cls, data: str, pad: int) -> WordPieceTokenizer:
        return cls(Tokenizer.from_str(data), pad)

    def to_str(self) -> str:
        return self.tokenizer.to_str()

    def __call__(self, texts: list[str]) -> WordPieces:
        encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
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
