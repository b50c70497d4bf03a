"""What `training.py` compares: the schedule, the batches, our config, and a plain loop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.training.config import fill_config

if TYPE_CHECKING:
    import torch

LONGEST = 512  # word pieces of a sequence

Sequence = dict[str, Any]  # inputs of a model: input_ids, attention_mask, labels


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


def our_config(corpus: Path, encoder: str, schedule: Schedule) -> Config:
    """The config that `init-config` writes, with batches of a number of documents."""
    config = fill_config(
        corpus, encoder=encoder, epochs=1, learn_rate=schedule.learn_rate, seed=schedule.seed
    )
    config["vars"].update(
        max_steps=schedule.steps, warmup_steps=schedule.warmup, eval_frequency=schedule.steps
    )
    batcher = {"@batchers": "spacy.batch_by_sequence.v1", "size": schedule.batch}
    config["training"]["batcher"] = batcher
    return config


class PlainTrainer:
    """A token classifier of transformers, with the usual loop of its Trainer.

    fp32, AdamW without decay of biases and normalisation, a linear schedule with warm-up, gradients
    clipped at norm 1. The head is a linear layer with BIO tags on the first word piece of each
    token. Texts longer than the encoder are read in consecutive parts.

    Attributes:
        corpus: folder written by `spacy biomed convert`.
        encoder: directory in Hugging Face layout.
        device: where it computes.
    """

    def __init__(self, corpus: Path, encoder: str, schedule: Schedule, device: str = "cpu"):
        import torch
        from transformers import (
            AutoModelForTokenClassification,
            AutoTokenizer,
            DataCollatorForTokenClassification,
            get_linear_schedule_with_warmup,
        )

        torch.manual_seed(schedule.seed)
        self.schedule, self.device = schedule, device
        docs = list(read_docs(corpus / "train.spacy", Vocab()))
        labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
        self.tags = ["O", *(f"{edge}-{label}" for label in labels for edge in "BI")]
        self.tokenizer = AutoTokenizer.from_pretrained(encoder, trust_remote_code=False)
        self.tokenizer.model_max_length = min(self.tokenizer.model_max_length, LONGEST)
        self.model = AutoModelForTokenClassification.from_pretrained(
            encoder, num_labels=len(self.tags), trust_remote_code=False, use_safetensors=True
        ).to(device)
        self.collate = DataCollatorForTokenClassification(self.tokenizer)
        self.inputs = [self.encode(doc) for doc in docs]
        self.optimizer = torch.optim.AdamW(_decay_groups(self.model), lr=schedule.learn_rate)
        self.rates = get_linear_schedule_with_warmup(
            self.optimizer, schedule.warmup, schedule.steps
        )

    def encode(self, doc: Doc) -> list[Sequence]:
        """The sequences of a document, with a tag for the first word piece of each token."""
        encoded = self.tokenizer(
            [token.text for token in doc],
            is_split_into_words=True,
            truncation=True,
            return_overflowing_tokens=True,
        )
        encoded.pop("overflow_to_sample_mapping", None)
        tags = [f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc]
        sequences, last = [], -1
        for row in range(len(encoded["input_ids"])):
            labels = []
            for word in encoded.word_ids(row):
                is_first = word not in (None, last)
                labels.append(self.tags.index(tags[word]) if is_first else -100)
                last = last if word is None else word
            sequence = {name: rows[row] for name, rows in encoded.items()}
            sequences.append({**sequence, "labels": labels})
        return sequences

    def steps(self, count: int) -> Iterator[None]:
        """Train on the first `count` batches repeatedly; yield after each step."""
        import torch

        self.model.train()
        for documents in cycle(first_batches(self.inputs, self.schedule, count)):
            batch = self.collate([sequence for sequences in documents for sequence in sequences])
            self.model(
                **{name: rows.to(self.device) for name, rows in batch.items()}
            ).loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.rates.step()
            self.optimizer.zero_grad()
            yield


def _decay_groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Parameter groups as in Trainer: biases and normalisation weights do not decay."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.01},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
