"""Create or load encoders with a head for masked language modelling, before training."""

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel

from ..encoders import loading
from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..encoders.encoder_model import max_sequence_length
from ..errors import BiomedError
from .recipe import FreshEncoder, TrainingRecipe

# The names of the dropout probability of attention in configs of transformers.
ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")


def create_language_model(
    config: PretrainedConfig, *, seed: int, on_cpu: bool = False
) -> PreTrainedModel:
    """Create a model for masked language modelling with random weights.

    Args:
        on_cpu: whether it will be trained on a CPU.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.AutoModelForMaskedLM.from_config(
            config, trust_remote_code=False, **_attention(config, on_cpu)
        )


def create_config(tokenizer: WordPieceTokenizer, encoder: FreshEncoder) -> PretrainedConfig:
    """Create the transformers config of an encoder with random weights."""
    shape: dict[str, object] = {
        "vocab_size": tokenizer.tokenizer.get_vocab_size(),
        "hidden_size": encoder.width,
        "num_hidden_layers": encoder.layers,
        "num_attention_heads": encoder.heads,
        "intermediate_size": encoder.feed_forward,
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": encoder.dropout,
        "pad_token_id": tokenizer.pad,
    }
    if encoder.type == "bert":
        return transformers.BertConfig(**shape, max_position_embeddings=encoder.positions)
    return transformers.RobertaConfig(
        **shape,
        # RoBERTa's positions start after the padding id.
        max_position_embeddings=encoder.positions + tokenizer.pad + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        bos_token_id=tokenizer.prefix[0],
        eos_token_id=tokenizer.suffix[-1],
    )


def load_language_model(
    name: str, revision: str | None = None, *, on_cpu: bool = False, seed: int = 0
) -> tuple[WordPieceTokenizer, PreTrainedModel, bool]:
    """Load an encoder with its head for masked language modelling.

    Args:
        name, revision: as in `encoders.loading.load_pretrained`.
        on_cpu: whether it will be trained on a CPU.
        seed: seed of the weights of a new head, if the encoder was published without a head.

    Returns:
        the tokenizer, the model, and whether its head is new.

    Raises:
        BiomedError: if the encoder cannot be loaded, its vocabulary has no mask token, or
            transformers has no such head for its type.
    """
    tokenizer, encoder = loading.load_pretrained(name, revision)
    if tokenizer.mask is None:
        raise BiomedError(
            f"encoder '{name}': its vocabulary has no mask token to train with; choose another"
        )
    config = encoder.config
    if type(config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING:
        raise BiomedError(
            f"encoder '{name}': transformers has no head for masked language modelling on encoders "
            f"of type {config.model_type}; choose another"
        )
    with loading.without_warnings(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, missing = loading.read_weights(
            transformers.AutoModelForMaskedLM,
            config.name_or_path,
            loading.read_config(config.name_or_path, loading.commit_of(config)),
            **_attention(config, on_cpu),
        )
    return tokenizer, model, bool(missing)


def check_positions(recipe: TrainingRecipe, model: PreTrainedModel, called: str) -> None:
    """Refuse a model, such as the "teacher", with fewer positions than the recipe's sequences."""
    positions = max_sequence_length(model.base_model)
    if recipe.packing.length > positions:
        raise recipe.error(
            "packing.length", f"the {called} has {positions} positions; make it no longer"
        )


def _attention(config: PretrainedConfig, on_cpu: bool) -> dict[str, str]:
    """Plain attention for training with dropout on a CPU: the fused kernel is slower there."""
    has_dropout = any(getattr(config, name, None) for name in ATTENTION_DROPOUT)
    return {"attn_implementation": "eager"} if on_cpu and has_dropout else {}
