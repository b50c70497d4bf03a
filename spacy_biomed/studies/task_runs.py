"""Trainings of a study of tasks: each is made once, and leaves its scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import spacy
from spacy.training.initialize import init_nlp
from thinc.api import Config

from ..encoders.loading import load_pretrained
from ..errors import BiomedError, quote
from ..outputs import remove_directory, replacing_file
from ..training.checkpoint import digest_files
from ..training.corpus import read_doc_bin
from ..training.multitask_config import Schedule, Task, create_multitask_config
from ..training.resumable import DIR_MODEL_BEST, DIR_MODEL_LAST, MADE_BY, train
from .task_scores import score_tasks

RUNS, SCORES, CONFIG, LOG = "runs", "scores.json", "config.cfg", "log.txt"

# Called with what is trained now.
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StudySettings:
    """What all runs of a study have in common.

    Attributes:
        template: `configs/multitask.cfg`, or one like it.
        encoder: a catalogue name, a hub id or a directory, such as that of a refined pipeline.
        schedule: of several tasks. "proportional" gives a task as many steps beside others as
            alone.
        epochs, batch_words, learn_rate: as in `create_multitask_config`.
        seeds: each run is made once with each.
        part: the scores are of "test" or "dev".
        gpu: its number; -1 for none.
    """

    template: Path
    encoder: str
    schedule: Schedule = "proportional"
    epochs: int = 10
    batch_words: int | None = None
    learn_rate: float | None = None
    seeds: tuple[int, ...] = (0,)
    part: str = "test"
    gpu: int = -1


@dataclass(frozen=True, slots=True)
class RunScores:
    """What became of a run.

    Attributes:
        metrics: name of each task's score.
        scores: by task, 0 to 1.
    """

    metrics: dict[str, str]
    scores: dict[str, float]


def check_tasks(folders: Sequence[Path], settings: StudySettings) -> None:
    """See that all runs have what they need, before the first of them.

    Raises:
        BiomedError: if the template, the encoder or a corpus cannot be read, or the part to score
            is none.
    """
    if settings.part not in ("test", "dev"):
        raise BiomedError(f"--part {quote(settings.part)}: use test or dev")
    _create_config(folders, settings, settings.seeds[0])
    for folder in folders:
        read_doc_bin(folder / f"{settings.part}.spacy")
    load_pretrained(settings.encoder)


def run_tasks(
    folders: Sequence[Path],
    place: Path,
    settings: StudySettings,
    seed: int,
    *,
    keep_pipeline: bool = False,
) -> RunScores:
    """Train the tasks of converted corpora on one encoder and score each, unless that was done.

    A run that was stopped goes on. One whose config, corpora or encoder have changed is made anew.

    Args:
        place: folder of the run; its config, log and scores stay there.
        keep_pipeline: whether `model-best` stays there too.

    Raises:
        BiomedError: as `create_multitask_config` and training do, or if a part has nothing that a
            task's score counts.
    """
    config, tasks = _create_config(folders, settings, seed)
    metrics = {task.name: task.score for task in tasks}
    digest = _digest(config, tasks, settings)
    scores = _read_scores(place / SCORES, digest)
    if scores is not None and (not keep_pipeline or (place / DIR_MODEL_BEST).is_dir()):
        return RunScores(metrics, scores)
    place.mkdir(parents=True, exist_ok=True)
    config.to_disk(place / CONFIG)
    nlp = init_nlp(config, use_gpu=settings.gpu)
    with (place / LOG).open("a", encoding="utf8") as log:
        train(nlp, place, use_gpu=settings.gpu, stdout=log, stderr=log)
    by_name = score_tasks(spacy.load(place / DIR_MODEL_BEST), settings.part)
    missing = [task.name for task in tasks if task.score not in by_name]
    if missing:
        raise BiomedError(
            f"{settings.part}.spacy of '{missing[0]}' has nothing that its task's score counts: "
            "choose another --part"
        )
    scores = {task.name: by_name[task.score] for task in tasks}
    with replacing_file(place / SCORES) as partial:
        partial.write_text(json.dumps({"run": digest, "scores": scores}), encoding="utf8")
    remove_directory(place / DIR_MODEL_LAST, MADE_BY)
    if not keep_pipeline:
        remove_directory(place / DIR_MODEL_BEST, MADE_BY)
    return RunScores(metrics, scores)


def _create_config(
    folders: Sequence[Path], settings: StudySettings, seed: int
) -> tuple[Config, list[Task]]:
    return create_multitask_config(
        settings.template,
        list(folders),
        encoder=settings.encoder,
        schedule=settings.schedule,
        epochs=settings.epochs,
        batch_words=settings.batch_words,
        learn_rate=settings.learn_rate,
        seed=seed,
    )


def _digest(config: Config, tasks: list[Task], settings: StudySettings) -> str:
    """Of what decides the scores of a run."""
    encoder = Path(settings.encoder).expanduser()
    names = ("train", "dev", settings.part)
    parts = {task.folder / f"{name}.spacy" for task in tasks for name in names}
    files = [digest_files(path) for path in sorted(parts)]
    files.append(digest_files(encoder) if encoder.is_dir() else "")
    text = "\n".join([config.to_str(), settings.part, *files])
    return hashlib.sha256(text.encode()).hexdigest()


def _read_scores(path: Path, digest: str) -> dict[str, float] | None:
    """The scores of a finished run; None if there are none, or they are of another run."""
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf8"))
    return content["scores"] if content["run"] == digest else None
