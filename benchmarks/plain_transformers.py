"""Fine-tune an encoder with transformers' models and the usual loop of its Trainer.

fp32, AdamW without decay of biases and normalisation, a linear schedule with warm-up, gradients
clipped at norm 1, the best epoch by the development part. The heads are from `AutoModelFor...`.
Texts longer than the encoder are cut or read in parts, as in transformers' example scripts.
"""

from __future__ import annotations

import copy
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from finetuning import Schedule, first_batches
from spacy.tokens import Doc
from spacy.vocab import Vocab
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    get_linear_schedule_with_warmup,
)

from spacy_biomed.annotations.document_keys import ANSWER_KEY
from spacy_biomed.annotations.pairs import get_pair
from spacy_biomed.training.corpus import read_docs

Sequence = dict[str, Any]  # inputs of a model: input_ids, attention_mask, labels, ...
Score = Callable[[list[Doc], list[Any]], float]

LONGEST = 512  # word pieces of a sequence

# As in transformers' example for SQuAD.
QUESTION_WINDOW, QUESTION_STRIDE = 384, 128
CANDIDATES, LONGEST_ANSWER = 20, 80


class PlainTrainer(ABC):
    """Fine-tunes an encoder with a head of transformers on a converted corpus.

    Attributes:
        corpus: folder written by `spacy biomed convert`.
        encoder: directory in Hugging Face layout.
        schedule: the schedule.
        device: where it computes.
    """

    def __init__(self, corpus: Path, encoder: str, schedule: Schedule, device: str = "cpu"):
        torch.manual_seed(schedule.seed)
        self.corpus, self.schedule, self.device = corpus, schedule, device
        self.tokenizer = AutoTokenizer.from_pretrained(encoder, trust_remote_code=False)
        self.tokenizer.model_max_length = min(self.tokenizer.model_max_length, LONGEST)
        docs = self.read("train")
        self.model = self.create_model(encoder, docs).to(device)
        self.collate = self.create_collator()
        self.train_inputs = [self.encode(doc, with_targets=True) for doc in docs]
        self.optimizer = torch.optim.AdamW(_decay_groups(self.model), lr=schedule.learn_rate)
        self.rates = get_linear_schedule_with_warmup(
            self.optimizer, schedule.warmup, schedule.steps
        )

    @abstractmethod
    def create_model(self, encoder: str, docs: list[Doc]) -> PreTrainedModel:
        """Create the model, with a head for the documents' annotation."""

    @abstractmethod
    def encode(self, doc: Doc, with_targets: bool = False) -> list[Sequence]:
        """The sequences of a document, with targets for the model's loss."""

    @abstractmethod
    def predict(self, docs: list[Doc]) -> list[Any]:
        """The predictions for each document."""

    def create_collator(self) -> Callable[[list[Sequence]], Any]:
        return DataCollatorWithPadding(self.tokenizer)

    def read(self, part: str) -> list[Doc]:
        return list(read_docs(self.corpus / f"{part}.spacy", Vocab()))

    def steps(self, count: int) -> Iterator[None]:
        """Train on the first `count` batches repeatedly; yield after each step."""
        for batch in cycle(first_batches(self.train_inputs, self.schedule, count)):
            self.step(batch)
            yield

    def step(self, batch: list[list[Sequence]]) -> None:
        """Train on a batch of documents."""
        self.model.train()
        self.forward([sequence for sequences in batch for sequence in sequences]).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.rates.step()
        self.optimizer.zero_grad()

    def fit(self, epochs: int, score: Score, needs_dev: bool) -> dict[str, float | None]:
        """Train in full.

        Args:
            epochs: number of epochs.
            score: scores the predictions for documents; higher is better.
            needs_dev: whether to score the development part even with a single epoch.

        Returns:
            dev: score of the best epoch on the development part; None if not scored. test: score of
            this epoch on the test part.
        """
        parts = {part: self.read(part) for part in ("dev", "test")}
        best, state = None, {}
        order = random.Random(self.schedule.seed)
        for _ in range(epochs):
            order.shuffle(self.train_inputs)
            for start in range(0, len(self.train_inputs), self.schedule.batch):
                self.step(self.train_inputs[start : start + self.schedule.batch])
            if epochs == 1 and not needs_dev:
                break
            own = score(parts["dev"], self._predict_all(parts["dev"]))
            if best is None or own > best:
                best, state = own, copy.deepcopy(self.model.state_dict())
        if epochs > 1:
            self.model.load_state_dict(state)
        return {"dev": best, "test": score(parts["test"], self._predict_all(parts["test"]))}

    def _predict_all(self, docs: list[Doc]) -> list[Any]:
        """The predictions for each document, in batches of similar length."""
        self.model.eval()
        order = sorted(range(len(docs)), key=lambda i: len(docs[i]))
        found: list[Any] = [None] * len(docs)
        with torch.no_grad():
            for start in range(0, len(order), self.schedule.batch):
                chosen = order[start : start + self.schedule.batch]
                for i, one in zip(chosen, self.predict([docs[i] for i in chosen]), strict=True):
                    found[i] = one
        return found

    def forward(self, sequences: list[Sequence]) -> Any:
        """The model's output for sequences, padded together."""
        inputs = [
            {name: value for name, value in sequence.items() if not name.startswith("_")}
            for sequence in sequences
        ]
        batch = self.collate(inputs)
        return self.model(**{name: values.to(self.device) for name, values in batch.items()})


class PlainEntities(PlainTrainer):
    """Named entities: BIO tags of a linear layer, on the first word piece of each token.

    Texts longer than the encoder are read in consecutive parts.
    """

    def create_model(self, encoder: str, docs: list[Doc]) -> PreTrainedModel:
        labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
        self.tags = ["O", *(f"{edge}-{label}" for label in labels for edge in "BI")]
        return AutoModelForTokenClassification.from_pretrained(
            encoder, num_labels=len(self.tags), trust_remote_code=False, use_safetensors=True
        )

    def create_collator(self) -> Callable[[list[Sequence]], Any]:
        return DataCollatorForTokenClassification(self.tokenizer)

    def encode(self, doc: Doc, with_targets: bool = False) -> list[Sequence]:
        encoded = self.tokenizer(
            [token.text for token in doc],
            is_split_into_words=True,
            truncation=True,
            return_overflowing_tokens=True,
        )
        encoded.pop("overflow_to_sample_mapping", None)
        tags = [f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc]
        targets = [self.tags.index(tag) for tag in tags] if with_targets else []
        sequences, last = [], -1
        for row in range(len(encoded["input_ids"])):
            words = []  # the token that starts with each word piece
            for word in encoded.word_ids(row):
                words.append(None if word in (None, last) else word)
                last = last if word is None else word
            sequence = {**{name: rows[row] for name, rows in encoded.items()}, "_words": words}
            if with_targets:
                sequence["labels"] = [-100 if i is None else targets[i] for i in words]
            sequences.append(sequence)
        return sequences

    def predict(self, docs: list[Doc]) -> list[set[tuple[int, int, str]]]:
        """(start, end, label) of each mention, in characters."""
        encoded = [self.encode(doc) for doc in docs]
        sequences = [sequence for sequences in encoded for sequence in sequences]
        rows = iter(self.forward(sequences).logits.argmax(-1).tolist())
        found = []
        for doc, own in zip(docs, encoded, strict=True):
            tags = ["O"] * len(doc)
            for sequence in own:
                for word, tag in zip(sequence["_words"], next(rows), strict=False):
                    if word is not None:
                        tags[word] = self.tags[tag]
            found.append(decode_bio(doc, tags))
        return found


class PlainClasses(PlainTrainer):
    """One class of a text or of a pair of texts."""

    problem_type = "single_label_classification"

    def create_model(self, encoder: str, docs: list[Doc]) -> PreTrainedModel:
        self.labels = self.find_labels(docs)
        return AutoModelForSequenceClassification.from_pretrained(
            encoder,
            num_labels=len(self.labels),
            problem_type=self.problem_type,
            trust_remote_code=False,
            use_safetensors=True,
        )

    def find_labels(self, docs: list[Doc]) -> list[str]:
        return sorted({self.gold(doc) for doc in docs})

    def gold(self, doc: Doc) -> str:
        return max(doc.cats, key=doc.cats.__getitem__)

    def target(self, doc: Doc) -> Any:
        """The annotation as a target for the loss."""
        return self.labels.index(self.gold(doc))

    def encode(self, doc: Doc, with_targets: bool = False) -> list[Sequence]:
        spans = get_pair(doc)
        texts = [doc.text] if spans is None else [span.text for span in spans]
        targets = {"labels": self.target(doc)} if with_targets else {}
        return [{**self.tokenizer(*texts, truncation=True), **targets}]

    def predict(self, docs: list[Doc]) -> list[Any]:
        logits = self.forward([sequence for doc in docs for sequence in self.encode(doc)]).logits
        return [self.decode(row) for row in logits]

    def decode(self, row: torch.Tensor) -> Any:
        return self.labels[int(row.argmax())]


class PlainRelations(PlainClasses):
    """The relation of two marked arguments, as one class of the sentence; "" for none."""

    def gold(self, doc: Doc) -> str:
        relations = doc._.relations
        return relations[0].label if relations else ""


