"""How a head on an encoder describes itself: its scores, its layer, and what it learns from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc

from .described import Described, ShownScores


class DescribedHead(Described):
    """What distinguishes a head from others, given only its name and settings.

    Attributes:
        score_prefix: prefix of its score names. The scores of a component whose name is not
            `default_name` include its name, as in `cats_hallmarks_score`, so that a pipeline can
            have several such components.
        main: ending of the name of its main score.
        score_titles: by title the endings of the names of the scores that its model card shows, if
            all of them are plain numbers.
        layer_name: what `layer` returns, if it does not depend on the settings.
        learns: tasks it learns from, as named in the catalogue or `corpus.json`, each with the
            settings that differ from the factory's.
        config_templates: for each of these tasks the name of its template in `training/configs/`,
            or the path of another; a task without one is trained as in `base.cfg`.
        annotation_keys: keys of `doc.user_data` that belong to its layer.
        encoder_settings: settings of the encoder's model that its task needs instead of the
            defaults.
        reads_entities: whether it says something of entities that others find before it. In
            multi-task training it comes last, and examples of its corpus have the gold entities.
    """

    score_prefix: ClassVar[str] = ""
    main: ClassVar[str] = ""
    score_titles: ClassVar[Mapping[str, str]] = {}
    layer_name: ClassVar[str]
    learns: ClassVar[Mapping[str, dict[str, object]]] = {}
    config_templates: ClassVar[Mapping[str, str | Path]] = {}
    annotation_keys: ClassVar[tuple[str, ...]] = ()
    encoder_settings: ClassVar[Mapping[str, object]] = {}
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
        titled = {title: f"{begin}_{ending}" for title, ending in cls.score_titles.items()}
        return ShownScores(numbers=titled or {cls.main: cls.main_score(name, settings)})

    @classmethod
    def layer(cls, settings: Mapping[str, object]) -> str:
        """The layer of a document that a component reads, as named in messages."""
        return cls.layer_name

    @classmethod
    def copy_layer(
        cls, reader: TrainablePipe, source: Doc, target: Doc, *, prefix: str = ""
    ) -> bool:
        """Copy the annotation of a document that a component learns from and is scored by.

        Args:
            reader: the component, of this class or the spaCy component that reads the same layer.
            source: the annotated document.
            target: a document with the same tokens and no annotation.
            prefix: prefix for the names of classes, for heads that share `doc.cats`.

        Returns:
            whether the document is annotated for the component.
        """
        raise NotImplementedError

    @classmethod
    def recognise(cls, part: Mapping[str, object]) -> str | None:
        """The task of a corpus by its content, if nothing else tells the task.

        Args:
            part: the counts of its training part in `corpus.json`.

        Returns:
            one of the tasks in `learns`; None if the corpus is not for this head.
        """
        return None

    @classmethod
    def corpus_settings(cls, description: Mapping[str, object]) -> dict[str, object]:
        """The settings that depend on a corpus.

        Args:
            description: the content of its `corpus.json`.
        """
        return {}

    @classmethod
    def place_settings(cls, name: str) -> dict[str, object]:
        """The settings that make a component of this name write to a separate layer."""
        return {}

    @classmethod
    def class_settings(cls, classes: list[str]) -> tuple[dict[str, object], dict[str, object]]:
        """The settings that make a component use only these classes of `doc.cats`.

        Returns:
            the settings of the component, and of its section of `initialize.components`.

        Raises:
            BiomedError: if the component cannot have this number of classes.
        """
        return {}, {"labels": classes}
