"""The batches of a training: which sequences, in what order, on which process.

Everything follows from the seed and the number of the step. A run that is resumed goes on with the
same batches, and so does one that is spread over another number of processes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from thinc.types import Ints1d
from torch.utils.data import Dataset

from .masking import Masking
from .packed_sequences import PackedText

# Numbers of the streams of masks: those of validation are the same at each evaluation.
TRAINING, VALIDATION = 0, 1


class TrainingBatches(Dataset):
    """What one process computes: item i is its i-th micro-batch, from the first step on.

    The sequences of a step are sorted by length and then dealt out, a micro-batch to each process
    in turn, so that little is padded and processes have equally much to do. What is learned in a
    step does not depend on how it is dealt out.

    Attributes:
        text: sequences; each comes once in an epoch, in an order of that epoch.
        batch: sequences in a step.
        device_batch: sequences in a micro-batch.
        steps: how many there are.
        rank, processes: which process this is, and of how many; together they divide the batch.
    """

    def __init__(
        self,
        text: PackedText,
        masking: Masking,
        *,
        batch: int,
        device_batch: int,
        steps: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
    ):
        self.text = text
        self.masking = masking
        self.batch = batch
        self.device_batch = device_batch
        self.steps = steps
        self.seed = seed
        self.rank = rank
        self.processes = processes
        self.accumulation = batch // (device_batch * processes)
        self._orders: dict[int, Ints1d] = {}
        self._step: tuple[int, Ints1d, Ints1d] = (-1, np.zeros(0, int), np.zeros(0, int))

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def __getitem__(self, item: int) -> dict[str, Any]:
        """A `MaskedBatch`, and "seed": a number for whatever else is random in computing it."""
        step, turn = divmod(item, self.accumulation)
        number = turn * self.processes + self.rank
        part = slice(number * self.device_batch, (number + 1) * self.device_batch)
        indices, places = self.sequences(step)
        chosen = [self.text[int(index)] for index in indices[part]]
        state = np.random.SeedSequence([self.seed, step, number]).generate_state(1)
        return {**self.masking(chosen, places[part], TRAINING), "seed": int(state[0])}

    def sequences(self, step: int) -> tuple[Ints1d, Ints1d]:
        """The sequences of a step and their places in the training, (batch,) each, shortest first.

        Places are counted from the first sequence of the first step.
        """
        if self._step[0] != step:
            places = np.arange(step * self.batch, (step + 1) * self.batch)
            epochs, rest = np.divmod(places, len(self.text))
            indices = np.concatenate(
                [self._order(int(epoch))[rest[epochs == epoch]] for epoch in np.unique(epochs)]
            )
            by_length = np.argsort(self.text.lengths(indices), kind="stable")
            self._step = step, indices[by_length], places[by_length]
        return self._step[1:]

    def pieces(self, step: int) -> int:
        """Word pieces in a step, special tokens around sequences not counted."""
        return int(self.text.lengths(self.sequences(step)[0]).sum())

    def _order(self, epoch: int) -> Ints1d:
        """All sequences in the order of an epoch."""
        if epoch not in self._orders:
            # Two are in use where a batch goes from one epoch to the next.
            self._orders = {old: order for old, order in self._orders.items() if old == epoch - 1}
            count = len(self.text)
            order = np.arange(count, dtype="uint32" if count < 2**32 else "uint64")
            np.random.default_rng([self.seed, epoch]).shuffle(order)
            self._orders[epoch] = order
        return self._orders[epoch]


class ValidationBatches(Dataset):
    """The whole validation text in micro-batches, longest first, always with the same masks."""

    def __init__(self, text: PackedText, masking: Masking, *, device_batch: int):
        self.text = text
        self.masking = masking
        self.device_batch = device_batch
        lengths = text.lengths(np.arange(len(text)))
        self.order = np.argsort(-lengths, kind="stable")

    def __len__(self) -> int:
        return -(-len(self.text) // self.device_batch)

    def __getitem__(self, item: int) -> dict[str, Any]:
        """A `MaskedBatch`."""
        indices = self.order[item * self.device_batch : (item + 1) * self.device_batch]
        chosen = [self.text[int(index)] for index in indices]
        return dict(self.masking(chosen, indices, VALIDATION))
