from .distillation_study import Student, make_students
from .figures import Dot, ScoredRow, draw_effects, draw_scatter, draw_scores
from .paired_tests import PairedTest, compare_tallies
from .planning import Plan, Trial, plan_study
from .report import write_report
from .results import Cell, Results, collect_results
from .runs import Run, make_runs
from .study import run_study, score_tasks
from .study_config import PublishedTable, Study, find_table, read_study

__all__ = [
    "ScoredRow",
    "Cell",
    "Dot",
    "PairedTest",
    "Plan",
    "PublishedTable",
    "Results",
    "Run",
    "Student",
    "Study",
    "Trial",
    "collect_results",
    "compare_tallies",
    "draw_scores",
    "draw_effects",
    "draw_scatter",
    "find_table",
    "make_runs",
    "make_students",
    "plan_study",
    "read_study",
    "run_study",
    "score_tasks",
    "write_report",
]
