from .document_key import DocumentKey, derive_key
from .phi_kinds import identifying_labels, merge_kinds
from .surrogate_dates import DateShift
from .surrogate_words import FormatSurrogates, NameSurrogates, PlaceSurrogates
from .surrogates import Surrogates

__all__ = [
    "DateShift",
    "DocumentKey",
    "FormatSurrogates",
    "NameSurrogates",
    "PlaceSurrogates",
    "Surrogates",
    "derive_key",
    "identifying_labels",
    "merge_kinds",
]
