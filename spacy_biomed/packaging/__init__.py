"""Compression of a trained pipeline, and the model card of its wheel."""

from typing import TYPE_CHECKING

from ..lazy_names import attach

if TYPE_CHECKING:
    from .compression import CompressionReport, compress_pipeline
    from .described_pipeline import write_described_pipeline
    from .half_weights import halve_encoder, halve_heads
    from .model_card import create_card
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "compression": ["CompressionReport", "compress_pipeline"],
            "described_pipeline": ["write_described_pipeline"],
            "half_weights": ["halve_encoder", "halve_heads"],
            "model_card": ["create_card"],
        },
    )

__all__ = [
    "CompressionReport",
    "compress_pipeline",
    "create_card",
    "halve_encoder",
    "halve_heads",
    "write_described_pipeline",
]
