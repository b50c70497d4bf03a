"""Compare the speed of fine-tuning: ours, spaCy with spacy-transformers, and a plain loop.

    python benchmarks/training.py corpus/ncbi_disease ENCODER_DIRECTORY --threads 2

All three fine-tune the same encoder for named entities on the same batches of 32 sentences. Ours,
with the template `ner`, and stock spacy-transformers with `ner` run in spaCy's training loop. The
third is the usual loop of transformers' Trainer with a token classifier (`finetuning.py`), in fp32.
Each runs in a separate process, and they take turns: some steps each, on the same batches, while
the others wait. Speeds are medians of these rounds. On a GPU (`--device cuda`) the output also has
the memory that PyTorch reserves there.

Nothing is downloaded.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from comparisons import (
    Check,
    Contest,
    TextSet,
    add_options,
    console,
    memory_checks,
    positive,
    print_checks,
    run_program,
    write_results,
)
from contestants import peak_memory, stock_config, wait_for_gpu
from finetuning import PlainTrainer, Schedule, first_batches, our_config
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_biomed.evaluation.workers import serve
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.training.config import read_description

OURS, STOCK, PLAIN = "ours", "stock spacy-transformers", "plain transformers loop, fp32"

# The output of `spacy init config --gpu`, except for the batches.
STOCK_TRAINING = """
[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = null

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = null

[training]
seed = 0
gpu_allocator = null
dropout = 0.1
accumulate_gradient = 1

[training.optimizer]
@optimizers = "Adam.v1"

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
warmup_steps = 0
total_steps = 0
initial_rate = 0.0
"""


# --- The contestants ---


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
    """Our components and optimizer, as in the template `ner`."""
    return SpacyTrainer(our_config(corpus, encoder, schedule), schedule, device)


def create_stock(corpus: Path, encoder: str, schedule: Schedule, device: str) -> SpacyTrainer:
    """spacy-transformers and spaCy's `ner`, with spaCy's optimizer."""
    language = read_description(corpus)["language"]
    config = stock_config(encoder, language).merge(Config().from_str(STOCK_TRAINING))
    for part in ("train", "dev"):
        config["corpora"][part]["path"] = str(corpus / f"{part}.spacy")
    config["training"]["seed"] = schedule.seed
    config["training"]["optimizer"]["learn_rate"].update(
        initial_rate=schedule.learn_rate,
        warmup_steps=schedule.warmup,
        total_steps=schedule.steps,
    )
    return SpacyTrainer(config, schedule, device)


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder written by `spacy biomed convert`")
    parser.add_argument("encoder", help="directory in Hugging Face layout")
    parser.add_argument("--steps", type=positive, default=20, help="in a round")
    parser.add_argument("--batch-size", type=positive, default=32, help="sentences in a batch")
    parser.add_argument("--learn-rate", type=float, default=2e-4, help="maximum learning rate")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    add_options(parser, output="build/benchmarks/training.json")
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
    contest = Contest(args.threads, args.repeats)
    try:
        for own in TRAINERS:
            contest.start(own, [sys.executable, __file__, "--serve"])
        where = {"corpus": str(args.corpus), "encoder": args.encoder, "device": args.device}
        with console.status("Before it counts"):
            loads = {own: {"name": own, **where, **schedule} for own in TRAINERS}
            contest.ask_together("load", loads)
            contest.ask_together("read", {own: {"count": args.steps} for own in TRAINERS})
        contest.take_turns(texts, list(TRAINERS))
        memory = {
            own: contest.ask(own, "peak_memory") for own in contest.among(list(TRAINERS), "Memory")
        }
    finally:
        contest.close()
    checks = [
        Check("fine-tuning, ours vs stock", contest.ratio(name, OURS, STOCK), 3),
        Check("fine-tuning, ours vs plain loop", contest.ratio(name, OURS, PLAIN), None),
        *memory_checks(memory),
    ]
    contest.print_speeds()
    print_checks(checks)
    write_results(
        args.output,
        args,
        checks,
        texts=contest.to_json(),
        gpu_bytes=memory,
        missing=contest.missing,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
