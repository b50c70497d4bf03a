"""The component `biomed_ner`, its targets, its scores, and its calibration."""

from .component import FACTORY, BiomedNER, make_biomed_ner, mention_scorer_v1
from .scores import score_mentions

__all__ = ["FACTORY", "BiomedNER", "make_biomed_ner", "mention_scorer_v1", "score_mentions"]
