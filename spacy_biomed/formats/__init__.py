"""Formats of annotated documents, a module each, with reading and writing side by side."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
