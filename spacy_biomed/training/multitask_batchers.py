"""Batches of one task each: `spacy_biomed.round_robin.v1` and `spacy_biomed.proportional.v1`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from spacy.training import Example
from spacy.training.batchers import BatcherT

from ..errors import BiomedError
from .multitask import TASK_KEY

Batch = list[Example]


def round_robin_v1(batcher: BatcherT) -> BatcherT:
    """Give a batch of each task in turn, until the largest corpus is used up.

    That is an epoch. The largest corpus is the one of most batches; the others begin again,
    shuffled anew, as often as needed. Tasks take their turns in the order of their names (Mulyar
    and McInnes 2020, "MT-Clinical BERT", algorithm 1).

    An epoch's batches are made when it begins, so that nothing that is random in learning changes
    them. With `max_epochs = -1` its examples are therefore all in memory, as they are otherwise.

    Args:
        batcher: cuts the examples of a task into batches. Where its size is a schedule, the sizes
            go to the batches of one task after the other.

    Raises:
        BiomedError: from the batcher, if an example is of no multi-task corpus, or the inner
            batcher leaves a task without batches.
    """

    def batch(examples: Iterable[Example]) -> Iterator[Batch]:
        tasks = split_by_task(examples)
        generator = random.Random(random.getrandbits(64))
        batches = {task: _cut(batcher, task, own) for task, own in tasks.items()}
        rounds = max(map(len, batches.values()), default=0)
        for task, own in tasks.items():
            while len(batches[task]) < rounds:
                generator.shuffle(own)
                batches[task] += _cut(batcher, task, own)
        for turn in zip(*batches.values(), strict=False):
            yield from turn

    return batch


def proportional_v1(batcher: BatcherT) -> BatcherT:
    """Give all batches of all tasks, shuffled together: a task's share is that of its batches.

    An epoch is each corpus once (Peng et al. 2020, "An Empirical Study of Multi-Task Learning on
    BERT for Biomedical Text Mining", section 3.5.2). Its batches are made when it begins, as those
    of `spacy_biomed.round_robin.v1`.

    Args:
        batcher: cuts the examples of a task into batches, as there.

    Raises:
        BiomedError: as there.
    """

    def batch(examples: Iterable[Example]) -> Iterator[Batch]:
        tasks = split_by_task(examples)
        generator = random.Random(random.getrandbits(64))
        batches = [one for task, own in tasks.items() for one in _cut(batcher, task, own)]
        generator.shuffle(batches)
        yield from batches

    return batch


def split_by_task(examples: Iterable[Example]) -> dict[str, list[Example]]:
    """The examples of each task, in the order in which they come; tasks in that of their names.

    Raises:
        BiomedError: if an example is of no multi-task corpus.
    """
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
