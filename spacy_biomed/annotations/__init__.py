"""Annotation layers of a Doc: where they are stored, and their extension attributes."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
