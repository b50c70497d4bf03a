from .answer_spans import best_spans
from .span_classifiers import ConceptPairClassifier_v1, MentionClassifier_v1
from .tagging import Spans, TagScheme
from .text_classifiers import RelationClassifier_v1, TextClassifier_v1
from .token_classifiers import AnswerClassifier_v1, TokenClassifier_v1
from .window_linear import WindowLinear
from .word_embed import WordEmbed_v1

__all__ = [
    "AnswerClassifier_v1",
    "ConceptPairClassifier_v1",
    "MentionClassifier_v1",
    "RelationClassifier_v1",
    "Spans",
    "TagScheme",
    "TextClassifier_v1",
    "TokenClassifier_v1",
    "WindowLinear",
    "WordEmbed_v1",
    "best_spans",
]
