"""What a converted corpus is for: its task, and the head that learns it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..corpora.corpus_catalogue import find_corpus
from ..errors import BiomedError, add_hint, quote, suggest
from ..pipeline.component_classes import list_heads
from ..pipeline.encoder_head import EncoderHead


def find_learner(
    folder: Path, description: Mapping[str, Any], task: str | None = None
) -> tuple[str, type[EncoderHead]]:
    """Find the task of a corpus, and the head that learns it.

    The task is the one that is given, else that of its `corpus.json`, else the catalogue's, else
    what a head recognises in the training part (`EncoderHead.recognised_by`).
    """
    learners = list_learners()
    task = task or description.get("task") or _catalogue_task(description["name"])
    train = description["parts"].get("train", {})
    recognised = (head.recognise(train) for head in learners.values())
    task = task or next(filter(None, recognised), None)
    if task in learners:
        return task, learners[task]
    problem = f"no head learns the task {quote(task)}" if task else "its task is not known"
    problem = (
        f'{folder / "corpus.json"}: {problem}; add "task" with one of {", ".join(learners)}, or '
        "give --task"
    )
    raise BiomedError(add_hint(problem, suggest(task or "", learners)))


def list_learners() -> dict[str, type[EncoderHead]]:
    """The head that learns from each kind of corpus; of several the first by its factory's name."""
    learners: dict[str, type[EncoderHead]] = {}
    for head in list_heads().values():
        for task in head.learns:
            learners.setdefault(task, head)
    return learners


def _catalogue_task(name: str) -> str | None:
    try:
        return find_corpus(name).task
    except BiomedError:  # the user's own
        return None
