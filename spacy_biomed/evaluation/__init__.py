"""Scores by task, benchmarks of speed and size, and leakage of personal data."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
