from .distillation_study import Student, make_students
from .encoder_report import EncoderFigures, write_report
from .encoder_study import Contestant, EncoderStudySettings, parse_contestants, study_encoders
from .figures import Dot, draw_effects, draw_scatter
from .pairwise import PairwiseStudy, study_pairs, write_study
from .refinement import FineTuning, Refinement, study_refinement
from .task_runs import RunScores, StudySettings
from .task_scores import score_tasks

__all__ = [
    "Contestant",
    "Dot",
    "EncoderFigures",
    "EncoderStudySettings",
    "FineTuning",
    "PairwiseStudy",
    "Refinement",
    "RunScores",
    "Student",
    "StudySettings",
    "draw_effects",
    "draw_scatter",
    "make_students",
    "parse_contestants",
    "score_tasks",
    "study_encoders",
    "study_pairs",
    "study_refinement",
    "write_report",
    "write_study",
]
