"""Compression of a trained pipeline, and the model card of its wheel."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
