"""Compare the entities that a compressed pipeline finds in each engine and number format.

    python benchmarks/engine_agreement.py training/public_en/model-best \\
        corpus/public/{ncbi_disease,bc5cdr,biored,nlm_gene,s800} --threads 2

reads a fine-tuned pipeline, compresses it to fp32, int8 and static int8, and annotates the test
part of each corpus in ONNX Runtime and in OpenVINO, each in a separate process. The output has, for
each corpus, the share of documents in which all entities are the same, with their labels, as in
fp32 in ONNX Runtime.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from comparisons import (
    CONTESTANTS,
    Check,
    Contest,
    add_work_option,
    console,
    make_pipelines,
    positive,
    print_checks,
    read_text_set,
    run_program,
    work_directory,
    write_results,
)
from rich.table import Table

from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.benchmark import describe_machine

REFERENCE, FP32 = "fp32, ONNX Runtime", "fp32, OpenVINO"
# By name: how the pipeline is compressed, the engine, and what OpenVINO computes in.
ENGINES = {
    REFERENCE: ("fp32", "onnxruntime", "fp32"),
    FP32: ("fp32", "openvino", "fp32"),
    "bf16, OpenVINO": ("fp32", "openvino", "bf16"),
    "static int8, ONNX Runtime": ("static int8", "onnxruntime", "fp32"),
    "static int8, OpenVINO": ("static int8", "openvino", "fp32"),
    "int8, ONNX Runtime": ("int8", "onnxruntime", "fp32"),
}
PRECISION = "components.biomed_transformer.model.precision"

# Start, end and label of the entities of each document.
Found = list[list[list[Any]]]


def main() -> None:
    args = parse_arguments()
    contest = Contest(args.threads, repeats=1)
    try:
        with work_directory(args.work) as work:
            shares = measure(contest, args, work)
    finally:
        contest.close()
    print_shares(contest, args, shares)
    checks = [
        Check(f"{corpus}: documents with the same entities, {FP32}", 100 * own[FP32], 99.5, "%")
        for corpus, own in shares.items()
        if FP32 in own
    ]
    print_checks(checks)
    contest.print_missing()
    write_results(args.output, args, checks, shares=shares, missing=contest.missing)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="fine-tuned pipeline with biomed_transformer")
    parser.add_argument("corpora", type=Path, nargs="+", help="folders of converted corpora")
    parser.add_argument("--limit", type=positive, help="documents of each corpus (default: all)")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/agreement.json"))
    add_work_option(parser)
    return parser.parse_args()


def measure(contest: Contest, args: argparse.Namespace, work: Path) -> dict[str, dict[str, float]]:
    """The share of documents with the reference's entities, by corpus and engine."""
    sets = [read_text_set(corpus, args.limit) for corpus in args.corpora]
    paths = make_pipelines(args.threads, args.pipeline, args.corpora[0], work)
    for name, (variant, engine, precision) in ENGINES.items():
        contest.start(name, [sys.executable, str(CONTESTANTS)])
        settings = {PRECISION: precision}
        contest.ask(
            name, "load", kind="pipeline", path=paths[variant], engine=engine, settings=settings
        )
    shares = {}
    for texts in sets:
        names = contest.among(list(ENGINES), texts.name)
        found = {name: contest.ask(name, "entities", texts=texts.texts) for name in names}
        reference = found.pop(REFERENCE, None)
        if reference is None:
            raise BiomedError(f"{REFERENCE}: {contest.missing[REFERENCE]}")
        shares[texts.name] = {
            name: share_equal(reference, own) for name, own in found.items() if own is not None
        }
    return shares


def share_equal(reference: Found, found: Found) -> float:
    """The share of documents whose entities are the same."""
    equal = [one == other for one, other in zip(reference, found, strict=True)]
    return sum(equal) / len(equal)


def print_shares(
    contest: Contest, args: argparse.Namespace, shares: dict[str, dict[str, float]]
) -> None:
    console.print(f"{describe_machine()['processor']}, {contest.threads} threads")
    title = f"Documents with the same entities as in {REFERENCE}, %"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for corpus in shares:
        table.add_column(corpus, justify="right")
    for name in ENGINES:
        if any(name in own for own in shares.values()):
            cells = (f"{100 * own[name]:.2f}" if name in own else "" for own in shares.values())
            table.add_row(name, *cells)
    console.print(table)


if __name__ == "__main__":
    run_program(main)
