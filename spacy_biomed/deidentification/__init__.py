"""Surrogates for personal data, kinds of personal data, and lists of terms."""

from typing import TYPE_CHECKING

from ..lazy_names import attach

if TYPE_CHECKING:
    from .document_key import DocumentKey, derive_key
    from .phi_kinds import identifying_labels, merge_kinds
    from .surrogate_dates import DateShift
    from .surrogate_formats import FormatSurrogates
    from .surrogate_names import NameSurrogates
    from .surrogate_places import PlaceSurrogates
    from .surrogates import Surrogates
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "document_key": ["DocumentKey", "derive_key"],
            "phi_kinds": ["identifying_labels", "merge_kinds"],
            "surrogate_dates": ["DateShift"],
            "surrogate_formats": ["FormatSurrogates"],
            "surrogate_names": ["NameSurrogates"],
            "surrogate_places": ["PlaceSurrogates"],
            "surrogates": ["Surrogates"],
        },
    )

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
