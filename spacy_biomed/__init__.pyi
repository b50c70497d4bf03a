from .annotations.pairs import pair
from .errors import BiomedError

__version__: str

__all__ = ["BiomedError", "pair"]
