from .calibration import calibrate_pipeline, write_calibration
from .compression import CompressionReport, compress_pipeline
from .described_pipeline import write_described_pipeline
from .half_weights import halve_encoder, halve_heads
from .model_card import create_card
from .model_import import import_model

__all__ = [
    "CompressionReport",
    "calibrate_pipeline",
    "compress_pipeline",
    "create_card",
    "halve_encoder",
    "halve_heads",
    "import_model",
    "write_calibration",
    "write_described_pipeline",
]
