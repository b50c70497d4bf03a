from .annotation_scope import AnnotationScope, annotates_any, get_scope, set_scope
from .assertions import get_assertions, mark_assertions, set_assertions
from .deidentified import Deidentified, Replacement
from .marked_arguments import find_marked_arguments, mark_arguments
from .pairs import get_pair, join_pair, mark_pair, pair
from .relation_layer import SpanRelation
from .sections import get_section
from .seen_mentions import SeenMentions
from .soft_labels import get_soft_labels, set_soft_labels, soft_label_classes

__all__ = [
    "AnnotationScope",
    "Deidentified",
    "Replacement",
    "SeenMentions",
    "SpanRelation",
    "annotates_any",
    "find_marked_arguments",
    "get_assertions",
    "get_pair",
    "get_scope",
    "get_section",
    "get_soft_labels",
    "join_pair",
    "mark_arguments",
    "mark_assertions",
    "mark_pair",
    "pair",
    "set_assertions",
    "set_scope",
    "set_soft_labels",
    "soft_label_classes",
]
