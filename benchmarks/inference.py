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

Then the same is measured for an encoder with random weights, BERT-base.
`spacy biomed benchmark` measures start, latency, memory and size.

On a GPU (`--device cuda`) the contestants are our pipeline in PyTorch, stock spacy-transformers,
transformers' pipeline and our encoder alone. The output also has the memory that PyTorch reserves
there, and the share of the card's peak that our encoder uses.

With `--memory 20000` it measures only whether memory grows: our pipeline in int8 and in static int8
in OpenVINO, and stock spacy-transformers, annotate so many documents in `nlp.memory_zone()`. The
output has the resident size at the end minus the size after a tenth of the documents.

Each contestant runs in a separate process, and they take turns: one round each while the others
wait. Speeds are medians of the rounds. Words are the tokens of the corpus file, the same for all
contestants. Corpora are read from --corpora, as written by `spacy biomed convert`.

EDS-NLP needs a separate virtual environment:

    python -m venv build/edsnlp
    build/edsnlp/bin/pip install "edsnlp[ml]" "torch==2.13.0" "transformers<5"

Contestants that cannot run here are listed as missing. Nothing is downloaded.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from comparisons import (
    CONTESTANTS,
    Check,
    Contest,
    TextSet,
    advance,
    console,
    create_parser,
    make_pipelines,
    memory_checks,
    positive,
    read_text_set,
    report,
    run_program,
    work_directory,
    write_results,
)
from contestants import REPOSITORY, Annotated

Loads = dict[str, dict[str, Any]]  # what contestants are told to load, by their names

SENTENCES, DOCUMENTS = "ncbi_disease", ("meddocan", "cantemist")
RANDOM = "random weights"

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
BASE, BASE_STOCK = "BERT-base", "stock, BERT-base"
BASE_BF16, BASE_ENCODER = "ours, PyTorch bf16, BERT-base", "encoder alone, bf16, BERT-base"


def main() -> None:
    args = parse_arguments()
    with Contest(args.threads, args.repeats) as contest, work_directory(args.work) as work:
        if args.memory:
            measure_memory(contest, args, work)
            return
        measured = measure(contest, args, work)
    make = make_gpu_checks if args.device == "cuda" else make_checks
    report(contest, args, make(contest, measured), **measured)


def parse_arguments() -> argparse.Namespace:
    parser = create_parser(__doc__, "inference.json")
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
        "--base-limit",
        type=int,
        default=200,
        help="maximum sentences for the encoder with random weights; 0 to leave it out",
    )
    parser.add_argument(
        "--edsnlp-python",
        default=str(REPOSITORY / "build" / "edsnlp" / "bin" / "python"),
        help="interpreter of EDS-NLP's environment",
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="with --device cuda: the contestants run on the CPU, to test the program",
    )
    parser.add_argument("--memory", type=positive, help="documents; measure only memory")
    parser.add_argument(
        "--work",
        type=Path,
        help="directory to keep the contestants' pipelines in, and to find them in again as long "
        "as the pipeline is the same; by default a temporary one",
    )
    return parser.parse_args()


