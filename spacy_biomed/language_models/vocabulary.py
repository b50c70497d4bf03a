"""Vocabularies learned from text, as Hugging Face fast tokenizers."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import Tokenizer
from tokenizers.trainers import BpeTrainer, WordPieceTrainer

from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..encoders.loading import load_tokenizer, read_word_pieces
from ..errors import BiomedError
from .text_sources import read_documents

# In this order, so that the padding id is 0, as in BERT.
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# The settings that name these tokens in tokenizer_config.json.
_TOKEN_SETTINGS = ["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]

# RoBERTa's special tokens; its mask token comes after all other entries.
BPE_SPECIAL_TOKENS = ["<s>", "<pad>", "</s>", "<unk>"]
BPE_MASK = "<mask>"

_MIN_FREQUENCY = 2  # of a pair to be merged

Kind = Literal["bpe", "wordpiece"]


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of files, which are read again in each iteration.

    `progress` is called with the number of documents read since the last call.
    """

    paths: list[Path]
    field: str = "text"
    progress: Callable[[int], object] = lambda count: None

    def __iter__(self) -> Iterator[str]:
        for text in read_documents(self.paths, text_field=self.field):
            self.progress(1)
            yield text


def learn_vocabulary(
    texts: Iterable[str], kind: Kind, size: int, *, lowercase: bool = False
) -> Tokenizer:
    """Learn a vocabulary from texts.

    Args:
        texts: read twice for WordPiece, so that those of an iterator are kept in memory.
        kind: "wordpiece", as of BERT, or "bpe" (byte-level byte-pair encoding), as of RoBERTa.
        size: maximum number of entries, with special tokens, and characters or the 256 bytes.
        lowercase: whether WordPiece folds case and accents, as in BERT's uncased vocabularies.

    Raises:
        BiomedError: if the size cannot hold the characters or bytes, or the texts have no words.
    """
    if kind == "bpe":
        return learn_byte_pairs(texts, size)
    return learn_word_pieces(texts, size, lowercase=lowercase)


def learn_word_pieces(texts: Iterable[str], size: int, *, lowercase: bool = False) -> Tokenizer:
    """Learn a WordPiece vocabulary (Wu et al. 2016, "Google's Neural Machine Translation System").

    Text and special tokens are treated as by BERT's tokenizer, with `lowercase` by the uncased one.
    """
    if iter(texts) is texts:
        texts = list(texts)
    # The trainer numbers the characters inside words in a random order, and breaks ties between
    # pairs by number. Numbering them first makes the vocabulary reproducible.
    letters = _train(_require_words(texts), 0, SPECIAL_TOKENS, lowercase)
    if len(letters) > size:
        raise BiomedError(
            f"a vocabulary of {size} cannot hold the characters of the texts: at least "
            f"{len(letters)}"
        )
    inside_words = sorted(letter for letter in letters if letter.startswith("##"))
    vocabulary = _train(texts, size, [*SPECIAL_TOKENS, *inside_words], lowercase)
    tokenizer = _create_tokenizer(vocabulary, lowercase)
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def learn_byte_pairs(texts: Iterable[str], size: int) -> Tokenizer:
    """Learn a vocabulary by byte-level byte-pair encoding, of at most `size` entries.

    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners". Text and special
    tokens are treated as by RoBERTa's tokenizer, with its ids: <s> 0, <pad> 1, </s> 2, <unk> 3.
    """
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    least = len(BPE_SPECIAL_TOKENS) + len(alphabet) + 1
    if size < least:
        raise BiomedError(f"a vocabulary of {size} cannot hold all bytes: at least {least}")
    tokenizer = Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=size - 1,
        min_frequency=_MIN_FREQUENCY,
        special_tokens=BPE_SPECIAL_TOKENS,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_require_words(texts), trainer)
    # A space before the token belongs to it, as in RoBERTa.
    tokenizer.add_special_tokens([tokenizers.AddedToken(BPE_MASK, lstrip=True, special=True)])
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, directory: Path) -> None:
    """Write a learned tokenizer for transformers' `AutoTokenizer` and `read_tokenizer`."""
    is_bpe = tokenizer.token_to_id(BPE_MASK) is not None
    tokens = ["<pad>", "<unk>", "<s>", "</s>", BPE_MASK] if is_bpe else SPECIAL_TOKENS
    settings = {
        **dict(zip(_TOKEN_SETTINGS, tokens, strict=True)),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
    }
    tokenizer.save(str(directory / "tokenizer.json"))
    text = json.dumps(settings, indent=2)
    (directory / "tokenizer_config.json").write_text(text, encoding="utf8")


def read_tokenizer(name: str, revision: str | None = None) -> WordPieceTokenizer:
    """Load the tokenizer of a directory with or without an encoder, a catalogue name or a hub id.

    Raises:
        BiomedError: if it cannot be loaded.
    """
    directory = Path(name).expanduser()
    if not (directory / "tokenizer.json").is_file() or (directory / "config.json").is_file():
        return load_tokenizer(name, revision)
    try:
        return read_word_pieces(directory)
    except Exception as error:  # tokenizers raises nothing more specific
        raise BiomedError(
            f"{directory}: not a readable tokenizer ({error}); `python -m spacy biomed vocabulary` "
            "makes one"
        ) from error


def _require_words(texts: Iterable[str]) -> Iterator[str]:
    has_words = False
    for text in texts:
        has_words = has_words or bool(text.strip())
        yield text
    if not has_words:
        raise BiomedError("no words to learn a vocabulary from: the texts are empty; give others")


def _train(texts: Iterable[str], size: int, first: list[str], lowercase: bool) -> dict[str, int]:
    """Learn a vocabulary that starts with given entries; with the size 0 only characters."""
    tokenizer = _create_tokenizer({}, lowercase)
    trainer = WordPieceTrainer(
        vocab_size=size, min_frequency=_MIN_FREQUENCY, special_tokens=first, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.get_vocab()


def _create_tokenizer(vocabulary: dict[str, int], lowercase: bool) -> Tokenizer:
    model = tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    return tokenizer
