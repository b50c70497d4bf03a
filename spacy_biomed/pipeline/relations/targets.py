"""What annotated documents teach about relations: labels, types of arguments, and targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from thinc.types import Floats2d

from ...annotations.marked_arguments import Argument
from ...annotations.relation_layer import SpanRelation
from ...errors import BiomedError, quote
from .candidates import Candidate, get_arguments, order_arguments


def find_gold_labels(
    candidates: Sequence[Candidate], relations: Iterable[SpanRelation], directed: bool
) -> list[set[str]]:
    """Find the gold labels of each candidate of one document."""
    if candidates and candidates[0].window is None:
        return [{relation.label for relation in relations}]
    labels_of: dict[tuple[Argument, ...], set[str]] = {}
    for relation in relations:
        labels_of.setdefault(get_arguments(relation, directed), set()).add(relation.label)
    return [
        labels_of.get(order_arguments(candidate.head, candidate.tail, directed), set())
        for candidate in candidates
    ]


def create_targets(
    gold: Sequence[set[str]], labels: Sequence[str], *, exclusive: bool, name: str
) -> Floats2d:
    """Create the target of each score, (candidates, scores): 1.0 for what is true, else 0.0.

    If labels are exclusive, the last score is for candidates without a relation. `name` is the
    component's, for messages.
    """
    targets = np.zeros((len(gold), len(labels) + exclusive), dtype="float32")
    for row, found in enumerate(gold):
        if exclusive and len(found) > 1:
            raise BiomedError(
                f"a pair of the corpus has the relations {' and '.join(map(quote, sorted(found)))},"
                f" and those of '{name}' exclude each other: keep one, or set exclusive = false"
            )
        targets[row, [labels.index(label) for label in found]] = 1.0
    if exclusive:
        targets[:, -1] = ~targets.any(axis=1)
    return targets


def check_labels(used: Iterable[str], labels: Sequence[str], name: str) -> None:
    """Raise BiomedError if the component with this name does not know a label of relations."""
    unknown = sorted(set(used).difference(labels))
    if unknown:
        raise BiomedError(
            f"the corpus has the relation {quote(unknown[0])}, which '{name}' does not know: it "
            f"knows {', '.join(labels)}; give initialize.components.{name}.labels with it, or take "
            "it out of the corpus"
        )


def check_pairs(name: str, pairs: list[list[str]] | None, max_distance: int) -> None:
    """Raise BiomedError if the pairs of a component or their distance are not valid."""
    where = f"[components.{name}]"
    if any(len(pair) != 2 for pair in pairs or ()):
        raise BiomedError(
            f'{where} pairs = {pairs}: write the types of head and tail, as [["CHEMICAL", "GENE"]]'
        )
    if max_distance < 0:
        raise BiomedError(f"{where} max_distance = {max_distance}: use 0 or more tokens")


def check_arguments(name: str, settings: Mapping[str, Any]) -> None:
    """Raise BiomedError if the arguments of a component's pairs cannot be told apart."""
    pairs = {(head, tail) for head, tail in settings["pairs"]}
    both = sorted(pair for pair in pairs if pair[::-1] in pairs)
    if settings["arguments"] == "tags" and settings["directed"] and both:
        raise BiomedError(
            f"[components.{name}] arguments = 'tags' cannot tell the head from the tail of "
            f"{' and '.join(both[0])}, of which each may be either: use 'marks', or set "
            "directed = false"
        )
