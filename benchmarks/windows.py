"""Compare windows: how many word pieces the encoder sees at once, for documents longer than that.

    python benchmarks/windows.py assets/pipelines/es_clinical_ner/trainable corpus/public_es \\
        corpus/public/meddocan corpus/public/cantemist --windows 128:31 128:16 --seeds 0 1

Each window trains the pipeline further on the first corpus and predicts with the same window:
"128:16" is a window of 128 word pieces, of which 16 on each side are only context. No window may be
longer than the positions of the encoder. Exact-match F1 is that of the last weights, on the test
part of each of the other corpora. "128:31 read as 128:16" is the pipeline of the first window,
reading other windows than it was trained with.

Then the pipelines of the first seed are compressed to int8, and annotate the first test documents
of each corpus in turns. Skip this with --repeats 0 on a machine that is busy with other work.

Each finished training is a line of the file --runs and is not repeated, so an interrupted benchmark
can be resumed; delete the file when the code changes. Nothing is downloaded.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from comparisons import (
    CONTESTANTS,
    Check,
    Contest,
    advance,
    console,
    positive,
    print_checks,
    read_runs,
    read_text_set,
    run_program,
    worker_environment,
    write_results,
)
from merging import MICRO, hash_files, score
from rich.table import Table
from thinc.api import Config

from spacy_biomed.encoders.capabilities import max_sequence_length
from spacy_biomed.encoders.thinc_shims import get_module
from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.workers import Worker, serve
from spacy_biomed.packaging.compression import compress_pipeline
from spacy_biomed.pipeline.pipeline_loading import load_pipeline
from spacy_biomed.training.checkpoint import digest_files
from spacy_biomed.training.config import read_description
from spacy_biomed.training.updating import create_update

ENCODER = "biomed_transformer"


class Run(NamedTuple):
    """A training.

    Attributes:
        window, context: word pieces; see `spacy_biomed.TransformerModel.v1`.
        batch_words: None for the template's.
        pipeline, data: digests of the pipeline and of all corpora.
    """

    window: int
    context: int
    seed: int
    epochs: int
    learn_rate: float | None
    batch_words: int | None
    pipeline: str
    data: str

    @property
    def title(self) -> str:
        return f"{self.window}:{self.context}"

    @property
    def folder(self) -> str:
        """The name of its pipeline's folder."""
        return "-".join(map(str, self))


class Process:
    """The requests of a training process."""

    def train(
        self, source: str, corpus: str, tests: list[str], output: str, gpu: bool, **run: Any
    ) -> dict[str, Any]:
        """Train and score.

        Args:
            source: directory of the pipeline.
            corpus: folder of the corpus to train on.
            tests: folders of the corpora whose test parts are scored.
            output: folder of the pipeline to write.
            gpu: whether to train on the GPU.
            run: fields of the `Run`.

        Returns:
            the scores, by corpus, and seconds.
        """
        import spacy
        from spacy.training.initialize import init_nlp
        from spacy.training.loop import train

        if gpu:
            spacy.require_gpu()
        own, start = Run(**run), time.perf_counter()
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        begun = copy_with_window(Path(source), folder / "source", own.window, own.context)
        config = create_update(
            Path(corpus),
            source=str(begun),
            epochs=own.epochs,
            learn_rate=own.learn_rate,
            batch_words=own.batch_words,
            seed=own.seed,
        ).config
        config["vars"]["eval_frequency"] = config["vars"]["max_steps"]
        config["corpora"]["dev"]["limit"] = 1  # the loop always scores the development part
        train(init_nlp(config), folder, use_gpu=0 if gpu else -1)
        for unused in ("source", "model-best"):
            shutil.rmtree(folder / unused, ignore_errors=True)
        scores = self.score(str(folder / "model-last"), tests)
        return {"scores": scores, "seconds": round(time.perf_counter() - start, 1)}

    def score(self, pipeline: str, tests: list[str]) -> dict[str, dict[str, float]]:
        """F1 by label, 0 to 1, on the test part of each corpus."""
        nlp = load_pipeline(pipeline)
        return {Path(test).name: score(nlp, Path(test)) for test in tests}


def copy_with_window(pipeline: Path, target: Path, window: int, context: int) -> Path:
    """Copy a pipeline, changing the window of its encoder."""
    shutil.copytree(pipeline, target, dirs_exist_ok=True)
    config = Config().from_disk(target / "config.cfg", interpolate=False)
    config["components"][ENCODER]["model"].update(window=window, context=context)
    config.to_disk(target / "config.cfg")
    return target


# --- The program ---


