"""Batches of a single task: `spacy_biomed.round_robin.v1` and `spacy_biomed.proportional.v1`."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from spacy.training import Example
from spacy.training.batchers import BatcherT

from ..errors import BiomedError
from .multitask import TASK_KEY

Batch = list[Example]


def round_robin_v1(batcher: BatcherT, batchers: dict[str, Any] | None = None) -> BatcherT:
    """Create a batcher that yields a batch of each task in turn.

    An epoch is one pass over the task with the most batches. The other tasks are shuffled and
    repeated as often as needed. Tasks take turns in the order of their names (Mulyar and McInnes
    2020, "MT-Clinical BERT", algorithm 1).

    All batches of an epoch are made at its start, so that random numbers drawn in training do not
    change them, and so all its examples are in memory.

    Args:
        batcher: splits the examples of a task into batches, of one task after the other.
        batchers: by the name of a task another batcher for its examples. (Configs are checked
            before they are resolved, so its type is not given.)

    Raises:
        BiomedError: from the batcher, if an example is not from a multi-task corpus, or if the
            inner batcher returns no batch for a task.
    """

    def batch(examples: Iterable[Example]) -> Iterator[Batch]:
        tasks = split_by_task(examples)
        generator = random.Random(random.getrandbits(64))
        cut_with = {task: (batchers or {}).get(task, batcher) for task in tasks}
        batches = {task: _cut(cut_with[task], task, of_task) for task, of_task in tasks.items()}
        rounds = max(map(len, batches.values()), default=0)
        for task, of_task in tasks.items():
            while len(batches[task]) < rounds:
                generator.shuffle(of_task)
                batches[task] += _cut(cut_with[task], task, of_task)
        for turn in zip(*batches.values(), strict=False):
            yield from turn

    return batch


def proportional_v1(batcher: BatcherT, batchers: dict[str, Any] | None = None) -> BatcherT:
    """Create a batcher that yields the batches of all tasks in random order.

    An epoch is one pass over each corpus (Peng et al. 2020, "An Empirical Study of Multi-Task
    Learning on BERT for Biomedical Text Mining", section 3.5.2).

    Args:
        batcher, batchers: split the examples of a task into batches, as in `round_robin_v1`.

    Raises:
        BiomedError: as in `round_robin_v1`.
    """

    def batch(examples: Iterable[Example]) -> Iterator[Batch]:
        tasks = split_by_task(examples)
        generator = random.Random(random.getrandbits(64))
        batches: list[Batch] = []
        for task, of_task in tasks.items():
            batches += _cut((batchers or {}).get(task, batcher), task, of_task)
        generator.shuffle(batches)
        yield from batches

    return batch


def split_by_task(examples: Iterable[Example]) -> dict[str, list[Example]]:
    """Group examples by task, sorted by the tasks' names; examples keep their order."""
    tasks: dict[str, list[Example]] = {}
    for example in examples:
        task = example.reference.user_data.get(TASK_KEY)
        if task is None:
            raise BiomedError(
                "training.batcher makes batches of one task, and the training corpus has examples "
                "of none: use spacy_biomed.MultiTaskCorpus.v1 in corpora.train"
            )
        tasks.setdefault(task, []).append(example)
    return dict(sorted(tasks.items()))


def _cut(batcher: BatcherT, task: str, examples: list[Example]) -> list[Batch]:
    batches = [list(batch) for batch in batcher(examples)]
    if not batches:
        raise BiomedError(
            f"training.batcher.batcher leaves no batch of the task '{task}': raise its size, or "
            "set discard_oversize = false"
        )
    return batches
