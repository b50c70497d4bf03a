"""Measure how the cost of annotation grows with document length, batch size and processors.

    python benchmarks/scaling.py build/en_biomed_ner corpus/ncbi_disease --threads 1 2

reads a compressed pipeline. The texts are cut from the corpus's test part: documents of 10 to
10,000 words, about as many words in all for each length. Each number of threads has a separate
process, and they take turns. The output has the words per second and the milliseconds for a
document of each length; the same for documents of --batch-length words, in batches of 1 to 256
documents.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

from comparisons import (
    CONTESTANTS,
    Contest,
    TextSet,
    advance,
    console,
    positive,
    run_program,
    write_results,
)
from rich.table import Table
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.benchmark import describe_machine
from spacy_biomed.training.corpus import read_docs

LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
BATCH_SIZES = (1, 4, 16, 64, 256)

# Words per second and milliseconds for a document.
Cost = dict[str, float]


def main() -> None:
    args = parse_arguments()
    docs = list(read_docs(args.corpus / "test.spacy", Vocab()))
    by_length = {length: cut_texts(docs, length, args.words) for length in args.lengths}
    costs = {}
    contests = [Contest(threads, args.repeats) for threads in args.threads]
    try:
        for contest in contests:
            contest.start("ours", [sys.executable, str(CONTESTANTS)])
            contest.ask("ours", "load", kind="pipeline", path=args.pipeline)
            if contest.missing:
                raise BiomedError(contest.missing["ours"])
        costs["length"] = {
            length: measure(contests, texts, None) for length, texts in by_length.items()
        }
        texts = cut_texts(docs, args.batch_length, args.words)
        costs["batch size"] = {size: measure(contests, texts, size) for size in BATCH_SIZES}
    finally:
        for contest in contests:
            contest.close()
    machine = describe_machine()
    console.print(f"{machine['processor']}, {args.repeats} rounds")
    for what, own in costs.items():
        print_costs(what, own)
    write_results(args.output, args, [], costs=costs)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="compressed pipeline")
    parser.add_argument("corpus", type=Path, help="folder of a converted corpus")
    parser.add_argument("--lengths", type=positive, nargs="+", default=LENGTHS)
    parser.add_argument("--batch-length", type=positive, default=100)
    parser.add_argument("--words", type=positive, default=20_000, help="words of each length")
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=positive, default=5, help="rounds of each")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/scaling.json"))
    return parser.parse_args()


def cut_texts(docs: list[Doc], length: int, words: int) -> TextSet:
    """Texts of equal length, cut from the documents of a corpus laid one after the other.

    Args:
        length: words in a text.
        words: words in all texts together, at least one text.

    Raises:
        BiomedError: if the corpus is shorter than one text.
    """
    count = max(words // length, 1)
    texts = list(islice(_cut(docs, length), count))
    if not texts:
        raise BiomedError(f"the test part has fewer than {length:,} words: use shorter --lengths")
    # A corpus that is too short is read repeatedly.
    repeated = [texts[i % len(texts)] for i in range(count)]
    return TextSet(f"{length:,} words", repeated, count * length)


def _cut(docs: Iterable[Doc], length: int) -> Iterator[str]:
    parts: list[str] = []
    missing = length
    for doc in docs:
        start = 0
        while start < len(doc):
            span = doc[start : start + missing]
            parts.append(span.text)
            missing -= len(span)
            start = span.end
            if missing == 0:
                yield "\n".join(parts)
                parts, missing = [], length


def measure(contests: list[Contest], texts: TextSet, batch_size: int | None) -> dict[str, Cost]:
    """The cost with each number of threads."""
    for contest in contests:
        contest.ask("ours", "resize", batch_size=batch_size)
        contest.ask("ours", "read", name=texts.name, texts=texts.texts)
    seconds: dict[str, list[float]] = {f"{own.threads} threads": [] for own in contests}
    for _ in advance(range(contests[0].repeats), f"{texts.name}, batches of {batch_size}"):
        for contest, own in zip(contests, seconds.values(), strict=True):
            own.append(contest.ask("ours", "round", name=texts.name))
            if contest.missing:
                raise BiomedError(contest.missing["ours"])
    return {
        title: {
            "words_per_second": texts.words / median(own),
            "milliseconds": 1e3 * median(own) / len(texts.texts),
        }
        for title, own in seconds.items()
    }


def print_costs(what: str, costs: dict[int, dict[str, Cost]]) -> None:
    table = Table(title=f"By {what}", title_justify="left")
    table.add_column(what, justify="right")
    titles = next(iter(costs.values()))
    for title in titles:
        table.add_column(f"words/s, {title}", justify="right")
        table.add_column("ms a document", justify="right")
    for value, own in costs.items():
        cells = [f"{value:,}"]
        for title in titles:
            cost = own[title]
            cells += [f"{cost['words_per_second']:,.0f}", f"{cost['milliseconds']:,.1f}"]
        table.add_row(*cells)
    console.print(table)


if __name__ == "__main__":
    run_program(main)
