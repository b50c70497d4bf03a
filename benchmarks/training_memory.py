"""Measure the resident memory of fine-tuning as it goes on: ours, and stock spacy-transformers.

    python benchmarks/training_memory.py corpus/ncbi_disease ENCODER_DIRECTORY --threads 2

Both fine-tune the same encoder in spaCy's training loop on ever new batches of --batch-words words,
as in a real training (`training.py` repeats a few batches), each in a separate process. Memory must
not rise once the training is under way. The output is, for every --every steps, the largest of the
resident sizes after each of them.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from comparisons import (
    Check,
    Contest,
    add_options,
    advance,
    console,
    positive,
    print_checks,
    run_program,
    write_results,
)
from finetuning import Schedule
from rich.table import Table
from training import OURS, STOCK, TRAINERS

from spacy_biomed.evaluation.workers import serve

CONTESTANTS = (OURS, STOCK)
AFTER = 200  # steps until the training is under way


class Process:
    """The requests of a contestant's process."""

    def load(
        self, name: str, corpus: str, encoder: str, batch_words: int, **schedule: Any
    ) -> float:
        """Set up a contestant; return the resident size in bytes."""
        trainer = TRAINERS[name](Path(corpus), encoder, Schedule(**schedule), "cpu")
        self.loop = trainer.train(batch_words)
        return resident()

    def advance(self, steps: int) -> float:
        """Train; return the largest of the resident sizes after each step, in bytes."""
        largest = 0.0
        for _ in range(steps):
            next(self.loop)
            largest = max(largest, resident())
        return largest


def resident() -> float:
    from spacy_biomed.evaluation.pipeline_worker import resident_memory

    return resident_memory() or 0.0


def main() -> None:
    args = parse_arguments()
    schedule = {"steps": args.steps, "learn_rate": args.learn_rate, "batch": 32, "seed": 0}
    contest = Contest(args.threads, repeats=1)
    sizes: dict[str, dict[int, float]] = {name: {} for name in CONTESTANTS}
    stops = list(range(args.every, args.steps + 1, args.every))
    try:
        for name in CONTESTANTS:  # one after the other: both are large
            contest.start(name, [sys.executable, __file__, "--serve"])
            sizes[name][0] = contest.ask(
                name,
                "load",
                name=name,
                corpus=str(args.corpus.resolve()),
                encoder=str(args.encoder.resolve()),
                batch_words=args.batch_words,
                **schedule,
            )
            for stop in advance(stops, name):
                sizes[name][stop] = contest.ask(name, "advance", steps=args.every)
            contest.close()
    finally:
        contest.close()
    checks = list(make_checks(sizes, stops))
    print_sizes(sizes)
    print_checks(checks)
    contest.print_missing()
    write_results(args.output, args, checks, resident_bytes=sizes, missing=contest.missing)


def make_checks(sizes: dict[str, dict[int, float]], stops: list[int]) -> list[Check]:
    """The size at the end, and how much of it was not there once the training was under way."""
    ours, last = sizes[OURS], stops[-1]
    checks = [Check(f"GB after {last:,} steps", to_gb(ours.get(last)), 1.5, "", False)]
    if AFTER in ours and ours.get(last):
        growth = 100 * (ours[last] / ours[AFTER] - 1)
        checks.append(Check(f"growth since step {AFTER}", growth, 5, "%", False))
    stock = to_gb(sizes[STOCK].get(last))
    return [*checks, Check(f"GB after {last:,} steps, stock", stock, None, "", False)]


def to_gb(size: float | None) -> float | None:
    return size / 1e9 if size else None


def print_sizes(sizes: dict[str, dict[int, float]]) -> None:
    table = Table(title="Resident gigabytes", title_justify="left")
    for title in ("steps", *CONTESTANTS):
        table.add_column(title, justify="right")
    for step in sizes[OURS]:
        cells = [to_gb(sizes[name].get(step)) for name in CONTESTANTS]
        table.add_row(f"{step:,}", *("" if cell is None else f"{cell:.2f}" for cell in cells))
    console.print(table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder written by `spacy biomed convert`")
    parser.add_argument("encoder", type=Path, help="directory in Hugging Face layout")
    parser.add_argument("--steps", type=positive, default=2000)
    parser.add_argument("--every", type=positive, default=100, help="steps between two readings")
    parser.add_argument("--batch-words", type=positive, default=400)
    parser.add_argument("--learn-rate", type=float, default=2e-4, help="maximum learning rate")
    add_options(parser, output="build/benchmarks/training_memory.json")
    args = parser.parse_args()
    if args.every > args.steps:
        parser.error("--every has to be at most --steps")
    return args


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
