"""Surrogates for personal data, kinds of personal data, and lists of terms."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
