"""How a component describes itself: its task, usage and scores, and what a head learns from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc


@dataclass(frozen=True, slots=True)
class ShownScores:
    """The names of a component's scores, from 0 to 1, that its model card shows, by title.

    Attributes:
        averages: scores with precision, recall and F1, named without `_p`, `_r` and `_f`.
        macro: scores that are only an F1.
        numbers: other scores.
        per_type: the score with a precision, a recall and an F1 for each label.
        unseen_per_type: the same for mentions that were not seen in training.
        reliability: the score with the bins of a `Reliability`.
    """

    averages: dict[str, str] = field(default_factory=dict)
    macro: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    per_type: str | None = None
    unseen_per_type: str | None = None
    reliability: str | None = None


class Described:
    """A component whose class describes it, given only its name and settings.

    `component_classes.find_described` finds such a class by the return annotation of its factory.

    Attributes:
        default_name: the factory's name.
        task_name: the field's name for its task; "" if it has none and is not in the model card.
        usage_line: what `usage` returns, if it does not depend on the settings.
        languages: the languages that it has rules for; empty for a component without such rules.
        needed_label: templates leave the component out for corpora without this label; "" for none.
        reads_words: whether it looks up words of the training texts in the vocabulary, which are
            then saved with a pipeline (`saved_words`).
    """

    default_name: ClassVar[str] = ""
    task_name: ClassVar[str] = ""
    usage_line: ClassVar[str]
    languages: ClassVar[tuple[str, ...]] = ()
    needed_label: ClassVar[str] = ""
    reads_words: ClassVar[bool] = False

    @classmethod
    def usage(cls, settings: Mapping[str, object]) -> str:
        """A line of Python that prints what a component with these settings finds in a `doc`."""
        return cls.usage_line

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
        """The scores that the model card shows for a component; by default none."""
        return ShownScores()

    @classmethod
    def corpus_settings(cls, description: Mapping[str, object]) -> dict[str, object]:
        """The settings that depend on a corpus, by the content of its `corpus.json`."""
        key = description.get("spans_key")
        known = Language.get_factory_meta(cls.default_name).default_config or {}
        return {"spans_key": key} if key and "spans_key" in known else {}


class DescribedHead(Described):
    """What distinguishes a head from others, given only its name and settings."""

    # Prefix of its score names. The scores of a component whose name is not `default_name` include
    # its name, as in `cats_hallmarks_score`, so that a pipeline can have several;
    # `training.score_weights` then has to name them.
    score_prefix: ClassVar[str] = ""
    main: ClassVar[str] = ""  # ending of the name of its main score
    # Endings of the names of the scores in its model card, by title, if all of them are plain
    # numbers.
    score_titles: ClassVar[Mapping[str, str]] = {}
    # The same for scores with precision, recall and F1, with a score `per_type`.
    averages: ClassVar[Mapping[str, str]] = {}
    layer_name: ClassVar[str]  # what `layer` returns, if it does not depend on the settings
    # Tasks it learns from, as named in the catalogue or `corpus.json`, each with the settings that
    # differ from the factory's.
    learns: ClassVar[Mapping[str, dict[str, object]]] = {}
    # For each of these tasks the name of its template in `training/configs/`, or the path of
    # another; a task without one is trained as in `base.cfg`.
    config_templates: ClassVar[Mapping[str, str | Path]] = {}
    # For tasks that the content of a corpus tells, the counts that its training part has in
    # `corpus.json`, and has not: `{"ner": {"mentions": True, "answers": False}}`.
    recognised_by: ClassVar[Mapping[str, Mapping[str, bool]]] = {}
    # Name of the setting that makes a component write to a separate layer.
    place_setting: ClassVar[str | None] = None
    # Keys of `doc.user_data` that belong to its layer.
    annotation_keys: ClassVar[tuple[str, ...]] = ()
    # Settings of the encoder's model that differ from the defaults.
    encoder_settings: ClassVar[Mapping[str, object]] = {}
    # Whether it says something of entities that others find before it. In multi-task training it
    # comes last, and examples of its corpus have the gold entities.
    reads_entities: ClassVar[bool] = False

    @classmethod
    def begin_scores(cls, name: str, settings: Mapping[str, object]) -> str:
        """The prefix of a component's score names."""
        return cls.score_prefix if name == cls.default_name else f"{cls.score_prefix}_{name}"

    @classmethod
    def main_score(cls, name: str, settings: Mapping[str, object]) -> str:
        """The name of a component's main score."""
        return f"{cls.begin_scores(name, settings)}_{cls.main}"

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
        begin = cls.begin_scores(name, settings)
        numbers, averages = (
            {title: f"{begin}_{ending}" for title, ending in titles.items()}
            for titles in (cls.score_titles, cls.averages)
        )
        if averages:
            return ShownScores(averages, numbers=numbers, per_type=f"{begin}_per_type")
        return ShownScores(numbers=numbers or {cls.main: cls.main_score(name, settings)})

    @classmethod
    def layer(cls, settings: Mapping[str, object]) -> str:
        """The layer of a document that a component reads, as named in messages."""
        return cls.layer_name

    @classmethod
    def copy_layer(cls, reader: TrainablePipe, source: Doc, target: Doc, prefix: str = "") -> bool:
        """Copy what a component learns from and is scored by; return whether there is any.

        `reader` is the component, of this class or the spaCy component that reads the same layer.
        The target has the same tokens and no annotation. Heads that share `doc.cats` have a prefix
        for the names of classes.
        """
        raise NotImplementedError

    @classmethod
    def recognise(cls, part: Mapping[str, object]) -> str | None:
        """The task of a corpus, by the counts of its training part in `corpus.json`, or None."""
        for task, signs in cls.recognised_by.items():
            if all(bool(part.get(count)) is wanted for count, wanted in signs.items()):
                return task
        return None

    @classmethod
    def class_settings(cls, classes: list[str]) -> tuple[dict[str, object], dict[str, object]]:
        """The settings, and those of `initialize.components`, for these classes of `doc.cats`."""
        return {}, {"labels": classes}
