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

    texts: any number of texts, read once.
    size: largest number of entries, special tokens and single characters included.
    lowercase: whether to fold case and accents, as BERT's uncased vocabularies do.
    min_frequency: how often a pair must occur to be merged.
    RETURNS: a tokenizer that treats text and special tokens as BERT's does.
    RAISES BiomedError: if there is no text, or it has more characters than the vocabulary can hold.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=SPECIAL_TOKENS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learned = tokenizer.get_vocab_size()
    if learned == len(SPECIAL_TOKENS):
        raise BiomedError("no words to learn a vocabulary from: the texts are empty; give others")
    if learned > size:
        raise BiomedError(
            f"a vocabulary of {size} cannot hold the characters of the texts: at least {learned}"
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer
