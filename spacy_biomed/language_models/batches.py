"""The batches of a training: their sequences and order, and their distribution over processes.

Batches depend only on the seed and the number of the step. So a resumed run, or a run with another
number of processes, has the same batches.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

import numpy as np
from torch.utils.data import Dataset

from ..arrays import Ints1d
from .masking import Masking
from .packed_sequences import PackedText

# Streams of masks: validation has the same masks at each evaluation.
TRAINING, VALIDATION = 0, 1


@dataclass(eq=False)
class TrainingBatches(Dataset):
    """The micro-batches of one process: item i is its i-th micro-batch since the first step.

    The sequences of a step are sorted by length and then distributed, a micro-batch to each process
    in turn. So there is little padding and processes have equal work. The result of a step does not
    depend on the distribution.

    Attributes:
        text: sequences; each occurs once in an epoch, in a different order in each epoch.
        batch, device_batch: sequences per step, and per micro-batch.
        rank, processes: index of this process, and number of processes.
    """

    text: PackedText
    masking: Masking
    _: KW_ONLY
    batch: int
    device_batch: int
    steps: int
    seed: int
    rank: int = 0
    processes: int = 1

    def __post_init__(self) -> None:
        self.accumulation = self.batch // (self.device_batch * self.processes)
        self._step: tuple[int, Ints1d, Ints1d] = (-1, np.zeros(0, int), np.zeros(0, int))

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def __getitem__(self, item: int) -> dict[str, object]:
        """A `MaskedBatch`, and "seed": a seed for other random numbers, such as of dropout."""
        step, turn = divmod(item, self.accumulation)
        number = turn * self.processes + self.rank
        part = slice(number * self.device_batch, (number + 1) * self.device_batch)
        indices, places = self.sequences(step)
        chosen = [self.text[int(index)] for index in indices[part]]
        state = np.random.SeedSequence([self.seed, step, number]).generate_state(1)
        return {**self.masking(chosen, places[part], TRAINING), "seed": int(state[0])}

    def sequences(self, step: int) -> tuple[Ints1d, Ints1d]:
        """Indices of a step's sequences, and their places in the training, shortest first.

        Places count from the first sequence of the first step. Both arrays are (batch,).
        """
        if self._step[0] != step:
            places = np.arange(step * self.batch, (step + 1) * self.batch)
            epochs, rest = np.divmod(places, len(self.text))
            indices = np.concatenate(
                [
                    _draw_order(len(self.text), self.seed, int(epoch))[rest[epochs == epoch]]
                    for epoch in np.unique(epochs)
                ]
            )
            by_length = np.argsort(self.text.lengths(indices), kind="stable")
            self._step = step, indices[by_length], places[by_length]
        return self._step[1:]

    def pieces(self, step: int) -> int:
        """Number of word pieces in a step, without the special tokens around sequences."""
        return int(self.text.lengths(self.sequences(step)[0]).sum())


@lru_cache(maxsize=2)  # both are in use if a batch spans two epochs
def _draw_order(count: int, seed: int, epoch: int) -> Ints1d:
    """Indices of all sequences in the order of an epoch: (count,)."""
    order = np.arange(count, dtype="uint32" if count < 2**32 else "uint64")
    np.random.default_rng([seed, epoch]).shuffle(order)
    return order


@dataclass(eq=False)
class ValidationBatches(Dataset):
    """The whole validation text in micro-batches, longest first, always with the same masks."""

    text: PackedText
    masking: Masking
    device_batch: int

    def __post_init__(self) -> None:
        lengths = self.text.lengths(np.arange(len(self.text)))
        self.order = np.argsort(-lengths, kind="stable")

    def __len__(self) -> int:
        return -(-len(self.text) // self.device_batch)

    def __getitem__(self, item: int) -> dict[str, object]:
        """A `MaskedBatch`."""
        indices = self.order[item * self.device_batch : (item + 1) * self.device_batch]
        chosen = [self.text[int(index)] for index in indices]
        return dict(self.masking(chosen, indices, VALIDATION))
