"""Rules for clinical notes: their sentences, their headings, and what is said of a mention."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
