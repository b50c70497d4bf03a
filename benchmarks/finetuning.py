"""Shared parts of the fine-tuning benchmarks: the schedule, the batches, and our config."""

from __future__ import annotations

import random
from itertools import cycle, islice
from pathlib import Path

from thinc.api import Config

from spacy_biomed.training.config import fill_config


class Schedule:
    """The length and learning rate of a training.

    Attributes:
        steps: number of steps; the learning rate rises for a tenth of them, then decays to 0.
        learn_rate: maximum learning rate.
        batch: documents per batch.
        seed: seed of the training.
    """

    def __init__(self, steps: int, learn_rate: float, batch: int, seed: int):
        self.steps, self.learn_rate, self.batch, self.seed = steps, learn_rate, batch, seed
        self.warmup = max(round(0.1 * steps), 1)


def first_batches(examples: list, schedule: Schedule, count: int) -> list[list]:
    """The first batches of the examples in the order of the seed, the same for all systems."""
    order = random.Random(schedule.seed).sample(range(len(examples)), len(examples))
    endless = cycle(order)
    return [[examples[i] for i in islice(endless, schedule.batch)] for _ in range(count)]


def our_config(corpus: Path, encoder: str, schedule: Schedule, epochs: int = 1) -> Config:
    """The config that `init-config` writes, with batches of a number of documents.

    Args:
        corpus, encoder: folder of the corpus, and the encoder.
        schedule: the schedule.
        epochs: number of evaluations on the development part.
    """
    config = fill_config(
        corpus,
        encoder=encoder,
        epochs=epochs,
        learn_rate=schedule.learn_rate,
        seed=schedule.seed,
    )
    config["vars"].update(
        max_steps=schedule.steps,
        warmup_steps=schedule.warmup,
        eval_frequency=max(schedule.steps // epochs, 1),
    )
    batcher = {"@batchers": "spacy.batch_by_sequence.v1", "size": schedule.batch}
    config["training"]["batcher"] = batcher
    return config
