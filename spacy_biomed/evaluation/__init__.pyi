from .benchmark import Measure, PipelineFigures, describe_machine, measure_pipelines
from .leakage import Leakage, LeakageReport, measure_leakage
from .tasks import Head, find_heads

__all__ = [
    "Head",
    "Leakage",
    "LeakageReport",
    "Measure",
    "PipelineFigures",
    "describe_machine",
    "find_heads",
    "measure_leakage",
    "measure_pipelines",
]
