"""Shared parts of the benchmarks: workers that take turns, figures with targets, tables, JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from contestants import Annotated
from rich.console import Console
from rich.progress import track
from rich.table import Table
from spacy.vocab import Vocab

from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.benchmark import describe_machine
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.workers.process import Worker, WorkerFailed, thread_settings

Item = TypeVar("Item")

HEAD_EXAMPLES = 320
CONTESTANTS = str(Path(__file__).with_name("contestants.py"))

console = Console(highlight=False)
if not console.is_terminal:
    console.width = 140  # tables in a file can be wider than a terminal


@dataclass(frozen=True, slots=True)
class TextSet:
    """Texts that each contestant annotates.

    Attributes:
        words: number of their tokens in the corpus file, the same for all contestants.
    """

    name: str
    texts: list[str]
    words: int


@dataclass(slots=True)
class Check:
    """A figure with its target.

    Attributes:
        value: the figure; None if it could not be measured.
        target: the target; None for none.
        unit: printed after the figure, such as "x".
        at_least: whether the target is a minimum, else a maximum.
    """

    title: str
    value: float | None
    target: float | None
    unit: str = "x"
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        if self.value is None or self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


@dataclass(slots=True)
class Contest:
    """Contestants in separate processes, and their measurements.

    Attributes:
        threads: threads of each library in each process.
        repeats: rounds of each contestant.
        workers: the processes, by contestant.
        seconds: duration of each round, by text set and contestant.
        entities: number of entities found in a round, by text set and contestant.
        sets: the text sets, by name.
        missing: contestants that could not be measured, and the reason.
        unit: what is counted.
    """

    threads: int
    repeats: int
    unit: str = "words"
    workers: dict[str, Worker] = field(default_factory=dict)
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    entities: dict[str, dict[str, int]] = field(default_factory=dict)
    sets: dict[str, TextSet] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Contest:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self, names: Iterable[str], program: str, *options: str, python: str = "") -> None:
        """Start processes; contestants that cannot start are recorded in `missing`.

        Args:
            program: the path of the program that a process runs.
            python: interpreter; else this one.
        """
        for name in names:
            command = [python or sys.executable, program, *options]
            try:
                self.workers[name] = Worker(command, worker_environment(self.threads))
            except OSError as error:
                self.missing[name] = f"{command[0]}: {error.strerror}"

    def ask(self, name: str, do: str, /, **arguments: Any) -> Any:
        """Send a request; return the answer, or None from contestants that are missing or fail."""
        if name not in self.workers:
            return None
        try:
            return self.workers[name].ask(do, **arguments)
        except WorkerFailed as error:
            self.missing[name] = f"{do}: {error}"
            self.workers.pop(name).close()
            return None

    def ask_together(self, do: str, arguments: dict[str, dict[str, Any]]) -> None:
        """Send a request to contestants at once, with the arguments of each by its name."""
        with ThreadPoolExecutor(len(arguments)) as threads:
            list(threads.map(lambda name: self.ask(name, do, **arguments[name]), arguments))

    def ask_all(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answers of the running contestants."""
        return {name: self.ask(name, do, **arguments) for name in list(self.workers)}

    def run(self, texts: TextSet, names: list[str]) -> None:
        """Let contestants annotate a set of texts, once as a warm-up, then in turns."""
        entities = self.entities.setdefault(texts.name, {})
        for name in self.among(names, f"{texts.name}: warm-up"):
            entities[name] = self.ask(name, "read", name=texts.name, texts=texts.texts)
        self.take_turns(texts, names)

    def take_turns(self, texts: TextSet, names: list[str]) -> None:
        """Run a round of each contestant in turn, for all repeats."""
        self.sets[texts.name] = texts
        seconds = self.seconds.setdefault(texts.name, {})
        for i in range(self.repeats):
            for name in self.among(names, f"{texts.name}: round {i + 1}"):
                seconds.setdefault(name, []).append(self.ask(name, "round", name=texts.name))
        for name in self.missing:
            seconds.pop(name, None)

    def among(self, names: list[str], title: str) -> Iterator[str]:
        """The running contestants, with a progress bar."""
        running = [name for name in names if name in self.workers]
        return iter(advance(running, title))

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()
        self.workers.clear()

    def words_per_second(self, texts: str, name: str) -> float | None:
        """The median over the rounds; None if it was not measured."""
        seconds = self.seconds.get(texts, {}).get(name)
        return self.sets[texts].words / median(seconds) if seconds else None

    def ratio(self, texts: str, ours: str, other: str) -> float | None:
        """The ratio of two contestants' medians of words per second; None if unknown."""
        return divide(self.words_per_second(texts, ours), self.words_per_second(texts, other))

    def to_json(self) -> dict[str, Any]:
        return {
            name: {
                "documents": len(texts.texts),
                "words": texts.words,
                "contestants": {
                    own: {
                        f"{self.unit}_per_second": self.words_per_second(name, own),
                        "entities": self.entities.get(name, {}).get(own),
                        "seconds": seconds,
                    }
                    for own, seconds in self.seconds[name].items()
                },
            }
            for name, texts in self.sets.items()
        }

    def print_speeds(self) -> None:
        """Print words per second, with a row for each contestant and a column for each text set."""
        table = Table(title=f"{self.unit} a second: median (least to most)", title_justify="left")
        table.add_column("")
        for texts in self.sets.values():
            title = f"{texts.name}\n{len(texts.texts):,} texts, {texts.words:,} {self.unit}"
            table.add_column(title, justify="right")
        names = dict.fromkeys(name for seconds in self.seconds.values() for name in seconds)
        for name in names:
            table.add_row(name, *(self._speed(texts, name) for texts in self.sets))
        console.print(table)
        self.print_missing()

    def print_missing(self) -> None:
        """Print the contestants that could not be measured, and the reasons."""
        for name, reason in self.missing.items():
            console.print(f"{name} is missing: {reason}", markup=False)

    def _speed(self, texts: str, name: str) -> str:
        seconds = self.seconds[texts].get(name)
        if not seconds:
            return ""
        words = self.sets[texts].words
        middle, least, most = median(seconds), max(seconds), min(seconds)
        return f"{words / middle:,.0f} ({words / least:,.0f} to {words / most:,.0f})"


