"""The batches of a training: their sequences and order, distribution over processes, and masks.

Batches depend only on the seed and the number of the step, and the masks of a sequence on the seed
and its place in the training. So a resumed run, or a run with another number of processes, has the
same batches, unlike with the collators of transformers. Theirs for whole words is for WordPiece
alone.
"""

from collections.abc import Sequence as Many
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator, Philox
from torch.utils.data import Dataset

from ..arrays import Ints1d, Ints2d
from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from .packed_sequences import PackedText, Sequence

TRAINING, VALIDATION = 0, 1  # streams of masks

# Shares of the predicted pieces that are replaced by the mask, and by a random piece.
HIDDEN, RANDOM = 0.8, 0.1


class Masking:
    """Masking as in Devlin et al. 2019, "BERT".

    The mask token replaces 80% of the chosen pieces, and a random piece 10%; the other 10% stay.
    With `whole_words`, words are chosen with all their pieces.
    """

    def __init__(
        self,
        tokenizer: WordPieceTokenizer,
        *,
        probability: float = 0.15,
        whole_words: bool = False,
        seed: int = 0,
    ):
        assert tokenizer.mask is not None  # which loading checks
        self.prefix = np.array(tokenizer.prefix, dtype="int64")
        self.suffix = np.array(tokenizer.suffix, dtype="int64")
        self.pad, self.mask = tokenizer.pad, tokenizer.mask
        self.probability = probability
        self.whole_words = whole_words
        self.seed = seed
        backend = tokenizer.tokenizer
        special = [*tokenizer.prefix, *tokenizer.suffix, self.pad, self.mask]
        special += [i for i, token in backend.get_added_tokens_decoder().items() if token.special]
        self.is_special = np.zeros(backend.get_vocab_size(), dtype=bool)
        self.is_special[special] = True
        self.ordinary = np.flatnonzero(~self.is_special)

    def __call__(
        self, sequences: Many[Sequence], places: Ints1d, stream: int = 0
    ) -> dict[str, np.ndarray]:
        """Pad sequences together and hide some of their pieces.

        `places`, (sequences,), are those in the training; another stream gives them other masks.

        Returns:
            "input_ids" and "attention_mask" (0 for padding), (sequences, length); "positions", the
            places in the flattened batch of the pieces to predict, ascending, and their "labels",
            (predicted,). Each sequence with more than special tokens has one to predict.
        """
        lengths = np.array([len(sequence.ids) for sequence in sequences])
        ids, word_starts, inside = self._pad(sequences, lengths)
        which, what = np.ones((2, *ids.shape))
        which[inside], what[inside] = self._draw(lengths, places, stream)
        if self.whole_words:
            # All pieces of a word have the number of its first piece.
            columns = np.arange(ids.shape[1])
            first = np.maximum.accumulate(np.where(word_starts, columns, 0), axis=1)
            which = np.take_along_axis(which, first, axis=1)
        which[~inside | self.is_special[ids]] = 1.0
        least = which.min(axis=1, keepdims=True)
        chosen = (which < self.probability) | ((which == least) & (which < 1.0))
        positions = np.flatnonzero(chosen)
        labels = ids.ravel()[positions]
        uniform = what.ravel()[positions]
        share = np.clip((uniform - HIDDEN) / RANDOM, 0.0, 1.0 - 1e-12)
        others = self.ordinary[(share * len(self.ordinary)).astype("int64")]
        replaced = np.where(uniform < HIDDEN + RANDOM, others, labels)
        ids.ravel()[positions] = np.where(uniform < HIDDEN, self.mask, replaced)
        ends = lengths + len(self.prefix) + len(self.suffix)
        mask = (np.arange(ids.shape[1]) < ends[:, None]).astype("int64")
        return {"input_ids": ids, "attention_mask": mask, "positions": positions, "labels": labels}

    def _pad(
        self, sequences: Many[Sequence], lengths: Ints1d
    ) -> tuple[Ints2d, np.ndarray, np.ndarray]:
        """Ids with special tokens and padding, and which pieces begin a word and are of a sequence.

        All three are (sequences, length).
        """
        before, after = len(self.prefix), len(self.suffix)
        columns = np.arange(before + int(lengths.max(initial=0)) + after)
        inside = (columns >= before) & (columns < before + lengths[:, None])
        ids = np.full(inside.shape, self.pad, dtype="int64")
        ids[:, :before] = self.prefix
        ids[inside] = np.concatenate([sequence.ids for sequence in sequences])
        rows = np.arange(len(sequences))[:, None]
        ids[rows, before + lengths[:, None] + np.arange(after)] = self.suffix
        word_starts = np.ones(ids.shape, dtype=bool)
        word_starts[inside] = np.concatenate([sequence.word_starts for sequence in sequences])
        # The second part of a word that was cut counts as a word.
        word_starts[:, before] = True
        return ids, word_starts, inside

    def _draw(self, lengths: Ints1d, places: Ints1d, stream: int) -> np.ndarray:
        """Two uniform numbers for each piece, (2, pieces), that depend only on its sequence."""
        drawn = []
        for length, place in zip(lengths, places, strict=True):
            bits = Philox(key=[self.seed, int(place)], counter=[0, 0, 0, stream])
            drawn.append(Generator(bits).random((2, length)))
        return np.concatenate(drawn, axis=1)


@dataclass(eq=False)
class TrainingBatches(Dataset):
    """The micro-batches of one process: item i is its i-th micro-batch since the first step.

    The sequences of a step are sorted by length and then distributed, a micro-batch to each process
    in turn: there is little padding, and processes have equal work. Each epoch has another order.
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

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def __getitem__(self, item: int) -> dict[str, object]:
        """A masked batch, "seed", for other random numbers, such as of dropout, and "whole".

        "whole" has the numbers of positions and of pairs of positions in all sequences of the step.
        """
        step, turn = divmod(item, self.accumulation)
        number = turn * self.processes + self.rank
        part = slice(number * self.device_batch, (number + 1) * self.device_batch)
        indices, places = self.sequences(step)
        chosen = [self.text[int(index)] for index in indices[part]]
        state = np.random.SeedSequence([self.seed, step, number]).generate_state(1)
        around = len(self.masking.prefix) + len(self.masking.suffix)
        lengths = self.text.lengths(indices) + around
        whole = np.array([lengths.sum(), np.square(lengths).sum()])
        masked = self.masking(chosen, places[part], TRAINING)
        return {**masked, "seed": int(state[0]), "whole": whole}

    def sequences(self, step: int) -> tuple[Ints1d, Ints1d]:
        """Indices of a step's sequences, and their places in the training, shortest first.

        Places count from the first sequence of the first step. Both arrays are (batch,).
        """
        places = np.arange(step * self.batch, (step + 1) * self.batch)
        epochs, rest = np.divmod(places, len(self.text))
        orders = [
            _draw_order(len(self.text), self.seed, int(epoch))[rest[epochs == epoch]]
            for epoch in np.unique(epochs)
        ]
        indices = np.concatenate(orders)
        by_length = np.argsort(self.text.lengths(indices), kind="stable")
        return indices[by_length], places[by_length]

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

    def __getitem__(self, item: int) -> dict[str, np.ndarray]:
        indices = self.order[item * self.device_batch : (item + 1) * self.device_batch]
        chosen = [self.text[int(index)] for index in indices]
        return self.masking(chosen, indices, VALIDATION)
