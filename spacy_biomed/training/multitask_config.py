"""A training config for several converted corpora on one encoder, each with a head of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import spacy
from spacy.vocab import Vocab
from thinc.api import Config

from ..corpora.corpus_catalogue import find_corpus
from ..errors import BiomedError
from ..pipeline.component_classes import list_heads
from ..pipeline.encoder_head import CATS, EncoderHead
from .config import (
    WARMUP_SHARE,
    check_encoder_name,
    count_batches,
    read_description,
    read_template,
)
from .corpus import read_docs

Schedule = Literal["round_robin", "proportional"]
SCHEDULES: tuple[Schedule, ...] = ("round_robin", "proportional")

ENCODER = "biomed_transformer"

# spaCy's code for text of several languages.
ANY_LANGUAGE = "xx"


@dataclass(slots=True)
class Task:
    """A converted corpus and the head that it trains; both have the folder's name.

    Attributes:
        task: what kind of task it is, as the catalogue or `corpus.json` call it.
        language: spaCy's code.
        head: class of the head.
        settings: of the head, where they are neither the factory's nor the template's.
        score: name of the head's main score.
        classes: of a head that reads `doc.cats`, the names that the training part has there.
        batches: in one pass over the training part.
    """

    folder: Path
    task: str
    language: str
    head: type[EncoderHead]
    settings: dict[str, Any]
    score: str = ""
    classes: list[str] = field(default_factory=list)
    batches: int = 0

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def factory(self) -> str:
        return self.head.default_name


def create_multitask_config(
    template: Path,
    folders: list[Path],
    *,
    encoder: str,
    schedule: Schedule = "round_robin",
    epochs: int,
    batch_words: int | None = None,
    learn_rate: float | None = None,
    seed: int = 0,
) -> tuple[Config, list[Task]]:
    """Fill `configs/multitask.cfg`: a head for each corpus, and what trains and scores them.

    The main score is the mean of the heads' main scores, all with the same weight.

    Args:
        template: `configs/multitask.cfg`, or one like it. Its section `[heads]` has, by factory,
            what differs from the factory's default config.
        folders: of `spacy biomed convert`; their names become those of the heads.
        encoder: a catalogue name, a hub id or a directory.
        schedule: "round_robin" or "proportional", see `spacy_biomed.training.multitask_batchers`.
        epochs: of the schedule; the development parts are scored after each.
        batch_words: tokens in a batch; by default the template's.
        learn_rate: highest learning rate; by default the template's.
        seed: of the initial weights, the order of the batches and dropout.

    Returns:
        the config, and what it trains.

    Raises:
        BiomedError: if the template or a corpus is not there or not one, names do not fit, or a
            corpus's task has no head.
    """
    if schedule not in SCHEDULES:
        raise BiomedError(f"--schedule {schedule}: use {' or '.join(SCHEDULES)}")
    check_encoder_name(encoder)
    config = read_template(template)
    if "heads" not in config:
        raise BiomedError(f"{template}: no section [heads]; begin with configs/multitask.cfg")
    _check_names(folders, config)
    words = config["vars"]["batch_words"] if batch_words is None else batch_words
    tasks = [read_task(folder, words) for folder in folders]
    config["vars"].update(encoder=encoder, seed=seed, batch_words=words)
    if learn_rate is not None:
        config["vars"]["learn_rate"] = learn_rate
    _set_schedule(config, schedule, epochs, tasks)
    languages = {task.language for task in tasks}
    config["nlp"]["lang"] = languages.pop() if len(languages) == 1 else ANY_LANGUAGE
    for task in tasks:
        config["components"][ENCODER]["model"].update(task.head.encoder_settings)
    _add_heads(config, tasks)
    _add_corpora(config, tasks)
    return config, tasks


def read_task(folder: Path, batch_words: int) -> Task:
    """Look what a converted corpus is for.

    Raises:
        BiomedError: if it is no corpus, or for nothing that there is a head for.
    """
    description = read_description(folder)
    kind = find_task(folder, description)
    head = find_learners()[kind]
    settings = {
        **head.learns[kind],
        **head.corpus_settings(description),
        **head.place_settings(folder.name),
    }
    task = Task(folder, kind, description["language"], head, settings)
    train = folder / "train.spacy"
    if not (folder / "dev.spacy").is_file():
        raise BiomedError(f"{folder}: no dev.spacy there, which chooses the best checkpoint")
    if head.layer(settings) == CATS:
        found = {label for doc in read_docs(train, Vocab()) for label in doc.cats}
        task.classes = sorted(found)
    task.batches = count_batches(train, batch_words)
    return task


def find_learners() -> dict[str, type[EncoderHead]]:
    """The head that learns from each kind of corpus; of several the first by its factory's name."""
    learners: dict[str, type[EncoderHead]] = {}
    for head in list_heads().values():
        for kind in head.learns:
            learners.setdefault(kind, head)
    return learners