def main() -> None:
    args = parse_arguments()
    for corpus in [args.corpus, *args.tests]:
        read_description(corpus)
    check_windows(args)
    plan = list(plan_runs(args))
    done = read_runs(args.runs, Run)
    for run in advance([run for run in plan if run not in done], "Training"):
        done[run] = train_one(run, args)
        args.runs.parent.mkdir(parents=True, exist_ok=True)
        with args.runs.open("a", encoding="utf8") as file:
            print(json.dumps({**run._asdict(), **done[run]}), file=file)
        console.print(f"{run.title}, seed {run.seed}: {done[run]['seconds']:.0f} s", markup=False)
    found = {
        title: collect([done[run]["scores"] for run in plan if run.title == title])
        for title in dict.fromkeys(run.title for run in plan)
    }
    found.update(read_otherwise(plan, args))
    print_scores(found, [test.name for test in args.tests])
    contest = measure(plan, args) if args.repeats else None
    checks = make_checks(found, [test.name for test in args.tests], contest)
    print_checks(checks)
    speeds = contest.to_json() if contest else {}
    write_results(args.output, args, checks, scores=found, speeds=speeds)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", type=Path, help="directory of a trained PyTorch pipeline")
    parser.add_argument("corpus", type=Path, help="converted corpus to train on")
    parser.add_argument("tests", type=Path, nargs="+", help="converted corpora to score on")
    parser.add_argument(
        "--windows",
        type=window_and_context,
        nargs="+",
        default=[(512, 64), (256, 32), (128, 16)],
        metavar="WINDOW:CONTEXT",
        help="the first is the one that the others are compared with",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epochs", type=positive, default=1)
    parser.add_argument("--learn-rate", type=float, help="by default as in init-config --source")
    parser.add_argument("--batch-words", type=positive, help="by default the template's")
    parser.add_argument("--limit", type=positive, default=24, help="documents to annotate of each")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each; 0 for none")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--gpu", action="store_true", help="train on the GPU")
    parser.add_argument("--work", type=Path, default=Path("build/benchmarks/windows"))
    parser.add_argument("--runs", type=Path, default=Path("build/benchmarks/windows.jsonl"))
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/windows.json"))
    return parser.parse_args()


def check_windows(args: argparse.Namespace) -> None:
    """Raise BiomedError if the pipeline's encoder has fewer positions than a window."""
    model = load_pipeline(str(args.pipeline)).get_pipe(ENCODER).model
    positions = max_sequence_length(get_module(model.shims[0]))
    for window, _ in args.windows:
        if window > positions:
            raise BiomedError(f"--windows {window}: the encoder has {positions} positions")


def window_and_context(text: str) -> tuple[int, int]:
    """Parse "128:16", for argparse."""
    window, _, context = text.partition(":")
    return positive(window), int(context)


def plan_runs(args: argparse.Namespace) -> Iterator[Run]:
    pipeline, data = digest_files(args.pipeline)[:16], hash_files([args.corpus, *args.tests])
    settings = (args.epochs, args.learn_rate, args.batch_words, pipeline, data)
    for seed in args.seeds:
        for window, context in args.windows:
            yield Run(window, context, seed, *settings)


def train_one(run: Run, args: argparse.Namespace) -> dict[str, Any]:
    return ask(
        args,
        "train",
        source=str(args.pipeline.resolve()),
        corpus=str(args.corpus.resolve()),
        tests=[str(test.resolve()) for test in args.tests],
        output=str(args.work.resolve() / run.folder),
        gpu=args.gpu,
        **run._asdict(),
    )


def ask(args: argparse.Namespace, do: str, **arguments: Any) -> Any:
    with Worker([sys.executable, __file__, "--serve"], worker_environment(args.threads)) as worker:
        return worker.ask(do, **arguments)


def read_otherwise(
    plan: list[Run], args: argparse.Namespace
) -> dict[str, dict[str, dict[str, float]]]:
    """Scores of the pipeline of the first window and seed, if it reads the other windows."""
    trained = args.work.resolve() / plan[0].folder / "model-last"
    found = {}
    for window, context in args.windows[1:]:
        changed = args.work.resolve() / f"read-{window}-{context}"
        copy_with_window(trained, changed, window, context)
        tests = [str(test.resolve()) for test in args.tests]
        title = f"{plan[0].title} read as {window}:{context}"
        found[title] = collect([ask(args, "score", pipeline=str(changed), tests=tests)])
        shutil.rmtree(changed)
    return found


def collect(runs: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """F1 from 0 to 100 by test part and label, means over runs."""
    return {
        test: {label: 100 * mean(run[test][label] for run in runs) for label in labels}
        for test, labels in runs[0].items()
    }


def print_scores(found: dict[str, dict[str, dict[str, float]]], tests: list[str]) -> None:
    table = Table(title="F1 on test parts", title_justify="left")
    table.add_column("")
    for test in tests:
        table.add_column(test, justify="right")
    for title, scores in found.items():
        table.add_row(title, *(f"{scores[test][MICRO]:.2f}" for test in tests))
    console.print(table)


def measure(plan: list[Run], args: argparse.Namespace) -> Contest:
    """Let the pipelines of the first seed annotate in turns, in int8."""
    first = [run for run in plan if run.seed == args.seeds[0]]
    contest = Contest(args.threads, args.repeats)
    try:
        for run in first:
            folder = args.work.resolve() / run.folder
            if not (folder / "int8").is_dir():
                compress_pipeline(str(folder / "model-last"), folder / "int8")
            contest.start(run.title, [sys.executable, str(CONTESTANTS)])
            contest.ask(run.title, "load", kind="pipeline", path=str(folder / "int8"))
        for test in args.tests:
            contest.run(read_text_set(test, args.limit), [run.title for run in first])
    finally:
        contest.close()
    contest.print_speeds()
    return contest


def make_checks(
    found: dict[str, dict[str, dict[str, float]]], tests: list[str], contest: Contest | None
) -> list[Check]:
    """The differences of F1, and the ratios of speeds, between each window and the first."""
    usual, *others = [title for title in found if " " not in title]
    checks = []
    for title in others:
        for test in tests:
            gain = found[title][test][MICRO] - found[usual][test][MICRO]
            checks.append(Check(f"{test}: F1, {title} minus {usual}", gain, -0.3, " points"))
            if contest:
                ratio = contest.ratio(test, title, usual)
                checks.append(Check(f"{test}: speed, {title} vs {usual}", ratio, None))
    return checks


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
