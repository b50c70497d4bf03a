"""Annotation of large collections of documents, in shards that survive interruptions."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
