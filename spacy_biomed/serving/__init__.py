"""A server that annotates texts over HTTP: requests share batches, and all sizes are bounded."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