def measure(contest: Contest, args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Run all rounds.

    Returns:
        the scores; on a GPU the memory that was reserved, and the shares of the peak.
    """
    # Read first, so that an unreadable corpus is found before the work.
    sets = [
        read_text_set(args.corpora / name, args.limit if name == SENTENCES else args.document_limit)
        for name in args.texts
    ]
    corpus, on_gpu = args.corpora / args.trained_on, args.device == "cuda"
    has_base = args.base_limit > 0
    paths, annotated = make_pipelines(
        args.threads, args.pipeline, corpus, work, base=has_base, gpu=on_gpu
    )
    measured: dict[str, Any] = {"scores": {}, "gpu_bytes": {}, "peak_shares": {}}

    def run(loads: Loads, sets: list[TextSet], encoder: str) -> None:
        load(contest, args, loads)
        for texts in sets:
            contest.run(texts, list(loads))
        if on_gpu:
            measured["gpu_bytes"] |= contest.ask_all("peak_memory")
            name = sets[-1].name
            measured["peak_shares"][name] = contest.ask(encoder, "share", name=name)

    run(list_fine_tuned(args, paths, annotated), sets, ENCODER_BF16)
    if not on_gpu:
        measured["scores"] = {
            name: contest.ask(name, "score", corpus=str(corpus / "test.spacy"))
            for name in contest.among([*COMPRESSED, BF16], f"{args.trained_on}: scores")
        }
    contest.close()
    if has_base:
        limit = min(args.base_limit, args.limit or args.base_limit)
        texts = read_text_set(args.corpora / args.texts[0], limit, RANDOM)
        run(list_base(paths, on_gpu), [texts], BASE_ENCODER)
    return measured


def list_fine_tuned(
    args: argparse.Namespace, paths: dict[str, str], annotated: list[Annotated]
) -> Loads:
    """The contestants with the fine-tuned encoder."""
    ours = {"path": args.pipeline, "precision": "bf16"}
    corpus = str(args.corpora / args.trained_on)
    loads: Loads = {
        BF16: {"kind": "pipeline", **ours},
        STOCK: {"kind": "pipeline", "path": paths["stock"]},
        TRANSFORMERS: {"kind": "transformers", "path": paths["encoder"], "corpus": corpus},
        ENCODER_BF16: {"kind": "encoder alone", **ours},
    }
    if args.device == "cuda":
        return loads
    int8 = {"path": paths["int8"], "engine": "onnxruntime"}
    return {
        **list_compressed(paths),
        **loads,
        EDSNLP: {"kind": "EDS-NLP", "path": paths["encoder"], "annotated": annotated},
        ENCODER_INT8: {"kind": "encoder alone", **int8},
    }


def list_base(paths: dict[str, str], on_gpu: bool) -> Loads:
    """The contestants with an encoder of random weights."""
    stock = {BASE_STOCK: {"kind": "pipeline", "path": paths["BERT-base stock"]}}
    if not on_gpu:
        return {**list_compressed(paths, BASE), **stock}
    base = {"path": paths["BERT-base pytorch"], "precision": "bf16"}
    return {
        BASE_BF16: {"kind": "pipeline", **base},
        **stock,
        BASE_ENCODER: {"kind": "encoder alone", **base},
    }


def list_compressed(paths: dict[str, str], encoder: str = "") -> Loads:
    """Our compressed pipelines, with the fine-tuned encoder or with one of random weights."""
    return {
        name: {"kind": "pipeline", "path": paths[f"{encoder} {variant}".strip()], "engine": engine}
        for name, (variant, engine) in zip(with_encoder(encoder), COMPRESSED.values(), strict=True)
    }


def with_encoder(encoder: str) -> list[str]:
    """The names of our compressed pipelines with an encoder."""
    return [f"{name}, {encoder}" if encoder else name for name in COMPRESSED]


def load(contest: Contest, args: argparse.Namespace, loads: Loads) -> None:
    """Start and load contestants."""
    contest.start([name for name in loads if name != EDSNLP], CONTESTANTS)
    if EDSNLP in loads:
        contest.start([EDSNLP], CONTESTANTS, python=args.edsnlp_python)
    device = {"gpu": not args.dry_run} if args.device == "cuda" else {}
    with console.status("Loading"):
        contest.ask_together("load", {name: {**own, **device} for name, own in loads.items()})


def make_gpu_checks(contest: Contest, measured: dict[str, Any]) -> list[Check]:
    """The figures measured on a GPU with their targets."""
    return [
        *(
            Check(f"PyTorch vs stock, {name}", contest.ratio(name, BF16, STOCK), 8)
            for name in contest.sets
            if name != RANDOM
        ),
        Check("BERT-base vs stock", contest.ratio(RANDOM, BASE_BF16, BASE_STOCK), 8),
        Check("BERT-base", contest.words_per_second(RANDOM, BASE_BF16), 100_000, " words/s"),
        *(
            Check(f"PyTorch vs {other}, {name}", contest.ratio(name, BF16, other), None)
            for name in contest.sets
            if name != RANDOM
            for other in (TRANSFORMERS, ENCODER_BF16)
        ),
        *(
            Check(f"encoder's share of the card's peak, {name}", 100 * share, None, "%")
            for name, share in measured["peak_shares"].items()
            if share is not None
        ),
        *memory_checks(measured["gpu_bytes"]),
    ]


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
            "BERT-base: fastest engine vs stock",
            fastest(RANDOM, with_encoder(BASE), BASE_STOCK),
            None,
        ),
        Check(f"int8 vs EDS-NLP, {SENTENCES}", speed(SENTENCES, INT8, EDSNLP), 5),
        Check(f"PyTorch bf16 vs stock, {SENTENCES}", speed(SENTENCES, BF16, STOCK), None),
        Check("int8 vs its encoder alone", speed(SENTENCES, INT8, ENCODER_INT8), 0.9),
        Check("bf16 vs its encoder alone", speed(SENTENCES, BF16, ENCODER_BF16), None),
        Check("int8 vs transformers' pipeline", speed(SENTENCES, INT8, TRANSFORMERS), None),
        *score_checks(measured["scores"]),
    ]


def measure_memory(contest: Contest, args: argparse.Namespace, work: Path) -> None:
    """Measure, print and write the growth of the resident size."""
    corpus = args.corpora / args.trained_on
    paths, _ = make_pipelines(args.threads, args.pipeline, corpus, work, base=False)
    texts = read_text_set(corpus, args.limit)
    ours = list_compressed(paths)
    loads = {name: ours[name] for name in (INT8, STATIC_OPENVINO)}
    load(contest, args, {**loads, STOCK: {"kind": "pipeline", "path": paths["stock"]}})
    contest.ask_all("cycle", texts=texts.texts)
    zone = max(args.memory // 40, 1)
    sizes = [
        contest.ask_all("zone", documents=zone)
        for _ in advance(range(args.memory // zone), "Annotating")
    ]
    begin, end = sizes[len(sizes) // 10 - 1], sizes[-1]
    checks = [
        Check(f"{name}: more MB", (end[name] - begin[name]) / 1e6, target, "", at_least=False)
        for name, target in ((INT8, 30), (STATIC_OPENVINO, 30), (STOCK, None))
        if name in end
    ]
    contest.print_missing()
    write_results(args, checks, resident_bytes=sizes, missing=contest.missing)


def score_checks(scores: dict[str, Any]) -> list[Check]:
    """Score differences to fp32, in points of 100."""
    exact = scores.get(FP32)
    return [
        Check(f"{score}, {name} minus fp32", 100 * (own[score] - exact[score]), -0.2, " points")
        for name, own in scores.items()
        if exact and own and name in COMPRESSED and name != FP32
        for score in own
    ]


if __name__ == "__main__":
    run_program(main)
