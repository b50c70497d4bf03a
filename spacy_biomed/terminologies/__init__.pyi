from .term_formats import FORMATS, Term, read_terms
from .terminology import Terminology, build_terminology

__all__ = ["FORMATS", "Term", "Terminology", "build_terminology", "read_terms"]
