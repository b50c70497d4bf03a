"""What the components of a pipeline do, and which of its scores are theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..pipeline.component_classes import STAND_INS, find_described
from ..pipeline.described import Described, ShownScores

Scores = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """One component of a pipeline, its settings as the config has them.

    Attributes:
        kind: its class, or what stands in for it.
    """

    name: str
    kind: type[Described]
    settings: dict[str, Any]

    @property
    def usage(self) -> str:
        return self.kind.usage(self.settings)

    @property
    def shown(self) -> ShownScores:
        is_spacys_own = self.settings["factory"] in STAND_INS  # its name is not in its scores
        name = self.kind.default_name if is_spacys_own else self.name
        return self.kind.shown_scores(name, self.settings)

    def rows(self, scores: Scores) -> Iterator[tuple[str, list[float | None]]]:
        """Title, and precision, recall and F1 from 0 to 1, of what was scored."""
        shown = self.shown
        for title, begin in shown.averages.items():
            names = [f"{begin}_{letter}" for letter in "prf"]
            if names[-1] in scores:
                yield title, [scores.get(name) for name in names]
        for title, name in shown.macro.items():
            if name in scores:
                yield title, [None, None, scores[name]]
        per_type = scores.get(shown.per_type or "") or {}
        for label, values in sorted(per_type.items()):
            yield label, [values[letter] for letter in "prf"]

    def numbers(self, scores: Scores) -> Iterator[tuple[str, float | None]]:
        """Title and value, from 0 to 1, of scores that are neither."""
        for title, name in self.shown.numbers.items():
            if name in scores:
                yield title, scores[name]


def find_heads(config: dict[str, Any]) -> list[Head]:
    """The components of a pipeline's config that do a task, in the pipeline's order."""
    components = config["components"]
    kinds = {
        name: find_described(components[name].get("factory", ""))
        for name in config["nlp"]["pipeline"]
    }
    return [Head(name, kind, components[name]) for name, kind in kinds.items() if kind is not None]
