from .assertion import BiomedAssertion, assertion_scorer_v1, score_assertions
from .consistency import BiomedConsistency
from .deidentify import BiomedDeidentifier, add_deidentifier
from .described import Described, ShownScores
from .encoder_head import EncoderHead
from .encoder_pipe import EncoderPipe, OnnxEncoder, SharedEncoder
from .linking.component import BiomedLinker
from .ner import BiomedNER, mention_scorer_v1, score_mentions
from .ner.calibrating import Calibration, calibrate
from .ner.development import LabelRecall
from .notes import BiomedContext, BiomedSections, BiomedSentences
from .pipeline_loading import load_pipeline
from .qa.component import BiomedQA
from .qa.scores import Question, answer_scorer_v1, score_answers, score_questions
from .relations.candidates import Candidate, find_candidates
from .relations.component import BiomedRelations, relation_scorer_v1, score_relations
from .relations.concept_scores import concept_relation_scorer_v1, score_concepts
from .relations.documents import BiomedDocumentRelations
from .similarity import BiomedSimilarity, score_similarity, similarity_scorer_v1
from .textcat.component import BiomedTextCategorizer
from .textcat.scores import classification_scorer_v1, score_classes

__all__ = [
    "BiomedAssertion",
    "BiomedConsistency",
    "BiomedContext",
    "BiomedDeidentifier",
    "BiomedDocumentRelations",
    "BiomedLinker",
    "BiomedNER",
    "BiomedQA",
    "BiomedRelations",
    "BiomedSections",
    "BiomedSentences",
    "BiomedSimilarity",
    "BiomedTextCategorizer",
    "Calibration",
    "Candidate",
    "Described",
    "EncoderHead",
    "EncoderPipe",
    "LabelRecall",
    "OnnxEncoder",
    "Question",
    "SharedEncoder",
    "ShownScores",
    "add_deidentifier",
    "answer_scorer_v1",
    "assertion_scorer_v1",
    "calibrate",
    "concept_relation_scorer_v1",
    "classification_scorer_v1",
    "find_candidates",
    "load_pipeline",
    "mention_scorer_v1",
    "relation_scorer_v1",
    "score_answers",
    "score_assertions",
    "score_classes",
    "score_concepts",
    "score_mentions",
    "score_questions",
    "score_relations",
    "score_similarity",
    "similarity_scorer_v1",
]
