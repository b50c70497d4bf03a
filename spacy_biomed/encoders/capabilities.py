"""What an encoder of transformers can read: how much at once, segments, several texts in a line."""

from __future__ import annotations

from typing import Any

# Encoders whose attention takes a mask for every pair of places, and which take positions.
PACKING_MODEL_TYPES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
PACKING_ATTENTION = ("eager", "sdpa")


def max_sequence_length(encoder: Any) -> int:
    """Word pieces, special tokens included, that the encoder's position embeddings cover."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or 512
    return positions - first_position(encoder)


def first_position(encoder: Any) -> int:
    """The number of a sequence's first position: RoBERTa counts from one past the padding index."""
    embeddings = getattr(encoder, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def can_pack(encoder: Any) -> bool:
    """Whether several sequences in one line do not see each other, given where each lies."""
    config = encoder.config
    attention = getattr(config, "_attn_implementation", None)
    return config.model_type in PACKING_MODEL_TYPES and attention in PACKING_ATTENTION


def count_segments(encoder: Any) -> int:
    """Segments (token types) that the encoder can tell apart; 0 if it has no such embeddings."""
    table = getattr(getattr(encoder, "embeddings", None), "token_type_embeddings", None)
    return getattr(table, "num_embeddings", 0)
