"""What a component tells of itself: its task, and the scores that are its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class ShownScores:
    """The scores of a component that its model card shows, all from 0 to 1, by their titles.

    Attributes:
        averages: that are a precision, a recall and an F1: what comes before `_p`, `_r` and `_f` in
            their names.
        macro: names of those that are an F1 alone.
        numbers: names of others.
        per_type: name of the score that has a precision, a recall and an F1 for each label.
    """

    averages: dict[str, str] = field(default_factory=dict)
    macro: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    per_type: str | None = None


class Described:
    """A component whose class tells what it does, to whoever has its name and settings alone.

    Such a class is found by its factory, which has it as return annotation
    (`component_classes.find_described`).

    Attributes:
        default_name: the factory's name.
        task_name: what it does, in the field's words.
    """

    default_name: ClassVar[str] = ""
    task_name: ClassVar[str] = ""

    @classmethod
    def usage(cls, settings: Mapping[str, Any]) -> str:
        """A line of Python that prints what a component of these settings finds in a `doc`."""
        raise NotImplementedError

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, Any]) -> ShownScores:
        """The scores of a component that its model card shows; by default none."""
        return ShownScores()
