"""Encoders before any training."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..encoders.word_pieces import WordPieceTokenizer
from ..errors import BiomedError
from ..outputs import replacing_directory
from .vocabulary import learn_word_pieces


def create_encoder(
    texts: Iterable[str],
    output: Path,
    *,
    vocabulary: int,
    layers: int,
    width: int,
    heads: int,
    lowercase: bool,
    seed: int,
) -> int:
    """Write an encoder directory: a vocabulary learned on texts, weights at BERT's initial values.

    texts: what the vocabulary is learned on.
    output: directory to write, in Hugging Face layout; replaced if it is there.
    vocabulary: largest number of word pieces.
    layers, width, heads: shape of the BERT encoder; its feed-forward layers are four times as wide.
    lowercase: whether the vocabulary folds case and accents.
    seed: seed of the weights.
    RETURNS: the number of parameters.
    RAISES BiomedError: if the heads do not divide the width, the vocabulary cannot be learned, or
        the output cannot be written.
    """
    import torch
    from transformers import BertConfig, BertModel

    from ..encoders.loading import save_encoder

    if width % heads:
        raise BiomedError(f"width {width} is not a multiple of {heads} heads: change one of them")
    with replacing_directory(output, "config.json") as partial:
        tokenizer = learn_word_pieces(texts, vocabulary, lowercase=lowercase)
        config = BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            max_position_embeddings=512,
            pad_token_id=tokenizer.token_to_id("[PAD]"),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = BertModel(config, add_pooling_layer=False)
        save_encoder(partial, WordPieceTokenizer(tokenizer, config.pad_token_id), model)
    return model.num_parameters()
