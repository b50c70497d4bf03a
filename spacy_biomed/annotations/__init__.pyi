from .annotation_scope import AnnotationScope, annotates_any, get_scope, set_scope
from .deidentified import Deidentified, Replacement
from .marked_arguments import find_marked_arguments, mark_arguments
from .pairs import get_pair, join_pair, mark_pair, pair
from .relation_layer import SpanRelation
from .seen import SeenMentions
from .taught import get_taught, set_taught, taught_classes

__all__ = [
    "AnnotationScope",
    "Deidentified",
    "Replacement",
    "SeenMentions",
    "SpanRelation",
    "annotates_any",
    "find_marked_arguments",
    "get_pair",
    "get_scope",
    "get_taught",
    "join_pair",
    "mark_arguments",
    "mark_pair",
    "pair",
    "set_scope",
    "set_taught",
    "taught_classes",
]
