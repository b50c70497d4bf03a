"""Capabilities of a transformers encoder: maximum length, segments, several texts in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


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


def attention_implementation(config: PretrainedConfig) -> str:
    """How an encoder computes attention, such as "sdpa" or "eager"; or a kernel on the hub."""
    return str(config._attn_implementation)


def count_segments(encoder: PreTrainedModel) -> int:
    """Number of segments (token types) that the encoder distinguishes; 0 without embeddings."""
    table = getattr(getattr(encoder, "embeddings", None), "token_type_embeddings", None)
    return getattr(table, "num_embeddings", 0)
