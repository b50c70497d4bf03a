"""How a component describes itself: its task, its usage and its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class ShownScores:
    """The scores of a component that its model card shows, all from 0 to 1, by title.

    Attributes:
        averages: scores with precision, recall and F1; the values are their names without the
            endings `_p`, `_r` and `_f`.
        macro: names of scores that are only an F1.
        numbers: names of other scores.
        per_type: name of the score with a precision, a recall and an F1 for each label.
        unseen_per_type: the same for mentions that were not seen in training.
        reliability: name of the score with the bins of a `Reliability`.
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
        task_name: the field's name for its task; "" for a component that has none of its own and is
            not in the model card.
        usage_line: what `usage` returns, if it does not depend on the settings.
        languages: the languages that it has rules for; empty for a component without such rules.
        reads_words: whether it looks up words of the training texts in the vocabulary. They are
            not saved with a pipeline if no component does (`saved_words`).
    """

    default_name: ClassVar[str] = ""
    task_name: ClassVar[str] = ""
    usage_line: ClassVar[str]
    languages: ClassVar[tuple[str, ...]] = ()
    reads_words: ClassVar[bool] = False

    @classmethod
    def usage(cls, settings: Mapping[str, object]) -> str:
        """A line of Python that prints what a component with these settings finds in a `doc`."""
        return cls.usage_line

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
        """The scores that the model card shows for a component; by default none."""
        return ShownScores()
