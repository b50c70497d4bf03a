"""Measure whether memory grows with the number of annotated documents.

    python benchmarks/memory.py training/ncbi_disease/model-best corpus/ncbi_disease --threads 2

The contestants are our pipeline in int8 in ONNX Runtime and in static int8 in OpenVINO, and stock
spacy-transformers with `ner`; all have the same encoder. They annotate the texts of the corpus's
test part repeatedly in `nlp.memory_zone()`, in turns, each in a separate process. The output has
the resident size after 20,000 documents minus the size after 2,000.
"""

import argparse
import sys
from pathlib import Path

from comparisons import (
    CONTESTANTS,
    Check,
    Contest,
    add_work_option,
    advance,
    make_pipelines,
    positive,
    print_checks,
    read_text_set,
    run_program,
    work_directory,
    write_results,
)

OURS, STOCK = "ours, int8", "stock spacy-transformers"
OPENVINO = "ours, static int8, OpenVINO"


def main() -> None:
    args = parse_arguments()
    contest = Contest(args.threads, repeats=1)
    try:
        with work_directory(args.work) as work:
            sizes = measure(contest, args, work)
    finally:
        contest.close()
    growth = {
        name: own[args.documents] - own[args.after]
        for name, own in sizes.items()
        if name not in contest.missing
    }
    what = f"MB more after {args.documents:,} documents than after {args.after:,}"
    checks = [
        Check(f"{name}: {what}", megabytes(growth.get(name)), target, "", at_least=False)
        for name, target in ((OURS, 30), (OPENVINO, 30), (STOCK, None))
    ]
    print_checks(checks)
    contest.print_missing()
    write_results(args.output, args, checks, resident_bytes=sizes, missing=contest.missing)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="fine-tuned pipeline with biomed_transformer")
    parser.add_argument("corpus", type=Path, help="the corpus that it was fine-tuned on")
    parser.add_argument("--documents", type=positive, default=20_000)
    parser.add_argument("--after", type=positive, default=2_000, help="documents not to count")
    parser.add_argument("--zone", type=positive, default=500, help="documents in a memory zone")
    parser.add_argument("--limit", type=positive, help="maximum number of different texts")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/memory.json"))
    add_work_option(parser)
    args = parser.parse_args()
    if args.after >= args.documents:
        parser.error("--after has to be less than --documents")
    return args


def measure(contest: Contest, args: argparse.Namespace, work: Path) -> dict[str, dict[int, int]]:
    """The resident size of each contestant, in bytes, by the number of annotated documents."""
    paths = make_pipelines(args.threads, args.pipeline, args.corpus, work)
    texts = read_text_set(args.corpus, args.limit)
    loads = {
        OURS: {"path": paths["int8"], "engine": "onnxruntime"},
        OPENVINO: {"path": paths["static int8"], "engine": "openvino"},
        STOCK: {"path": paths["stock"]},
    }
    for name in loads:
        contest.start(name, [sys.executable, str(CONTESTANTS)])
    for name in contest.among(list(loads), "Loading"):
        contest.ask(name, "load", kind="pipeline", **loads[name])
        contest.ask(name, "cycle", texts=texts.texts)
    stops = sorted({*range(args.zone, args.documents, args.zone), args.after, args.documents})
    sizes: dict[str, dict[int, int]] = {name: {} for name in loads}
    for before, stop in zip([0, *stops], advance(stops, "Annotating"), strict=False):
        for name in loads:
            sizes[name][stop] = contest.ask(name, "zone", documents=stop - before)
    return sizes


def megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


if __name__ == "__main__":
    run_program(main)
