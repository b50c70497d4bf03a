"""Encoders that read texts with and without accents alike."""

from __future__ import annotations

import json

from ..errors import BiomedError
from ..normalization import strip_accents
from .batching.word_piece_tokenizer import WordPieceTokenizer


def fold_accents(tokenizer: WordPieceTokenizer, name: str) -> WordPieceTokenizer:
    """Take the accents from the texts that a tokenizer reads, and from its vocabulary.

    A cased tokenizer that only removes accents from texts divides "diagnostico" into more pieces
    than "diagnóstico", and none that the encoder has learned for it. Here both are the entry that
    was "diagnóstico". Of entries that become the same, the one with the lowest id counts, since
    vocabularies are learned from the most frequent pieces on; the others are no longer used. No id
    changes, so that the encoder stays as it is.

    Raises:
        BiomedError: if the tokenizer is not BERT's with WordPiece.
    """
    content = json.loads(tokenizer.to_str())
    model, normalizer = content["model"], content["normalizer"] or {}
    if model["type"] != "WordPiece" or normalizer.get("type") != "BertNormalizer":
        raise BiomedError(
            f"encoder '{name}': accents = false is for encoders with BERT's tokenizer, and this "
            f"one has {model['type']}; leave the setting out"
        )
    vocabulary: dict[str, int] = model["vocab"]
    folded: dict[str, int] = {}
    for word in sorted(vocabulary, key=vocabulary.__getitem__):
        folded.setdefault(strip_accents(word), vocabulary[word])
    # The other ids need names too, which no word of a text has.
    used = set(folded.values())
    unused = {f"[{word}]": number for word, number in vocabulary.items() if number not in used}
    model["vocab"] = folded | unused
    normalizer["strip_accents"] = True
    return WordPieceTokenizer.from_str(json.dumps(content), tokenizer.pad)
