"""Thinc architectures of the heads, and the decoding of their predictions."""

from typing import TYPE_CHECKING

from ..lazy_names import attach

if TYPE_CHECKING:
    from .answer_classifier import AnswerClassifier_v1
    from .answer_spans import best_spans
    from .relation_classifier import RelationClassifier_v1
    from .tagging import Spans, TagScheme
    from .text_classifier import TextClassifier_v1
    from .token_classifier import TokenClassifier_v1
    from .window_linear import WindowLinear
    from .word_embed import WordEmbed_v1
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "answer_classifier": ["AnswerClassifier_v1"],
            "answer_spans": ["best_spans"],
            "relation_classifier": ["RelationClassifier_v1"],
            "tagging": ["Spans", "TagScheme"],
            "text_classifier": ["TextClassifier_v1"],
            "token_classifier": ["TokenClassifier_v1"],
            "window_linear": ["WindowLinear"],
            "word_embed": ["WordEmbed_v1"],
        },
    )

__all__ = [
    "AnswerClassifier_v1",
    "RelationClassifier_v1",
    "Spans",
    "TagScheme",
    "TextClassifier_v1",
    "TokenClassifier_v1",
    "WindowLinear",
    "WordEmbed_v1",
    "best_spans",
]
