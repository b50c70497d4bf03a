"""Compare the inference speed of our pipelines, other libraries, and the encoder alone.

    python benchmarks/inference.py training/ncbi_disease/model-best --threads 2

reads a fine-tuned pipeline with `biomed_transformer` and creates the contestants from it, all with
the same encoder:

- Our pipeline in PyTorch in bf16.
- Our pipeline compressed to int8, static int8 and fp32, in ONNX Runtime, and the last two in
  OpenVINO (which computes fp32 files in bf16 if the processor has instructions for it).
- spacy-transformers with spaCy's `ner`.
- transformers' `pipeline("token-classification")`.
- EDS-NLP's `eds.ner_crf`.
- Our encoder alone on the padded batches of the pipeline.

Then the same is measured for encoders with random weights: BERT-base, and 4 layers of width 312.
`spacy biomed benchmark` measures start, latency, memory and size.

On a GPU (`--device cuda`) the contestants are our pipeline in PyTorch, stock spacy-transformers,
transformers' pipeline and our encoder alone, and of the encoders with random weights BERT-base. The
output also has the memory that PyTorch reserves there, and the share of the card's peak that our
encoder uses, if `--peak` gives the peak in TFLOPS.

Each contestant runs in a separate process, and they take turns: one round each while the others
wait. Speeds are medians of the rounds. Words are the tokens of the corpus file, the same for all
contestants. Corpora are read from --corpora, as written by `spacy biomed convert`.

EDS-NLP needs a separate virtual environment:

    python -m venv build/edsnlp
    build/edsnlp/bin/pip install "edsnlp[ml]" "torch==2.13.0" "transformers<5"

Contestants that cannot run, such as EDS-NLP without it or OpenVINO where it is not installed, are
listed as missing. Nothing is downloaded.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from comparisons import (
    CONTESTANTS,
    Check,
    Contest,
    TextSet,
    add_options,
    add_work_option,
    ask_once,
    console,
    memory_checks,
    print_checks,
    read_annotated,
    read_text_set,
    run_program,
    work_directory,
    write_results,
)
from contestants import REPOSITORY, Annotated

from spacy_biomed.evaluation.benchmark import describe_machine

SENTENCES, DOCUMENTS = "ncbi_disease", ("meddocan", "cantemist")
SHAPES = "random weights"

INT8, FP32, BF16 = "ours, int8", "ours, ONNX fp32", "ours, PyTorch bf16"
STATIC, STATIC_OPENVINO = "ours, static int8", "ours, static int8, OpenVINO"
OPENVINO = "ours, OpenVINO bf16 or fp32"
# Our compressed pipelines: how they are compressed, and what runs them.
COMPRESSED = {
    INT8: ("int8", "onnxruntime"),
    STATIC: ("static int8", "onnxruntime"),
    STATIC_OPENVINO: ("static int8", "openvino"),
    OPENVINO: ("fp32", "openvino"),
    FP32: ("fp32", "onnxruntime"),
}
STOCK, TRANSFORMERS, EDSNLP = "stock spacy-transformers", "transformers pipeline", "EDS-NLP ner_crf"
ENCODER_INT8, ENCODER_BF16 = "encoder alone, int8", "encoder alone, bf16"
PIPELINES = [*COMPRESSED, BF16, STOCK, TRANSFORMERS, EDSNLP]
BASE, SMALL, BASE_STOCK = "BERT-base", "4 layers x 312", "stock, BERT-base"
BASE_BF16, BASE_ENCODER = "ours, PyTorch bf16, BERT-base", "encoder alone, bf16, BERT-base"


def main() -> None:
    args = parse_arguments()
    contest = Contest(args.threads, args.repeats)
    on_gpu = args.device == "cuda"
    try:
        with work_directory(args.work) as work:
            measured = (measure_on_gpu if on_gpu else measure)(contest, args, work)
    finally:
        contest.close()
    checks = (make_gpu_checks if on_gpu else make_checks)(contest, measured)
    print_results(contest)
    print_checks(checks)
    write_results(args.output, args, checks, texts=contest.to_json(), **measured)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="fine-tuned pipeline with biomed_transformer")
    parser.add_argument("--corpora", type=Path, default=Path("corpus"))
    parser.add_argument(
        "--trained-on",
        default=SENTENCES,
        help="the corpus that the pipeline was fine-tuned on: the heads of the peers learn on it, "
        "and F1 is measured on its test part",
    )
    parser.add_argument("--texts", nargs="+", default=[SENTENCES, *DOCUMENTS])
    parser.add_argument("--limit", type=int, help="maximum sentences (default: all)")
    parser.add_argument("--document-limit", type=int, default=60, help="maximum documents")
    parser.add_argument(
        "--shape-limit",
        type=int,
        default=200,
        help="maximum sentences for the encoders with random weights; 0 to leave these out",
    )
    parser.add_argument(
        "--edsnlp-python",
        default=str(REPOSITORY / "build" / "edsnlp" / "bin" / "python"),
        help="interpreter of EDS-NLP's environment",
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--peak", type=float, help="TFLOPS that the GPU has in bf16")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="with --device cuda: the contestants run on the CPU, to test the program",
    )
    add_work_option(parser)
    add_options(parser, output="build/benchmarks/inference.json")
    return parser.parse_args()


def measure(contest: Contest, args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Run all rounds.

    Returns:
        the scores, and the versions in EDS-NLP's environment.
    """
    sets, shapes, annotated, paths = prepare(args, work)
    measured = measure_fine_tuned(contest, args, sets, paths, annotated)
    if shapes:
        start_shapes(contest, paths)
        contest.run(shapes, [*of_shape(BASE), *of_shape(SMALL), BASE_STOCK])
        contest.close()
    return {**measured, "missing": contest.missing}


