"""Measure the speed and memory of cleaning, and check that planted noise is found.

    python benchmarks/cleaning.py ../corpora/text_en.txt.xz --times 10

The text is repeated. In all repetitions except the first, random words are replaced, so that the
sentences and documents are different and the index of duplicates grows. Noisy documents for each
rule, documents in another language, duplicates and near duplicates are added. A separate process
cleans the text. The output has words per second, the peak resident size, and the number of removed
documents and sentences of each kind. The text itself may have noise and duplicates, so more may be
found than was added.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Share of words to replace, and number of documents for each planted document of a kind.
REPLACED = 0.3
PLANTED_EVERY = 100

# In shorter documents a single word changes too large a share of the shingles.
LONG = 120

WORD = re.compile(r"\b[a-z]{4,}\b")

# A noisy document for each rule; {n} is a number in letters that makes each document different.
NOISE = {
    "broken_encoding": "The patientâ€™s {n} was normal on the next morning.",
    "markup": "The <i>heart</i> of {n} was normal on the next morning.",
    "address": "The results for {n} are at www.example.org for all to see.",
    "repeated_characters": "Contents of the report on {n} .......... see page twelve.",
    "too_many_digits": "Call 555 0199 2837 or 555 0199 2838 for {n}.",
    "too_many_symbols": "List = [*] (+) + - + - + {n} / / / ; - * -",
    "too_few_letters": "{n} 1, 2; 3 - 4.",
    "too_short": "Interests {n}.",
    "too_long": "It was said " + "that one or two of them came to {n} " * 40,
    "long_word": "The sequence of {n} was " + "acgt" * 20 + " in the end.",
    "all_capitals": "DO NOT COPY THIS PAGE OF THE REPORT ON {n}.",
    "repeated_words": "Home and care, home and care, home and care, home and care, {n}.",
    "unbalanced": "The heart of {n} was (as we saw normal on the next morning.",
    "cut_off": "The heart of {n} was normal on the next...",
    "no_stop_words": "Aspirin, ibuprofen, diclofenac, naproxen, morphine, fentanyl, tramadol, "
    "codeine, oxycodone, methadone, ketamine, lidocaine, bupivacaine, propofol, midazolam, {n}.",
    "other_language": "El paciente {n} ingresó en el hospital por dolor abdominal y vómitos.",
}
NO_SENTENCE_LEFT, DUPLICATE, NEAR_DUPLICATE = "no_sentence_left", "duplicate", "near_duplicate"


def main() -> None:
    from comparisons import Check, console, print_checks, worker_environment, write_results

    from spacy_biomed.evaluation.workers import Worker
    from spacy_biomed.files import open_binary
    from spacy_biomed.language_models.sources import read_documents

    args = parse_arguments()
    with TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt.zst"
        planted: Counter[str] = Counter()
        with (
            console.status("Writing the corpus"),
            open_binary(corpus, "wb", corpus.suffix) as file,
        ):
            documents = list(islice(read_documents([args.text]), args.limit))
            for document in plant(vary(documents, args.times), planted):
                file.write(f"{document}\n".encode())
        del documents
        command = [sys.executable, __file__, "--serve"]
        with (
            console.status("Cleaning"),
            Worker(command, worker_environment(threads=1)) as worker,
        ):
            result = worker.ask("clean", corpus=str(corpus), lang="en", workers=args.workers)
    found = result["report"]["total"]
    words = found["words"]["in"]
    checks = [
        Check("words", words, None, ""),
        Check("words a second", words / result["seconds"], 30_000, ""),
        Check("words a second of processor time", words / result["processor_seconds"], None, ""),
        Check(
            "largest resident size, MB",
            result["peak_bytes"] and result["peak_bytes"] / 1e6,
            1500,
            "",
            at_least=False,
        ),
        *(
            Check(f"{kind}, found", count_found(found, kind), count, "")
            for kind, count in planted.items()
        ),
    ]
    print_checks(checks)
    write_results(args.output, args, checks, planted=planted, **result)


def parse_arguments() -> argparse.Namespace:
    from comparisons import positive

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path, help="English text, a document per line")
    parser.add_argument("--times", type=positive, default=10, help="repetitions of the text")
    parser.add_argument("--limit", type=positive, help="maximum documents of the text")
    parser.add_argument(
        "--workers",
        type=positive,
        default=1,
        help="processes that split and filter; memory is measured only for the main process",
    )
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/cleaning.json"))
    return parser.parse_args()


def vary(documents: list[str], times: int) -> Iterator[str]:
    """Repeat the documents; all repetitions except the first have some words replaced."""
    draw = random.Random(0)
    known = sorted({word for document in documents for word in WORD.findall(document)})

    def replace(match: re.Match[str]) -> str:
        return draw.choice(known) if draw.random() < REPLACED else match[0]

    yield from documents
    for _ in range(times - 1):
        for document in documents:
            yield WORD.sub(replace, document)


def plant(documents: Iterable[str], planted: Counter[str]) -> Iterator[str]:
    """Add noisy documents and duplicates between documents, and count them by kind."""
    kinds = dict(enumerate([*NOISE, DUPLICATE, NEAR_DUPLICATE]))
    for number, document in enumerate(documents):
        yield document
        kind = kinds.get(number % PLANTED_EVERY)
        if kind in NOISE:
            planted[kind] += 1
            planted[NO_SENTENCE_LEFT] += 1
            yield NOISE[kind].format(n=letters(number))
        elif kind is not None and len(document.split()) >= LONG:
            planted[kind] += 1
            changed = document.replace(",", " ;")
            yield changed if kind == DUPLICATE else f"{changed.rsplit(' ', 1)[0]} today."


def letters(number: int) -> str:
    """A number as a word of at least six letters, without repeated adjacent letters."""
    digits = enumerate(f"{number:06}")
    return "".join(chr(ord("ak"[place % 2]) + int(digit)) for place, digit in digits)


def count_found(total: dict[str, Any], kind: str) -> int:
    documents, sentences = (total[unit]["removed"] for unit in ("documents", "sentences"))
    return documents[kind] if kind in documents else sentences[kind]


class Process:
    """The requests of the cleaning process."""

    def clean(self, corpus: str, lang: str, workers: int) -> dict[str, Any]:
        """Clean a corpus.

        Returns:
            seconds and processor_seconds (of this process) for the cleaning, peak_bytes,
            resident_bytes after each tenth of the documents, and the report.
        """
        from spacy_biomed.evaluation.pipeline_worker import peak_memory, resident_memory
        from spacy_biomed.language_models.cleaning import Source, clean_corpus
        from spacy_biomed.language_models.cleaning_report import CleaningSettings

        resident: list[int | None] = []

        def watch(done: int, total: int) -> None:
            if done * 10 // total > len(resident):
                resident.append(resident_memory())

        path = Path(corpus)
        start, processor_start = time.perf_counter(), time.process_time()
        report = clean_corpus(
            [Source("corpus", (path,))],
            path.with_name("clean.txt.xz"),
            CleaningSettings(lang),
            workers=workers,
            on_progress=watch,
        )
        return {
            "seconds": time.perf_counter() - start,
            "processor_seconds": time.process_time() - processor_start,
            "peak_bytes": peak_memory(),
            "resident_bytes": resident,
            "report": report.to_json(),
        }


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        from spacy_biomed.evaluation.workers import serve

        serve(Process())
    else:
        from comparisons import run_program

        run_program(main)
