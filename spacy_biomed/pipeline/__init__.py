"""spaCy components: one module for each, and what they share."""

from typing import TYPE_CHECKING

from ..lazy_names import attach

if TYPE_CHECKING:
    from .deidentify import BiomedDeidentifier, add_deidentifier
    from .described import Described, ShownScores
    from .encoder_head import EncoderHead
    from .encoder_pipe import EncoderPipe
    from .ner import BiomedNER, mention_scorer_v1, score_mentions
    from .onnx_transformer import OnnxEncoder
    from .pipeline_loading import load_pipeline
    from .qa import BiomedQA, answer_scorer_v1, score_answers
    from .qa_scores import Question, score_questions
    from .relation_candidates import Candidate, find_candidates
    from .relations import BiomedRelations, relation_scorer_v1, score_relations
    from .similarity import BiomedSimilarity, score_similarity, similarity_scorer_v1
    from .textcat import BiomedTextCategorizer, classification_scorer_v1, score_classes
    from .transformer import SharedEncoder
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "deidentify": ["BiomedDeidentifier", "add_deidentifier"],
            "described": ["Described", "ShownScores"],
            "encoder_head": ["EncoderHead"],
            "encoder_pipe": ["EncoderPipe"],
            "ner": ["BiomedNER", "mention_scorer_v1", "score_mentions"],
            "onnx_transformer": ["OnnxEncoder"],
            "pipeline_loading": ["load_pipeline"],
            "qa": ["BiomedQA", "answer_scorer_v1", "score_answers"],
            "qa_scores": ["Question", "score_questions"],
            "relation_candidates": ["Candidate", "find_candidates"],
            "relations": ["BiomedRelations", "relation_scorer_v1", "score_relations"],
            "similarity": ["BiomedSimilarity", "score_similarity", "similarity_scorer_v1"],
            "textcat": ["BiomedTextCategorizer", "classification_scorer_v1", "score_classes"],
            "transformer": ["SharedEncoder"],
        },
    )

__all__ = [
    "BiomedDeidentifier",
    "BiomedNER",
    "BiomedQA",
    "BiomedRelations",
    "BiomedSimilarity",
    "BiomedTextCategorizer",
    "Candidate",
    "Described",
    "EncoderHead",
    "EncoderPipe",
    "OnnxEncoder",
    "Question",
    "SharedEncoder",
    "ShownScores",
    "add_deidentifier",
    "answer_scorer_v1",
    "classification_scorer_v1",
    "find_candidates",
    "load_pipeline",
    "mention_scorer_v1",
    "relation_scorer_v1",
    "score_answers",
    "score_classes",
    "score_mentions",
    "score_questions",
    "score_relations",
    "score_similarity",
    "similarity_scorer_v1",
]
