"""Compare the speed of fine-tuning: ours, spaCy with spacy-transformers, and a plain loop.

    python benchmarks/training.py corpus/ncbi_disease ENCODER_DIRECTORY --threads 2

All three fine-tune the same encoder for named entities on the same batches of 32 sentences. Ours,
with the template `ner`, and stock spacy-transformers with `ner` run in spaCy's training loop. The
third is the usual loop of transformers' Trainer with a token classifier, in fp32.
Each runs in a separate process, and they take turns: some steps each, on the same batches, while
the others wait. Speeds are medians of these rounds. On a GPU (`--device cuda`) the output also has
the memory that PyTorch reserves there.

Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comparisons import (
    Check,
    Contest,
    TextSet,
    console,
    create_parser,
    memory_checks,
    positive,
    report,
    run_program,
)
from contestants import peak_memory, stock_config, wait_for_gpu
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.training.config import fill_config, read_description
from spacy_biomed.workers.process import serve

if TYPE_CHECKING:
    import torch

LONGEST = 512  # word pieces of a sequence

Sequence = dict[str, Any]  # inputs of a model: input_ids, attention_mask, labels

OURS, STOCK, PLAIN = "ours", "stock spacy-transformers", "plain transformers loop, fp32"

# --- The contestants ---


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


class SpacyTrainer:
    """spaCy's training loop.

    Attributes:
        config: a complete training config.
    """

    def __init__(self, config: Config, schedule: Schedule, device: str):
        from spacy.training.initialize import init_nlp

        self.schedule = schedule
        self.nlp = init_nlp(config, use_gpu=0 if device == "cuda" else -1)

    def steps(self, count: int) -> Iterator[Any]:
        """Train on the first `count` batches repeatedly; yield after each step."""
        from spacy.schemas import ConfigSchemaTraining
        from spacy.training.loop import train_while_improving
        from spacy.util import registry, resolve_dot_names

        config = self.nlp.config.interpolate()
        [corpus] = resolve_dot_names(config, ["corpora.train"])
        batches = cycle(first_batches(list(corpus(self.nlp)), self.schedule, count))
        settings = registry.resolve(config["training"], schema=ConfigSchemaTraining)
        return train_while_improving(
            self.nlp,
            settings["optimizer"],
            ((0, batch) for batch in batches),
            lambda: (0.0, {}),
            dropout=settings["dropout"],
            eval_frequency=sys.maxsize,
            accumulate_gradient=settings["accumulate_gradient"],
            patience=0,
            max_steps=0,
            exclude=[],
            annotating_components=[],
            before_update=None,
        )


def create_ours(corpus: Path, encoder: str, schedule: Schedule, device: str) -> SpacyTrainer:
    """The config that `init-config` writes, with batches of a number of documents."""
    config = fill_config(
        corpus, encoder=encoder, epochs=1, learn_rate=schedule.learn_rate, seed=schedule.seed
    )
    config["vars"].update(
        max_steps=schedule.steps, warmup_steps=schedule.warmup, eval_frequency=schedule.steps
    )
    batcher = {"@batchers": "spacy.batch_by_sequence.v1", "size": schedule.batch}
    config["training"]["batcher"] = batcher
    return SpacyTrainer(config, schedule, device)


def create_stock(corpus: Path, encoder: str, schedule: Schedule, device: str) -> SpacyTrainer:
    """spacy-transformers and spaCy's `ner`, with spaCy's optimizer."""
    language = read_description(corpus)["language"]
    config = stock_config(encoder, language)
    config["training"]["accumulate_gradient"] = 1
    for part in ("train", "dev"):
        config["corpora"][part]["path"] = str(corpus / f"{part}.spacy")
    config["training"]["seed"] = schedule.seed
    config["training"]["optimizer"]["learn_rate"].update(
        initial_rate=schedule.learn_rate,
        warmup_steps=schedule.warmup,
        total_steps=schedule.steps,
    )
    return SpacyTrainer(config, schedule, device)


class PlainTrainer:
    """A token classifier of transformers, with the usual loop of its Trainer.

    fp32, AdamW without decay of biases and normalisation, a linear schedule with warm-up, gradients
    clipped at norm 1. The head is a linear layer with BIO tags on the first word piece of each
    token. Texts longer than the encoder are read in consecutive parts.

    Attributes:
        corpus: folder written by `spacy biomed convert`.
        encoder: directory in Hugging Face layout.
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


# A class for each contestant, or a function that makes one.
TRAINERS = {OURS: create_ours, STOCK: create_stock, PLAIN: PlainTrainer}


class Process:
    """The requests of a contestant's process."""

    def load(self, name: str, corpus: str, encoder: str, device: str, **schedule: Any) -> None:
        """Set up a contestant."""
        if device == "cuda":
            import spacy

            spacy.require_gpu()
        self.trainer = TRAINERS[name](Path(corpus), encoder, Schedule(**schedule), device)

    def read(self, count: int) -> None:
        """Make the batches, and run a round as a warm-up."""
        self.count = count
        self.loop = self.trainer.steps(count)
        self.round("")

    def round(self, name: str) -> float:
        """Run a step for each batch; return the seconds."""
        start = time.perf_counter()
        for _ in islice(self.loop, self.count):
            pass
        wait_for_gpu()
        return time.perf_counter() - start

    def peak_memory(self) -> int:
        return peak_memory()


# --- The program ---


def main() -> None:
    args = parse_arguments()
    args.corpus = args.corpus.resolve()
    if Path(args.encoder).is_dir():
        args.encoder = str(Path(args.encoder).resolve())
    compare_speeds(args)


def parse_arguments() -> argparse.Namespace:
    parser = create_parser(__doc__, "training.json")
    parser.add_argument("corpus", type=Path, help="folder written by `spacy biomed convert`")
    parser.add_argument("encoder", help="directory in Hugging Face layout")
    parser.add_argument("--steps", type=positive, default=20, help="in a round")
    parser.add_argument("--batch-size", type=positive, default=32, help="sentences in a batch")
    parser.add_argument("--learn-rate", type=float, default=2e-4, help="maximum learning rate")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return parser.parse_args()


def compare_speeds(args: argparse.Namespace) -> None:
    """Run the contestants' rounds in turns, print and write the results."""
    docs = list(read_docs(args.corpus / "train.spacy", Vocab()))
    schedule = {
        "steps": args.steps * (args.repeats + 1),
        "learn_rate": args.learn_rate,
        "batch": args.batch_size,
        "seed": 0,
    }
    chosen = [
        doc for batch in first_batches(docs, Schedule(**schedule), args.steps) for doc in batch
    ]
    name = f"{args.corpus.name}, {args.steps} batches of {args.batch_size}"
    texts = TextSet(name, [doc.text for doc in chosen], sum(map(len, chosen)))
    with Contest(args.threads, args.repeats) as contest:
        contest.start(TRAINERS, __file__, "--serve")
        where = {"corpus": str(args.corpus), "encoder": args.encoder, "device": args.device}
        with console.status("Before it counts"):
            loads = {own: {"name": own, **where, **schedule} for own in TRAINERS}
            contest.ask_together("load", loads)
            contest.ask_together("read", {own: {"count": args.steps} for own in TRAINERS})
        contest.take_turns(texts, list(TRAINERS))
        memory = contest.ask_all("peak_memory")
    checks = [
        Check("fine-tuning, ours vs stock", contest.ratio(name, OURS, STOCK), 3),
        Check("fine-tuning, ours vs plain loop", contest.ratio(name, OURS, PLAIN), None),
        *memory_checks(memory),
    ]
    report(contest, args, checks, gpu_bytes=memory)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
