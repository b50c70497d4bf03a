"""Terminologies: their published formats, and an index of their names that is read in place."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
