"""Vocabularies learned from text, as Hugging Face fast tokenizers."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import WordPieceTrainer

from ..errors import BiomedError

# In this order, so that the padding id is 0, as in BERT.
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def learn_word_pieces(
    texts: Iterable[str], size: int, *, lowercase: bool = False, min_frequency: int = 2
) -> Tokenizer:
    """Learn a WordPiece vocabulary (Wu et al. 2016, "Google's Neural Machine Translation System").

    texts: any number of texts, kept in memory: they are read twice.
    size: largest number of entries, special tokens and single characters included.
    lowercase: whether to fold case and accents, as BERT's uncased vocabularies do.
    min_frequency: how often a pair must occur to be merged.
    RETURNS: a tokenizer that treats text and special tokens as BERT's does.
    RAISES BiomedError: if there is no text, or it has more characters than the vocabulary can hold.
    """
    texts = list(texts)
    # The trainer numbers the characters inside words in the order of a randomly seeded hash table,
    # and breaks ties between pairs by number. Numbered beforehand, they give the same vocabulary
    # each time.
    letters = _train(texts, 0, SPECIAL_TOKENS, lowercase, min_frequency)
    if len(letters) == len(SPECIAL_TOKENS):
        raise BiomedError("no words to learn a vocabulary from: the texts are empty; give others")
    if len(letters) > size:
        raise BiomedError(
            f"a vocabulary of {size} cannot hold the characters of the texts: at least "
            f"{len(letters)}"
        )
    inside_words = sorted(letter for letter in letters if letter.startswith("##"))
    vocabulary = _train(texts, size, [*SPECIAL_TOKENS, *inside_words], lowercase, min_frequency)
    tokenizer = _create_tokenizer(vocabulary, lowercase)
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _train(
    texts: list[str], size: int, first: list[str], lowercase: bool, min_frequency: int
) -> dict[str, int]:
    """Learn a vocabulary that begins with the given entries; all characters if the size is 0."""
    tokenizer = _create_tokenizer({}, lowercase)
    trainer = WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, special_tokens=first, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.get_vocab()


def _create_tokenizer(vocabulary: dict[str, int], lowercase: bool) -> Tokenizer:
    model = models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer
