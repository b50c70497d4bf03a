from .cues import CueMatcher
from .headings import Heading, find_headings
from .sentence_starts import find_sentence_starts
from .term_files import expand, read_groups

__all__ = [
    "CueMatcher",
    "Heading",
    "expand",
    "find_headings",
    "find_sentence_starts",
    "read_groups",
]
