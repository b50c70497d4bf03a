"""Capabilities of a transformers encoder: maximum length, segments, several texts in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# Encoders whose attention takes a mask for every pair of positions, and which take position ids.
# DistilBERT takes no position ids. ModernBERT makes the mask of its local attention from a mask of
# padding, and with transformers 4 takes no other.
PACKING_MODEL_TYPES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
PACKING_ATTENTION = ("eager", "sdpa")


def max_sequence_length(encoder: PreTrainedModel) -> int:
    """Maximum word pieces, special tokens included, that the position embeddings cover."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or 512
    return positions - first_position(encoder)


def first_position(encoder: PreTrainedModel) -> int:
    """The number of a sequence's first position: RoBERTa counts from one past the padding index."""
    embeddings = getattr(encoder, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def can_pack(encoder: PreTrainedModel) -> bool:
    """Whether sequences in one line can be kept from attending to each other, given positions."""
    attention = attention_implementation(encoder.config)
    return encoder.config.model_type in PACKING_MODEL_TYPES and attention in PACKING_ATTENTION


def attention_implementation(config: PretrainedConfig) -> str:
    """How an encoder computes attention, such as "sdpa" or "eager"; or a kernel on the hub."""
    return str(config._attn_implementation)


def count_segments(encoder: PreTrainedModel) -> int:
    """Number of segments (token types) that the encoder distinguishes; 0 without embeddings."""
    table = getattr(getattr(encoder, "embeddings", None), "token_type_embeddings", None)
    return getattr(table, "num_embeddings", 0)
