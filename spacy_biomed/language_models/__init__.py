"""Text cleaning, vocabularies, and the pretraining and distillation of encoders."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
