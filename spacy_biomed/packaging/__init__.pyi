from .averaging import average_pipelines
from .building import build
from .compression import CompressionReport, compress_pipeline, halve_encoder, halve_heads
from .copies import calibrate_pipeline, write_calibration
from .described_pipeline import write_described_pipeline
from .hub import Shipment, prepare_shipment, pull_pipeline, push_pipeline
from .model_card import create_card
from .model_import import import_model
from .pipeline_recipe import PipelineRecipe, read_pipeline_recipe

__all__ = [
    "CompressionReport",
    "PipelineRecipe",
    "Shipment",
    "average_pipelines",
    "build",
    "calibrate_pipeline",
    "compress_pipeline",
    "create_card",
    "halve_encoder",
    "halve_heads",
    "import_model",
    "prepare_shipment",
    "pull_pipeline",
    "push_pipeline",
    "read_pipeline_recipe",
    "write_calibration",
    "write_described_pipeline",
]
