"""Whether an encoder's tokenizer keeps capitals and accents as the encoder's vocabulary has them.

Files of older encoders do not say it, and transformers then writes everything in lower case, and
without accents: a cased encoder reads "Aspirin BRCA1" as "aspirin [UNK]".
"""

import json
import re
from collections import Counter

from tokenizers import Tokenizer

from ..errors import BiomedError
from ..normalization import strip_accents
from .batching.word_piece_tokenizer import WordPieceTokenizer

# About a third of a cased vocabulary has capitals; in an uncased one only special tokens have them.
LEAST_SHARE = 0.01
# A smaller vocabulary may have been learned from texts that happen to have few capitals.
LEAST_WORDS = 1000
_SPECIAL = re.compile(r"\[.*\]|<.*>")
_CAPITAL = re.compile("[A-Z]")
_ACCENT = re.compile("[áéíóúñàèìòùâêîôûäëïöüãõç]")


def check_casing(tokenizer: Tokenizer, source: str, *, cased: bool | None = None) -> None:
    """Check that a tokenizer writes words in lower case exactly if the vocabulary has no capitals.

    It must not remove accents either, if the vocabulary has words with them. `cased` is what the
    catalogue says of the encoder; by default its vocabulary tells.
    """
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer is not None else str
    lowers = "A" not in normalize("A")
    words = [word for word in tokenizer.get_vocab() if not _SPECIAL.fullmatch(word)]
    # Byte-level vocabularies have every single letter.
    longer = [word for word in words if len(word.removeprefix("##")) > 1]
    has_capitals, has_accents = (
        sum(1 for word in longer if pattern.search(word)) > LEAST_SHARE * len(words)
        for pattern in (_CAPITAL, _ACCENT)
    )
    is_uncased = not any(map(_CAPITAL.search, words)) if cased is None else not cased
    # Without an unknown token, words that the vocabulary lacks become bytes.
    has_unknown = bool(getattr(tokenizer.model, "unk_token", None))
    if lowers and (has_capitals if cased is None else cased):
        fault = "vocabulary is cased, and its tokenizer writes every word in lower case"
        setting = '"do_lower_case": false'
    elif has_accents and normalize("é") == "e":
        fault = "vocabulary has words with accents, and its tokenizer removes accents"
        setting = '"strip_accents": false'
    elif is_uncased and not lowers and len(words) >= LEAST_WORDS and has_unknown:
        fault = "vocabulary is uncased, and its tokenizer keeps capitals"
        setting = '"do_lower_case": true'
    else:
        return
    raise BiomedError(
        f"{source}: its {fault}, so that words become unknown or others: put {setting} into its "
        "tokenizer_config.json"
    )


def share_of_unknown(tokenizer: Tokenizer, words: Counter[str]) -> float:
    """The share of counted words that the unknown token stands for, at least in part."""
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    if unknown is None or not words:
        return 0.0
    encodings = tokenizer.encode_batch(list(words), add_special_tokens=False)
    counts = zip(words.values(), encodings, strict=True)
    return sum(count for count, one in counts if unknown in one.ids) / words.total()


def fold_accents(tokenizer: WordPieceTokenizer, name: str) -> WordPieceTokenizer:
    """Take the accents from the texts that a tokenizer reads, and from its vocabulary.

    A cased tokenizer that only removes accents from texts divides "diagnostico" into more pieces
    than "diagnóstico", and none that the encoder has learned for it. Here both are the entry that
    was "diagnóstico". Of entries that become the same, the one with the lowest id counts, since
    vocabularies are learned from the most frequent pieces on; the others are no longer used. No id
    changes, so that the encoder stays as it is. Other tokenizers than BERT's are a `BiomedError`.
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
