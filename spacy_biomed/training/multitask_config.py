"""A training config for several converted corpora on one encoder, each with a head of its own."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from spacy.vocab import Vocab
from thinc.api import Config

from ..errors import BiomedError, list_choices, quote
from ..formats.spacy_docs import read_docs
from ..pipeline.encoder_head import CATS, EncoderHead
from .config import (
    NO_CORPUS,
    Recipe,
    add_head,
    check_encoder_name,
    count_batches,
    default_weights,
    fill_variables,
    find_template,
    has_no_head,
    list_training_files,
    read_description,
    read_template,
)
from .corpus import find_learner

Schedule = Literal["round_robin", "proportional"]

MULTITASK = "multitask"

# spaCy's code for text of several languages.
ANY_LANGUAGE = "xx"


@dataclass(slots=True)
class Task:
    """A converted corpus and the head that it trains; both have the folder's name."""

    folder: Path
    task: str  # its kind, as the catalogue or `corpus.json` call it
    language: str
    head: type[EncoderHead]
    settings: dict[str, object]  # the head's, where neither factory nor template has them
    files: list[str]  # from which the head learns
    score: str = ""  # name of the head's main score
    # In the training part, for a head that reads `doc.cats`.
    classes: list[str] = field(default_factory=list)
    batches: int = 0  # in one pass over the training part

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def factory(self) -> str:
        return self.head.default_name


def create_multitask_config(
    folders: list[Path],
    *,
    encoder: str,
    template: Path | str = MULTITASK,
    schedule: Schedule | None = None,
    epochs: int | None = None,
    batch_words: int | None = None,
    batch_size: int | None = None,
    learn_rate: float | None = None,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
) -> tuple[Config, list[Task]]:
    """Fill the template `multitask`: a head for each corpus, and what trains and scores them.

    The main score is the mean of the heads' main scores, all with the same weight.

    Args:
        folders: of `spacy biomed convert`; their names become those of the heads.
        template: as for `read_template`. Its section `[heads]` has, by factory, what differs from
            the factory's default config.
        schedule: see `spacy_biomed.training.multitask_batchers`; by default the template's.
        epochs: of the schedule.
        batch_size: of corpora that have no batcher of their own.
        encoder, batch_words, learn_rate, seed, settings: as for `fill_config`.

    Returns:
        the config, and what it trains.

    Raises:
        BiomedError: if the template or a corpus is not there or not one, names do not fit, or a
            corpus's task has no head.
    """
    if schedule not in (None, *get_args(Schedule)):
        choices = list_choices(str(schedule), get_args(Schedule))
        raise BiomedError(f"--schedule {schedule}: {choices}")
    check_encoder_name(encoder)
    config = read_template(template)
    has_paths = all("paths" in config.get("corpora", {}).get(one, {}) for one in ("train", "dev"))
    has_batcher = "batcher" in config.get("training", {}).get("batcher", {})
    if not (has_no_head(config) and has_paths and has_batcher):
        raise BiomedError(
            f"{find_template(template)}: not for several corpora: begin with the template "
            f"'{MULTITASK}'"
        )
    _check_names(folders, config)
    variables = {"encoder": encoder, "seed": seed, "learn_rate": learn_rate}
    config, recipe, settings = fill_variables(config, settings, variables, batch_words, batch_size)
    tasks = [read_task(folder, recipe) for folder in folders]
    # Corpora that have a class which another has too.
    counts = Counter(label for task in tasks for label in task.classes)
    clashing = [task.name for task in tasks if any(counts[one] > 1 for one in task.classes)]
    _fill_corpora(config, recipe, tasks, clashing)
    steps = _set_batchers(config, recipe, tasks, schedule)
    recipe.fill(config["vars"], steps, recipe.epochs if epochs is None else epochs)
    languages = {task.language for task in tasks}
    config["nlp"]["lang"] = languages.pop() if len(languages) == 1 else ANY_LANGUAGE
    _add_heads(config, tasks, clashing)
    return config.merge(settings), tasks