def find_task(folder: Path, description: dict[str, Any]) -> str:
    """The task of a corpus: what its `corpus.json` says, else the catalogue, else what it holds.

    Raises:
        BiomedError: if none of them says, or there is no head for it.
    """
    kind = description.get("task") or _catalogue_task(description["name"]) or _guess(description)
    learners = find_learners()
    if kind in learners:
        return kind
    problem = f"no head learns the task '{kind}'" if kind else "its task is not known"
    raise BiomedError(
        f'{folder / "corpus.json"}: {problem}; add "task" with one of {", ".join(learners)}'
    )


def _catalogue_task(name: str) -> str | None:
    try:
        return find_corpus(name).task
    except BiomedError:  # the user's own
        return None


def _guess(description: dict[str, Any]) -> str | None:
    train = description["parts"].get("train", {})
    held = {"relations": "relations", "mentions": "ner", "classes": "textcat_multilabel"}
    return next((kind for layer, kind in held.items() if train.get(layer)), None)


def count_steps(schedule: Schedule, batches: list[int]) -> int:
    """Batches, which are optimizer steps, in an epoch of a schedule.

    Args:
        batches: of each task.
    """
    return len(batches) * max(batches) if schedule == "round_robin" else sum(batches)


def _set_schedule(config: Config, schedule: Schedule, epochs: int, tasks: list[Task]) -> None:
    config["training"]["batcher"]["@batchers"] = f"spacy_biomed.{schedule}.v1"
    steps = count_steps(schedule, [task.batches for task in tasks])
    warmup_steps = max(round(WARMUP_SHARE * epochs * steps), 1)
    config["vars"].update(max_steps=epochs * steps, warmup_steps=warmup_steps, eval_frequency=steps)


def _check_names(folders: list[Path], config: Config) -> None:
    if not folders:
        raise BiomedError("--tasks names no corpus: give converted corpora, as in --tasks a,b,c")
    names = Counter(folder.name for folder in folders)
    name, times = names.most_common(1)[0]
    if times > 1:
        raise BiomedError(f"--tasks names '{name}' {times} times: give each corpus once")
    for name in names:
        if "." in name or not name or name in config["components"]:
            raise BiomedError(
                f"'{name}' cannot be the name of a head: rename the corpus's folder (no points, "
                f"and not {' or '.join(config['components'])})"
            )


def _add_heads(config: Config, tasks: list[Task]) -> None:
    """Components, their classes, and the weights of their scores."""
    templates = config.pop("heads")
    clashing = find_clashing(tasks)
    nlp = spacy.blank(config["nlp"]["lang"])
    weights: dict[str, float | None] = {}
    for task in tasks:
        meta = nlp.get_factory_meta(task.factory)
        settings = Config(meta.default_config).copy().merge(templates.get(task.factory, {}))
        settings = settings.merge(task.settings)
        config["components"][task.name] = {"factory": task.factory, **settings}
        config["nlp"]["pipeline"] = [*config["nlp"]["pipeline"], task.name]
        if task.classes:
            prefix = f"{task.name}_" if task.name in clashing else ""
            _name_classes(config, task, [prefix + label for label in task.classes])
        # Their default names would be weighted too where the config says nothing of them.
        weights.update(dict.fromkeys(meta.default_score_weights or ()))
        task.score = task.head.main_score(task.name, settings)
    weights.update({task.score: round(1.0 / len(tasks), 4) for task in tasks})
    config["training"]["score_weights"] = weights


def _name_classes(config: Config, task: Task, labels: list[str]) -> None:
    """Tell a head its part of `doc.cats`, of which it would else take all corpora's."""
    try:
        settings, initialize = task.head.class_settings(labels)
    except BiomedError as error:
        raise BiomedError(f"{task.folder}: {error}") from error
    config["components"][task.name].update(settings)
    if initialize:
        config["initialize"]["components"][task.name] = initialize


def find_clashing(tasks: list[Task]) -> list[str]:
    """The names of tasks that have a class which another has too."""
    counts = Counter(label for task in tasks for label in task.classes)
    return [task.name for task in tasks if any(counts[label] > 1 for label in task.classes)]


def _add_corpora(config: Config, tasks: list[Task]) -> None:
    clashing = find_clashing(tasks)
    for part in ("train", "dev"):
        reader = config["corpora"][part]
        reader["paths"] = {task.name: (task.folder / f"{part}.spacy").as_posix() for task in tasks}
        if clashing:
            reader["prefixed"] = clashing
