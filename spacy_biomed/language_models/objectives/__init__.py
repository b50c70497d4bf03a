"""Distillation objectives, by their names in configs."""

from . import papers
from .objective import Needs, Objective, Outputs, Shape

OBJECTIVES: dict[str, type[Objective]] = {
    "distilbert": papers.DistilBertObjective,
    "tinybert": papers.TinyBertObjective,
    "compact": papers.CompactObjective,
    "mobilebert": papers.MobileBertObjective,
    "large_to_base": papers.LargeToBaseObjective,
}

__all__ = ["OBJECTIVES", "Needs", "Objective", "Outputs", "Shape"]
