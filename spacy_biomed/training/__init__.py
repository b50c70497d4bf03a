"""What `spacy train` plugs in; resumable training; configs; corpora combined and taught."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