class PlainMultilabel(PlainClasses):
    """Any number of classes of a text."""

    problem_type = "multi_label_classification"

    def find_labels(self, docs: list[Doc]) -> list[str]:
        return sorted({label for doc in docs for label in doc.cats})

    def target(self, doc: Doc) -> list[float]:
        return [float(doc.cats[label]) for label in self.labels]

    def decode(self, row: torch.Tensor) -> set[str]:
        return {label for label, logit in zip(self.labels, row.tolist(), strict=True) if logit > 0}


class PlainNumber(PlainClasses):
    """A number for a pair of texts, learned in standard deviations from the mean."""

    problem_type = "regression"

    def find_labels(self, docs: list[Doc]) -> list[str]:
        [label] = {label for doc in docs for label in doc.cats}
        values = torch.tensor([doc.cats[label] for doc in docs])
        self.mean, self.deviation = float(values.mean()), float(values.std(correction=0))
        return [label]

    def target(self, doc: Doc) -> float:
        return (doc.cats[self.labels[0]] - self.mean) / self.deviation

    def decode(self, row: torch.Tensor) -> float:
        return float(row[0]) * self.deviation + self.mean


class PlainAnswers(PlainTrainer):
    """Answers in a context, read in overlapping windows; without an answer the target is [CLS]."""

    def create_model(self, encoder: str, docs: list[Doc]) -> PreTrainedModel:
        return AutoModelForQuestionAnswering.from_pretrained(
            encoder, trust_remote_code=False, use_safetensors=True
        )

    def encode(self, doc: Doc, with_targets: bool = False) -> list[Sequence]:
        question, context = get_pair(doc)
        encoded = self.tokenizer(
            question.text,
            context.text,
            truncation="only_second",
            max_length=QUESTION_WINDOW,
            stride=QUESTION_STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        encoded.pop("overflow_to_sample_mapping")
        gold = doc.spans.get(ANSWER_KEY, ()) if with_targets else ()
        answer = (gold[0].start_char, gold[0].end_char) if len(gold) else (-1, -1)
        start, end = (place - context.start_char for place in answer)
        sequences = []
        for row, offsets in enumerate(encoded.pop("offset_mapping")):
            segments = encoded.sequence_ids(row)
            places = [
                offset if segment == 1 else None
                for offset, segment in zip(offsets, segments, strict=True)
            ]
            sequences.append(
                {
                    **{name: rows[row] for name, rows in encoded.items()},
                    **(_locate(places, start, end) if with_targets else {}),
                    "_places": places,
                }
            )
        return sequences

    def predict(self, docs: list[Doc]) -> list[list[str]]:
        """Texts of the most probable answers, the best first, as in transformers' example."""
        encoded = [self.encode(doc) for doc in docs]
        output = self.forward([sequence for sequences in encoded for sequence in sequences])
        rows = iter(zip(output.start_logits.tolist(), output.end_logits.tolist(), strict=True))
        found = []
        for doc, sequences in zip(docs, encoded, strict=True):
            context = get_pair(doc)[1].text
            answers = []
            for sequence in sequences:
                answers += _candidates(sequence["_places"], *next(rows))
            answers.sort(reverse=True)
            texts = [context[start:end] for _, start, end in answers]
            found.append(list(dict.fromkeys(texts))[:5])
        return found


def _locate(places: list[tuple[int, int] | None], start: int, end: int) -> dict[str, int]:
    """The word pieces where an answer starts and ends; 0 and 0 if it is not in the window."""
    inside = [i for i, place in enumerate(places) if place and place[0] < end and place[1] > start]
    whole = inside and places[inside[0]][0] <= start and places[inside[-1]][1] >= end
    first, last = (inside[0], inside[-1]) if whole else (0, 0)
    return {"start_positions": first, "end_positions": last}


def _candidates(
    places: list[tuple[int, int] | None], starts: list[float], ends: list[float]
) -> list[tuple[float, int, int]]:
    """(score, start, end) of the answers from the best starts and ends of a window."""
    first, last = (_best(places, scores) for scores in (starts, ends))
    return [
        (starts[i] + ends[j], places[i][0], places[j][1])
        for i in first
        for j in last
        if i <= j < i + LONGEST_ANSWER
    ]


def _best(places: list[tuple[int, int] | None], scores: list[float]) -> list[int]:
    inside = [i for i, place in enumerate(places) if place]
    return sorted(inside, key=lambda i: -scores[i])[:CANDIDATES]


def decode_bio(doc: Doc, tags: list[str]) -> set[tuple[int, int, str]]:
    """Decode tags to mentions, in characters; an "I" without a mention before it starts one."""
    found: set[tuple[int, int, str]] = set()
    start, current = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        edge, _, label = tag.partition("-")
        if current and (edge != "I" or label != current):
            found.add((doc[start].idx, doc[i - 1].idx + len(doc[i - 1]), current))
            current = ""
        if label and not current:
            start, current = i, label
    return found


def _decay_groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Parameter groups as in Trainer: biases and normalisation weights do not decay."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.01},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