def advance(items: Iterable[Item], title: str) -> Iterable[Item]:
    """The items, with a progress bar."""
    hidden = not console.is_terminal
    return track(items, title, console=console, transient=True, disable=hidden)


def worker_environment(threads: int) -> dict[str, str]:
    """Environment variables that disable the hub and set the number of threads."""
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")
    return {**offline, **thread_settings(threads), "TOKENIZERS_PARALLELISM": "true"}


def divide(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def make_pipelines(
    threads: int, pipeline: str, corpus: Path, work: Path, **options: bool
) -> tuple[dict[str, str], list[Annotated]]:
    """Create the contestants' pipelines from a fine-tuned one (`prepare_pipelines`).

    Returns:
        the directories by name, and the texts of the corpus that the heads of the peers learn from.
    """
    annotated = read_annotated(corpus)
    command = [sys.executable, CONTESTANTS]
    with (
        console.status("Making the pipelines"),
        Worker(command, worker_environment(threads)) as worker,
    ):
        made = worker.ask("make", pipeline=pipeline, annotated=annotated, work=str(work), **options)
    return made, annotated


def read_text_set(corpus: Path, limit: int | None, name: str = "") -> TextSet:
    """The first texts of a corpus's test part."""
    docs = list(read_docs(corpus / "test.spacy", Vocab()))[:limit]
    return TextSet(name or corpus.name, [doc.text for doc in docs], sum(map(len, docs)))


def read_annotated(corpus: Path, limit: int = HEAD_EXAMPLES) -> list[Annotated]:
    """The first texts of a corpus's training part that have mentions, with their mentions."""
    docs = (doc for doc in read_docs(corpus / "train.spacy", Vocab()) if doc.ents)
    return [
        {
            "text": doc.text,
            "entities": [[ent.start_char, ent.end_char, ent.label_] for ent in doc.ents],
        }
        for doc, _ in zip(docs, range(limit), strict=False)
    ]


def create_parser(description: str, output: str, repeats: int = 5) -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks.

    Args:
        output: name of the JSON file that is written by default.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    folder = Path("build/benchmarks")
    parser.add_argument("--repeats", type=positive, default=repeats, help="rounds of each")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--output", type=Path, default=folder / output, help="JSON file to write")
    return parser


def positive(text: str) -> int:
    """Parse an integer above 0, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


@contextmanager
def work_directory(given: Path | None) -> Iterator[Path]:
    """Open the given directory, or a temporary directory."""
    if given is not None:
        yield given.resolve()
        return
    with TemporaryDirectory() as directory:
        yield Path(directory)


def print_checks(checks: list[Check]) -> None:
    """Print a table of figures with their targets."""
    if not checks:
        return
    table = Table(title="Targets", title_justify="left")
    for title in ("", "measured", "target", ""):
        table.add_column(title, justify="right" if title else "left")
    words = {True: "met", False: "not met", None: ""}
    for check in checks:
        sign = "≥" if check.at_least else "≤"
        target = "" if check.target is None else f"{sign} {show(check.target)}{check.unit}"
        value = "not measured" if check.value is None else f"{show(check.value)}{check.unit}"
        table.add_row(check.title, value, target, words[check.met])
    console.print(table)


def memory_checks(memory: dict[str, int | None]) -> list[Check]:
    """The memory of the GPU that contestants reserved, in bytes; none if they did not use it."""
    return [
        Check(f"memory of the GPU, {name}", own / 1e9, None, " GB", at_least=False)
        for name, own in memory.items()
        if own
    ]


def show(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write_results(args: argparse.Namespace, checks: list[Check], **results: Any) -> None:
    """Print the checks, and write all measurements to a JSON file."""
    print_checks(checks)
    content = {
        "settings": {name: str(value) for name, value in vars(args).items() if value is not None},
        "machine": describe_machine(),
        "checks": [check.to_json() for check in checks],
        **results,
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(content, indent=2), encoding="utf8")
    console.print(f"Wrote {args.output}")


def report(contest: Contest, args: argparse.Namespace, checks: list[Check], **results: Any) -> None:
    """Print and write what a contest has measured."""
    processor = describe_machine()["processor"]
    console.print(f"{processor}, {args.threads} threads, {args.repeats} rounds each")
    contest.print_speeds()
    texts, missing = contest.to_json(), contest.missing
    write_results(args, checks, texts=texts, missing=missing, **results)


def run_program(main: Callable[[], None]) -> None:
    """Run a program; for bad input print one line and exit with status 1."""
    try:
        main()
    except (BiomedError, WorkerFailed) as error:
        sys.exit(f"✘ {error}")
