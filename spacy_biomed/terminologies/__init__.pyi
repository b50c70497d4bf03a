from .term_formats import Term, read_terms
from .terminology import Concept, Match, Terminology, build_terminology

__all__ = ["Concept", "Match", "Term", "Terminology", "build_terminology", "read_terms"]
