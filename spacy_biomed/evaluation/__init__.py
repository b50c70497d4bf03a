"""Scores by task, benchmarks of speed and size, and leakage of personal data."""

from typing import TYPE_CHECKING

from ..lazy_names import attach

if TYPE_CHECKING:
    from .benchmark import Measure, PipelineFigures, describe_machine, measure_pipelines
    from .leakage import Leakage, LeakageReport, measure_leakage
    from .tasks import Head, find_heads
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "benchmark": ["Measure", "PipelineFigures", "describe_machine", "measure_pipelines"],
            "leakage": ["Leakage", "LeakageReport", "measure_leakage"],
            "tasks": ["Head", "find_heads"],
        },
    )

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
