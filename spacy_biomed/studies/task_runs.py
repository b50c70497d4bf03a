"""The trainings of a study of tasks: each is run once, and leaves its scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import spacy
from thinc.api import Config

from ..encoders.loading import load_pretrained
from ..errors import BiomedError, quote
from ..outputs import remove_directory, replace_text
from ..training.checkpoint import digest_files
from ..training.corpus import read_doc_bin
from ..training.multitask_config import Schedule, Task, create_multitask_config
from ..training.resumable import DIR_MODEL_BEST, DIR_MODEL_LAST, MADE_BY
from .task_scores import score_tasks
from .trainings import create_digest, read_result, train_in

RUNS, SCORES = "runs", "scores.json"


@dataclass(frozen=True, slots=True)
class StudySettings:
    """The settings of all runs of a study.

    Attributes:
        encoder: a catalogue name, a hub id or a directory, such as in a refined pipeline.
        schedule: schedule of several tasks. With "proportional" a task has as many steps together
            with others as alone.
        template, epochs, batch_words, learn_rate: as in `create_multitask_config`.
        seeds: each training is run once with each seed.
        part: part to score, "test" or "dev".
        gpu: number of the GPU; -1 for none.
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

    def describe_mean(self, metrics: Mapping[str, str]) -> str:
        """Say what the numbers of a table are: the mean of which seeds, and each task's metric."""
        seeds = ", ".join(map(str, self.seeds))
        named = ", ".join(f"{task}: `{metric}`" for task, metric in metrics.items())
        return f"mean over seeds {seeds}. {named}."


@dataclass(frozen=True, slots=True)
class RunScores:
    """The result of a run.

    Attributes:
        metrics: name of each task's score.
        scores: by task, 0 to 1.
    """

    metrics: dict[str, str]
    scores: dict[str, float]


def check_tasks(folders: Sequence[Path], settings: StudySettings) -> None:
    """Check the inputs of all runs before the first run.

    Raises:
        BiomedError: if the template, the encoder or a corpus cannot be read, or if there is no such
            part to score.
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
    """Train the tasks of converted corpora on one encoder and score each, unless this was done.

    An interrupted run is resumed. A run whose config, corpora or encoder have changed is run again.

    Args:
        folders: the converted corpora.
        place: folder of the run, where its config, log and scores stay.
        settings: settings of the run.
        seed: seed of the run.
        keep_pipeline: whether `model-best` stays there too.

    Raises:
        BiomedError: as in `create_multitask_config` and training, or if a part has nothing to score
            for a task.
    """
    config, tasks = _create_config(folders, settings, seed)
    metrics = {task.name: task.score for task in tasks}
    digest = _digest(config, tasks, settings)
    result = read_result(place / SCORES, digest)
    if result is not None and (not keep_pipeline or (place / DIR_MODEL_BEST).is_dir()):
        return RunScores(metrics, result["scores"])
    train_in(place, config, settings.gpu)
    by_name = score_tasks(spacy.load(place / DIR_MODEL_BEST), settings.part)
    missing = [task.name for task in tasks if task.score not in by_name]
    if missing:
        raise BiomedError(
            f"{settings.part}.spacy of '{missing[0]}' has nothing that its task's score counts: "
            "choose another --part"
        )
    scores = {task.name: by_name[task.score] for task in tasks}
    replace_text(place / SCORES, json.dumps({"run": digest, "scores": scores}))
    remove_directory(place / DIR_MODEL_LAST, MADE_BY)
    if not keep_pipeline:
        remove_directory(place / DIR_MODEL_BEST, MADE_BY)
    return RunScores(metrics, scores)


def _create_config(
    folders: Sequence[Path], settings: StudySettings, seed: int
) -> tuple[Config, list[Task]]:
    return create_multitask_config(
        list(folders),
        encoder=settings.encoder,
        template=settings.template,
        schedule=settings.schedule,
        epochs=settings.epochs,
        batch_words=settings.batch_words,
        learn_rate=settings.learn_rate,
        seed=seed,
    )


def _digest(config: Config, tasks: list[Task], settings: StudySettings) -> str:
    """A hash of everything that determines the scores of a run."""
    encoder = Path(settings.encoder).expanduser()
    names = ("train", "dev", settings.part)
    parts = {task.folder / f"{name}.spacy" for task in tasks for name in names}
    files = [digest_files(path) for path in sorted(parts)]
    files.append(digest_files(encoder) if encoder.is_dir() else "")
    return create_digest(config.to_str(), settings.part, *files)
