from .annotations.pairs import pair
from .bulk.annotated_batches import annotate
from .errors import BiomedError

__version__: str

__all__ = ["BiomedError", "annotate", "pair"]
