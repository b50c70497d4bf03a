"""Measure the cost of each additional head on a shared encoder in inference.

    python benchmarks/heads.py compressed/multitask corpus/ncbi_disease --threads 2

The pipeline with all its heads annotates the texts of the corpus's test part. So does, for each
head, the same pipeline without the other heads. Each pipeline runs in a separate process, and they
take turns. The output has words per second, the ratio of the time of all heads together to the time
of a single head (mean over all heads), and the speed-up over running a pipeline for each head.

A head that reads the predictions of another head, such as relations and entities, is measured
together with it: use `--reads relations=entities`.
"""

import argparse
import sys
from pathlib import Path
from statistics import median

from comparisons import (
    CONTESTANTS,
    Check,
    Contest,
    add_options,
    divide,
    positive,
    print_checks,
    read_text_set,
    run_program,
    write_results,
)
from spacy.util import load_config

from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.tasks import find_heads

ALL = "all heads"


def main() -> None:
    args = parse_arguments()
    heads = read_heads(args.pipeline)
    reads = parse_reads(args.reads, heads)
    texts = read_text_set(args.corpus, args.limit)
    contest = Contest(args.threads, args.repeats)
    excluded = {ALL: []}
    for head in heads:
        excluded[head] = [other for other in heads if other not in {head, *reads.get(head, ())}]
    try:
        for name in excluded:
            contest.start(name, [sys.executable, str(CONTESTANTS)])
        for name in contest.among(list(excluded), "Loading"):
            contest.ask(
                name, "load", kind="pipeline", path=str(args.pipeline), exclude=excluded[name]
            )
        contest.run(texts, list(excluded))
    finally:
        contest.close()
    contest.print_speeds()
    checks = make_checks(contest, texts.name, heads)
    print_checks(checks)
    write_results(args.output, args, checks, texts=contest.to_json(), missing=contest.missing)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", type=Path, help="directory of a pipeline with several heads")
    parser.add_argument("corpus", type=Path, help="folder written by `spacy biomed convert`")
    parser.add_argument("--reads", nargs="+", default=[], metavar="HEAD=OTHER")
    parser.add_argument("--limit", type=positive, help="maximum number of texts (default: all)")
    add_options(parser, output="build/benchmarks/heads.json")
    return parser.parse_args()


def read_heads(pipeline: Path) -> list[str]:
    """The names of the pipeline's heads.

    Raises:
        BiomedError: if there are fewer than two, or the pipeline does not exist.
    """
    path = pipeline / "config.cfg"
    if not path.is_file():
        raise BiomedError(f"{path}: not there; give the directory of a pipeline")
    heads = [head.name for head in find_heads(load_config(path))]
    if len(heads) < 2:
        raise BiomedError(f"{pipeline}: has {len(heads)} heads; give a pipeline with several")
    return heads


def parse_reads(given: list[str], heads: list[str]) -> dict[str, list[str]]:
    """Parse the heads that each head needs, by its name."""
    reads: dict[str, list[str]] = {}
    for one in given:
        head, _, other = one.partition("=")
        for name in (head, other):
            if name not in heads:
                raise BiomedError(f"--reads {one}: '{name}' is none of {', '.join(heads)}")
        reads.setdefault(head, []).append(other)
    return reads


def make_checks(contest: Contest, texts: str, heads: list[str]) -> list[Check]:
    seconds = {name: median(own) for name, own in contest.seconds[texts].items() if own}
    singles = [seconds[head] for head in heads if head in seconds]
    in_turn = sum(singles) if len(singles) == len(heads) else None
    together = seconds.get(ALL)
    mean = divide(in_turn, len(heads))
    return [
        Check(f"{len(heads)} heads vs one, time", divide(together, mean), 1.3, at_least=False),
        Check(f"{len(heads)} heads vs as many pipelines in turn", divide(in_turn, together), 6),
    ]


if __name__ == "__main__":
    run_program(main)
