"""Distillation objectives, by their names in configs."""

from __future__ import annotations

from .compact import CompactObjective
from .distilbert import DistilBertObjective
from .large_to_base import LargeToBaseObjective
from .mobilebert import MobileBertObjective
from .objective import Needs, Objective, Outputs, Shape
from .tinybert import TinyBertObjective

OBJECTIVES: dict[str, type[Objective]] = {
    "distilbert": DistilBertObjective,
    "tinybert": TinyBertObjective,
    "compact": CompactObjective,
    "mobilebert": MobileBertObjective,
    "large_to_base": LargeToBaseObjective,
}

__all__ = ["OBJECTIVES", "Needs", "Objective", "Outputs", "Shape"]