def prepare(
    args: argparse.Namespace, work: Path
) -> tuple[list[TextSet], TextSet | None, list[Annotated], dict[str, str]]:
    """Read the texts and create the contestants' pipelines.

    Returns:
        the texts for the fine-tuned encoder, and those for encoders with random weights, if
        wanted; annotated texts for the heads; and directories by name.
    """
    # Read first, so that an unreadable corpus is found before the work.
    sets = [
        read_text_set(args.corpora / name, args.limit if name == SENTENCES else args.document_limit)
        for name in args.texts
    ]
    shapes = None
    if args.shape_limit:
        limit = min(args.shape_limit, args.limit or args.shape_limit)
        shapes = read_text_set(args.corpora / args.texts[0], limit, SHAPES)
    with console.status("Making the pipelines"):
        annotated = read_annotated(args.corpora / args.trained_on)
        paths = ask_once(
            args.threads,
            "make",
            pipeline=args.pipeline,
            annotated=annotated,
            work=str(work),
            shapes=shapes is not None,
            gpu=args.device == "cuda",
        )
    return sets, shapes, annotated, paths


def measure_on_gpu(contest: Contest, args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Run all rounds on a GPU.

    Returns:
        the memory that was reserved, and the share of the peak.
    """
    sets, shapes, annotated, paths = prepare(args, work)
    ours = {"path": args.pipeline, "precision": "bf16"}
    loads = {
        BF16: {"kind": "pipeline", **ours},
        STOCK: {"kind": "pipeline", "path": paths["stock"]},
        TRANSFORMERS: {"kind": "transformers", "path": paths["encoder"], "annotated": annotated},
        ENCODER_BF16: {"kind": "encoder alone", **ours},
    }
    load_on_gpu(contest, args, loads)
    for texts in sets:
        contest.run(texts, list(loads))
    measured = {
        "gpu_bytes": ask_all(contest, "peak_memory"),
        "peak_shares": {sets[-1].name: peak_share(contest, args, sets[-1], ENCODER_BF16)},
    }
    contest.close()
    if shapes:
        base = {"path": paths["BERT-base pytorch"], "precision": "bf16"}
        loads = {
            BASE_BF16: {"kind": "pipeline", **base},
            BASE_STOCK: {"kind": "pipeline", "path": paths["BERT-base stock"]},
            BASE_ENCODER: {"kind": "encoder alone", **base},
        }
        load_on_gpu(contest, args, loads)
        contest.run(shapes, list(loads))
        measured["gpu_bytes"] |= ask_all(contest, "peak_memory")
        measured["peak_shares"][SHAPES] = peak_share(contest, args, shapes, BASE_ENCODER)
        contest.close()
    return {**measured, "missing": contest.missing}


def load_on_gpu(
    contest: Contest, args: argparse.Namespace, loads: dict[str, dict[str, Any]]
) -> None:
    """Start and load contestants on the GPU."""
    for name in loads:
        contest.start(name, [sys.executable, str(CONTESTANTS)])
    gpu = {"gpu": not args.dry_run}
    with console.status("Loading"):
        contest.ask_together("load", {name: {**own, **gpu} for name, own in loads.items()})


def ask_all(contest: Contest, do: str) -> dict[str, Any]:
    return {name: contest.ask(name, do) for name in list(contest.workers)}


def peak_share(
    contest: Contest, args: argparse.Namespace, texts: TextSet, encoder: str
) -> float | None:
    """The share of the GPU's peak that an encoder alone uses; None without --peak."""
    operations, seconds = contest.ask(encoder, "operations"), contest.seconds[texts.name]
    if not (args.peak and operations and seconds.get(encoder)):
        return None
    return operations / median(seconds[encoder]) / (1e12 * args.peak)


def make_gpu_checks(contest: Contest, measured: dict[str, Any]) -> list[Check]:
    """The figures measured on a GPU with their targets."""
    return [
        *(
            Check(f"PyTorch vs stock, {name}", contest.ratio(name, BF16, STOCK), 8)
            for name in contest.sets
            if name != SHAPES
        ),
        Check("BERT-base vs stock", contest.ratio(SHAPES, BASE_BF16, BASE_STOCK), 8),
        Check("BERT-base", contest.words_per_second(SHAPES, BASE_BF16), 100_000, " words/s"),
        *(
            Check(f"PyTorch vs {other}, {name}", contest.ratio(name, BF16, other), None)
            for name in contest.sets
            if name != SHAPES
            for other in (TRANSFORMERS, ENCODER_BF16)
        ),
        *(
            Check(f"encoder's share of the card's peak, {name}", 100 * share, None, "%")
            for name, share in measured["peak_shares"].items()
            if share is not None
        ),
        *memory_checks(measured["gpu_bytes"]),
    ]


def measure_fine_tuned(
    contest: Contest,
    args: argparse.Namespace,
    sets: list[TextSet],
    paths: dict[str, str],
    annotated: list[Annotated],
) -> dict[str, Any]:
    """Measure speeds and scores of the contestants with the fine-tuned encoder."""
    versions = start_contestants(contest, args, paths, annotated)
    for texts in sets:
        extras = [ENCODER_INT8, ENCODER_BF16] if texts.name == SENTENCES else []
        contest.run(texts, PIPELINES + extras)
    test = str(args.corpora / args.trained_on / "test.spacy")
    scores = {
        name: contest.ask(name, "score", corpus=test)
        for name in contest.among([*COMPRESSED, BF16], f"{args.trained_on}: scores")
    }
    contest.close()
    return {"scores": scores, "edsnlp_versions": versions}


def start_contestants(
    contest: Contest, args: argparse.Namespace, paths: dict[str, str], annotated: list[Annotated]
) -> dict | None:
    """Start and load the contestants with the fine-tuned encoder.

    Returns:
        the versions in EDS-NLP's environment; None if it is missing.
    """
    ours = {"path": args.pipeline, "precision": "bf16"}
    peers = {"path": paths["encoder"], "annotated": annotated}
    int8 = {"path": paths["int8"], "engine": "onnxruntime"}
    loads = {
        **{
            name: {"kind": "pipeline", "path": paths[variant], "engine": engine}
            for name, (variant, engine) in COMPRESSED.items()
        },
        BF16: {"kind": "pipeline", **ours},
        STOCK: {"kind": "pipeline", "path": paths["stock"]},
        TRANSFORMERS: {"kind": "transformers", **peers},
        EDSNLP: {"kind": "EDS-NLP", **peers},
        ENCODER_INT8: {"kind": "encoder alone", **int8},
        ENCODER_BF16: {"kind": "encoder alone", **ours},
    }
    for name in loads:
        python = args.edsnlp_python if name == EDSNLP else sys.executable
        contest.start(name, [python, str(CONTESTANTS)])
    for name in contest.among(list(loads), "Loading"):
        contest.ask(name, "load", **loads[name])
    return contest.ask(EDSNLP, "versions", packages=["edsnlp", "torch", "transformers", "spacy"])


def of_shape(shape: str) -> dict[str, tuple[str, str]]:
    """Our compressed pipelines with an encoder of random weights."""
    return {
        f"{name}, {shape}": (f"{shape} {variant}", engine)
        for name, (variant, engine) in COMPRESSED.items()
    }


def start_shapes(contest: Contest, paths: dict[str, str]) -> None:
    """Start and load the pipelines with random weights."""
    loads = {
        name: {"path": paths[variant], "engine": engine}
        for name, (variant, engine) in {**of_shape(BASE), **of_shape(SMALL)}.items()
    }
    loads[BASE_STOCK] = {"path": paths["BERT-base stock"]}
    for name in loads:
        contest.start(name, [sys.executable, str(CONTESTANTS)])
    for name in contest.among(list(loads), "Loading shapes"):
        contest.ask(name, "load", kind="pipeline", **loads[name])


def make_checks(contest: Contest, measured: dict[str, Any]) -> list[Check]:
    """The measured figures with their targets.

    The targets of the fastest engine are those for processors without AMX.
    """
    speed = contest.ratio

    def fastest(texts: str, ours: Iterable[str], other: str) -> float | None:
        ratios = [speed(texts, one, other) for one in ours]
        return max((ratio for ratio in ratios if ratio is not None), default=None)

    return [
        Check(f"fastest engine vs stock, {SENTENCES}", fastest(SENTENCES, COMPRESSED, STOCK), 5),
        *(
            Check(f"fastest engine vs stock, {name}", fastest(name, COMPRESSED, STOCK), 4)
            for name in DOCUMENTS
        ),
        Check(
            "BERT-base: fastest engine vs stock", fastest(SHAPES, of_shape(BASE), BASE_STOCK), None
        ),
        Check(
            "4 layers x 312: fastest engine vs stock BERT-base",
            fastest(SHAPES, of_shape(SMALL), BASE_STOCK),
            None,
        ),
        Check(f"int8 vs EDS-NLP, {SENTENCES}", speed(SENTENCES, INT8, EDSNLP), 5),
        Check(f"PyTorch bf16 vs stock, {SENTENCES}", speed(SENTENCES, BF16, STOCK), None),
        Check("int8 vs its encoder alone", speed(SENTENCES, INT8, ENCODER_INT8), 0.9),
        Check("bf16 vs its encoder alone", speed(SENTENCES, BF16, ENCODER_BF16), None),
        Check("int8 vs transformers' pipeline", speed(SENTENCES, INT8, TRANSFORMERS), None),
        *score_checks(measured["scores"]),
    ]


def score_checks(scores: dict[str, Any]) -> list[Check]:
    """Score differences to fp32, in points of 100."""
    exact = scores.get(FP32)
    return [
        Check(f"{score}, {name} minus fp32", 100 * (own[score] - exact[score]), -0.2, " points")
        for name, own in scores.items()
        if exact and own and name in COMPRESSED and name != FP32
        for score in own
    ]


def print_results(contest: Contest) -> None:
    machine = describe_machine()
    console.print(
        f"{machine['processor']}, {contest.threads} threads, {contest.repeats} rounds each"
    )
    contest.print_speeds()


if __name__ == "__main__":
    run_program(main)
