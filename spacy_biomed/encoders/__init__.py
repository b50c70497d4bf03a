"""The catalogue of encoders, loading, PyTorch and ONNX, and the listener of the heads."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