def read_task(folder: Path, recipe: Recipe) -> Task:
    """Look what a converted corpus is for."""
    description = read_description(folder)
    kind, head = find_learner(folder, description)
    settings = {**head.learns[kind], **head.corpus_settings(description)}
    if head.place_setting:
        settings[head.place_setting] = folder.name
    files = list_training_files(folder, recipe)
    task = Task(folder, kind, description["language"], head, settings, files)
    if recipe.development_part and not (folder / "dev.spacy").is_file():
        raise BiomedError(f"{folder}: no dev.spacy there, which chooses the best checkpoint")
    if head.layer(settings) == CATS:
        docs = read_docs(folder / "train.spacy", Vocab())
        task.classes = sorted({label for doc in docs for label in doc.cats})
    return task


def _fill_corpora(config: Config, recipe: Recipe, tasks: list[Task], clashing: list[str]) -> None:
    train, dev = config["corpora"]["train"], config["corpora"]["dev"]
    for task in tasks:
        train["paths"][task.name] = task.files if len(task.files) > 1 else task.files[0]
    dev["paths"] = {task.name: (task.folder / "dev.spacy").as_posix() for task in tasks}
    if clashing:
        train["prefixed"] = dev["prefixed"] = clashing
    given = train.get("max_words", {})
    if not isinstance(given, Mapping):
        raise BiomedError(
            f"corpora.train.max_words = {quote(given)}: several corpora are trained together; "
            "give a section with a number for each corpus"
        )
    max_words = {**{task.name: recipe.max_words.get(task.factory, 0) for task in tasks}, **given}
    if any(max_words.values()):
        train["max_words"] = {name: words for name, words in max_words.items() if words}
    if not recipe.development_part:
        config["corpora"]["dev"] = dict(NO_CORPUS)


def _set_batchers(
    config: Config, recipe: Recipe, tasks: list[Task], schedule: Schedule | None
) -> int:
    """Set the schedule and the batchers, count the batches of each task, and return an epoch's."""
    section = config["training"]["batcher"]
    if schedule is not None:
        section["@batchers"] = f"spacy_biomed.{schedule}.v1"
    own = {task.name: recipe.batchers.get(task.factory) for task in tasks}
    if others := {name: dict(batcher) for name, batcher in own.items() if batcher is not None}:
        section["batchers"] = others
    filled = config.interpolate()
    max_words = filled["corpora"]["train"].get("max_words", {})
    for task in tasks:
        batcher = filled["training"]["batcher"]
        batcher = batcher.get("batchers", {}).get(task.name, batcher["batcher"])
        task.batches = count_batches(task.files, batcher, max_words.get(task.name, 0))
    batches = [task.batches for task in tasks]
    is_proportional = section["@batchers"] == "spacy_biomed.proportional.v1"
    return sum(batches) if is_proportional else len(batches) * max(batches)


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


def _add_heads(config: Config, tasks: list[Task], clashing: list[str]) -> None:
    """Components, their classes, and the weights of their scores."""
    weights: dict[str, float | None] = {}
    for task in sorted(tasks, key=lambda one: one.head.reads_entities):
        task.score = add_head(config, task.name, task.head, task.settings)
        if task.classes:
            prefix = f"{task.name}_" if task.name in clashing else ""
            try:
                own, initialize = task.head.class_settings([prefix + one for one in task.classes])
            except BiomedError as error:
                raise BiomedError(f"{task.folder}: {error}") from error
            # Without its classes a head would take those of all corpora from `doc.cats`.
            config["components"][task.name].update(own)
            if initialize:
                config["initialize"]["components"][task.name] = initialize
        # Their default names would be weighted too where the config says nothing of them.
        weights.update(dict.fromkeys(default_weights(task.head)))
    config.pop("heads", None)
    weights.update({task.score: round(1.0 / len(tasks), 4) for task in tasks})
    config["training"]["score_weights"] = weights
