"""The tasks of a pipeline's components, and their scores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinc.api import Config

from ..errors import BiomedError
from ..pipeline.component_classes import STAND_INS, find_described
from ..pipeline.described import Described, ShownScores
from ..pipeline.reliability import Reliability
from ..training.config import read_fields

Scores = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """A component of a pipeline.

    Attributes:
        kind: its class, or the class of its stand-in.
        settings: its section of the config.
    """

    name: str
    kind: type[Described]
    settings: dict[str, object]

    @property
    def usage(self) -> str:
        return self.kind.usage(self.settings)

    @property
    def scored_as(self) -> str:
        """Its name in its scores: those of a component of spaCy do not have its own."""
        return self.kind.default_name if self.settings["factory"] in STAND_INS else self.name

    @property
    def shown(self) -> ShownScores:
        return self.kind.shown_scores(self.scored_as, self.settings)

    def rows(self, scores: Scores) -> Iterator[tuple[str, list[float | None]]]:
        """Title, and precision, recall and F1 from 0 to 1, of each score and label."""
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

    def bars(self, scores: Scores) -> list[tuple[str, list[float]]]:
        """Each label with its F1 and, if known, that of mentions not seen in training."""
        shown = self.shown
        per_type = scores.get(shown.per_type or "") or {}
        unseen = scores.get(shown.unseen_per_type or "") or {}
        return [
            (label, [of_all["f"], *([unseen[label]["f"]] if label in unseen else [])])
            for label, of_all in sorted(per_type.items())
        ]

    def reliability(self, scores: Scores) -> Reliability | None:
        """The predictions by their confidence, if the scores have them."""
        rows = scores.get(self.shown.reliability or "")
        return Reliability.from_rows(rows) if rows else None

    def numbers(self, scores: Scores) -> Iterator[tuple[str, float | None]]:
        """Title and value, from 0 to 1, of the scores without precision and recall."""
        for title, name in self.shown.numbers.items():
            if name in scores:
                yield title, scores[name]


def find_heads(config: Config) -> list[Head]:
    """The components of a pipeline's config that describe their task, in pipeline order."""
    heads = []
    for name in config["nlp"]["pipeline"]:
        settings = config["components"][name]
        kind = find_described(settings.get("factory", ""))
        if kind is not None and kind.task_name:
            heads.append(Head(name, kind, settings))
    return heads


def read_scores(path: Path, heads: Sequence[Head]) -> Scores:
    """Read the scores of a pipeline with these components, as `spacy evaluate` writes them."""
    writer = "python -m spacy evaluate --output"
    scores: Scores = read_fields(path, (), writer)
    values: list[object]
    try:
        values = [one for head in heads for _, row in head.rows(scores) for one in row]
        values += [value for head in heads for _, value in head.numbers(scores)]
    except (AttributeError, KeyError, TypeError):
        values = ["not as it is written"]
    has_numbers = all(value is None or isinstance(value, int | float) for value in values)
    if not scores or (heads and not values) or not has_numbers:
        names = ", ".join(head.name for head in heads) or "any component"
        raise BiomedError(f"{path}: has no scores of {names}; `{writer}` writes them")
    return scores
