"""Distillation objectives, by their names in configs."""

from __future__ import annotations

from .objective import Needs, Objective, Outputs, Shape
from .papers import (
    CompactObjective,
    DistilBertObjective,
    LargeToBaseObjective,
    MobileBertObjective,
    TinyBertObjective,
)

OBJECTIVES: dict[str, type[Objective]] = {
    "distilbert": DistilBertObjective,
    "tinybert": TinyBertObjective,
    "compact": CompactObjective,
    "mobilebert": MobileBertObjective,
    "large_to_base": LargeToBaseObjective,
}

__all__ = ["OBJECTIVES", "Needs", "Objective", "Outputs", "Shape"]
