"""Run a study: check, train what is not trained, measure, and write the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from ..evaluation.benchmark import describe_machine, measure_pipelines
from ..files.outputs import replace_text
from ..formats.inputs import read_texts
from .planning import Plan, find_folder
from .report import write_report
from .results import Results, collect_results
from .runs import PIPELINES, Run, create_digest, make_runs, read_result
from .study_config import Study

SPEEDS = "speeds.json"


def run_study(
    study: Study,
    plan: Plan,
    output: Path,
    *,
    corpora_dir: Path,
    jobs: int = 1,
    gpus: Sequence[int] = (),
    progress: Callable[[Run], None] = lambda run: None,
) -> Results:
    """Make the runs of a study that are not finished, and write its report.

    When it was stopped, it resumes the interrupted trainings and makes the missing ones. A run
    whose settings, corpus, encoder or version of the package have changed is made again.

    Args:
        output: folder of the study, which this process has locked.
        corpora_dir: folder of the converted corpora.
        jobs, gpus: as in `make_runs`.
        progress: called with each run when it is finished.

    Raises:
        BiomedError: as in `make_runs`, or if a metric is not there or a pipeline cannot be timed.
    """
    texts = _read_texts(study, corpora_dir, plan)
    make_runs(plan.find_open(output), output, jobs=jobs, gpus=gpus, progress=progress)
    results = collect_results(study, plan, output)
    write_report(results, output, _measure(results, output, texts) if texts else None)
    return results


def _read_texts(study: Study, corpora_dir: Path, plan: Plan) -> list[str]:
    """The texts for the timing; none if there is no timing."""
    if study.speed is None:
        return []
    first = next(corpus for _, corpus in plan.cells)
    if study.corpora[first].folds:
        raise study.error("speed", f"corpora.{first} has folds; time a corpus without them first")
    texts = study.speed.texts or find_folder(study, first, corpora_dir) / "test.spacy"
    return read_texts(texts)


def _measure(results: Results, output: Path, texts: list[str]) -> dict[str, object]:
    """Time and memory of the kept pipeline of each row, measured again only if one has changed."""
    study = results.study
    assert study.speed is not None
    first = next(corpus for _, corpus in results.cells)
    rows = [row for row in study.rows if (row, first) in results.cells]
    runs = [next(iter(results.cells[row, first].trials)).run for row in rows]
    settings = study.speed.model_dump(mode="json")
    digest = create_digest(*runs, *texts, json.dumps(settings))
    earlier = read_result(output / SPEEDS, digest)
    if earlier is not None:
        return earlier
    measured = measure_pipelines(
        [str(output / PIPELINES / run) for run in dict.fromkeys(runs)],
        texts,
        repeats=study.speed.repeats,
        threads=study.speed.threads,
    )
    figures = dict(zip(dict.fromkeys(runs), (one.to_json() for one in measured), strict=True))
    words = sum(len(text.split()) for text in texts)
    content: dict[str, object] = {
        "run": digest,
        "precision": study.speed.precision,
        "texts": f"{len(texts):,} texts of {words:,} words",
        "machine": describe_machine(),
        "pipelines": {row: figures[run] for row, run in zip(rows, runs, strict=True)},
    }
    replace_text(output / SPEEDS, json.dumps(content, indent=2) + "\n")
    return content
