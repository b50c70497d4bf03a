"""Run a study: train, measure, and write the report; score a pipeline of several tasks."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from spacy.language import Language
from spacy.util import registry
from thinc.api import Config

from ..corpora.splits import PARTS
from ..errors import BiomedError, list_choices
from ..evaluation.benchmark import describe_machine, measure_pipelines
from ..files.outputs import replace_text
from ..formats.inputs import read_texts
from ..packaging.compression import weighted_scores
from ..training.multitask import MultiTaskCorpus
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
        corpora_dir: folder of the converted corpora.
        output, jobs, gpus, progress: as in `make_runs`.

    Raises:
        BiomedError: as in `make_runs`, or if a metric is not there or a pipeline cannot be timed.
    """
    texts = _read_texts(study, corpora_dir, plan)
    make_runs(plan.find_open(output), output, jobs=jobs, gpus=gpus, progress=progress)
    results = collect_results(study, plan, output)
    write_report(results, output, _measure(results, output, texts) if texts else None)
    return results


def score_tasks(nlp: Language, part: str = "test") -> dict[str, float]:
    """Score each component on the corpus it was trained on.

    Args:
        nlp: a pipeline trained with `spacy_biomed.MultiTaskCorpus.v1`, whose config has the paths.
        part: "train", "dev" or "test".

    Returns:
        the scores with a weight in the config's score weights, 0 to 1, by name.

    Raises:
        BiomedError: if the pipeline was trained on one corpus, or a part does not exist.
    """
    return weighted_scores(nlp, list(read_part(nlp.config.interpolate(), part)(nlp)))


def read_part(config: Config, part: str) -> MultiTaskCorpus:
    """Create the corpora of another part, beside a config's development or training parts."""
    corpora = config.get("corpora", {})
    readers = [corpora.get(name, {}) for name in ("dev", "train")]
    found = [one for one in readers if one.get("@readers") == "spacy_biomed.MultiTaskCorpus.v1"]
    if not found:
        raise BiomedError(
            "the pipeline's config has no spacy_biomed.MultiTaskCorpus.v1 in corpora.dev: "
            "`python -m spacy evaluate` scores a pipeline of one task"
        )
    if part not in PARTS:
        raise BiomedError(f"--part {part}: {list_choices(part, PARTS)}")
    settings = found[0]
    paths = {
        name: str(Path(path[0] if isinstance(path, list) else path).with_name(f"{part}.spacy"))
        for name, path in settings["paths"].items()
    }
    # A limit is only for faster evaluation during training, and sub-sentences only for learning.
    whole = {**settings, "paths": paths, "limit": 0, "max_words": {}}
    return registry.resolve({"corpus": whole})["corpus"]


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
    """Time and memory of the kept pipeline of each row; earlier figures of the same are kept."""
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
