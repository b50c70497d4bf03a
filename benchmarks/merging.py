"""Compare ways of merging corpora that annotate different labels.

    python benchmarks/merging.py ENCODER_DIRECTORY corpus/ncbi_disease corpus/bc5cdr \\
        corpus/biored corpus/nlm_gene corpus/s800 --target biored --seeds 0 1 --threads 2

alone:    each corpus trains a separate pipeline.
naive:    all corpora, concatenated, train one pipeline; labels that a corpus does not annotate
          count as absent, and a text of two corpora is there twice, as each annotates it.
partial:  all corpora train one pipeline; labels that a corpus does not annotate are ignored
          (`spacy biomed combine`).
taught:   like partial, with the pipelines that were trained alone as teachers, whose heads are
          merged into one (`spacy biomed teach`).
whole:    like alone, with the training part as published.

The first four are trained on the same documents: documents in the test or development part of any
corpus are left out. This removes many documents of corpora that share abstracts; "whole" shows the
cost. Each training makes --epochs passes over its documents. Its last weights are scored,
since nothing is selected on development parts, and without `biomed_consistency`, which would add
mentions that training has taught wrongly to leave out.

The corpora are folders written by `spacy biomed convert`, with the same names for the same labels
(see `--map`). The output has exact-match F1, as means over the seeds, on the test part of --target
by label, and on each corpus's test part over the labels it annotates.

Each finished training is a line of the file --runs and is not repeated, so an interrupted benchmark
can be resumed; delete the file when the code changes. Nothing is downloaded.
"""

import argparse
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from accuracy import identify
from comparisons import (
    Check,
    advance,
    console,
    positive,
    print_checks,
    read_runs,
    run_program,
    worker_environment,
    write_results,
)
from rich.table import Table
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_biomed.annotations.annotation_scope import ANNOTATION_SCOPES
from spacy_biomed.corpora.convert import ATTRIBUTES
from spacy_biomed.corpora.repeated_texts import normalise_words
from spacy_biomed.corpora.splits import PARTS
from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.workers import Worker, serve
from spacy_biomed.pipeline.consistency import FACTORY as CONSISTENCY
from spacy_biomed.training.combining import combine_corpora
from spacy_biomed.training.config import fill_config, read_description
from spacy_biomed.training.corpus import Corpus_v1, read_docs
from spacy_biomed.training.teaching import create_taught_corpus

ALONE, NAIVE, PARTIAL, TAUGHT, WHOLE = WAYS = ("alone", "naive", "partial", "taught", "whole")
EVERY_CORPUS = "all"
MICRO = "all labels"

# F1 on a test part, 0 to 1, by label and over all labels (MICRO).
Scores = dict[str, float]


class Run(NamedTuple):
    """A training.

    Attributes:
        corpus: the corpus to train on; "all" for all corpora.
        encoder: identifier of the encoder, from `identify`.
        data: digest of the corpora's files.
    """

    way: str
    corpus: str
    seed: int
    epochs: int
    learn_rate: float
    batch_words: int
    encoder: str
    data: str
    limit: int | None

    @property
    def folder(self) -> str:
        """The name of its pipeline's folder."""
        return "-".join(map(str, self)).replace("/", "_")


class Process:
    """The requests of a training process."""

    def train(
        self,
        folder: str,
        encoder_directory: str,
        teachers: list[str],
        tests: list[str],
        output: str,
        gpu: bool,
        **run: Any,
    ) -> dict[str, Any]:
        """Train and score.

        Args:
            folder: folder of the corpus.
            encoder_directory: the encoder, or its hub id.
            teachers: pipelines whose probabilities are added to the corpus first.
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
        with TemporaryDirectory() as temporary:
            source = Path(folder)
            if teachers:
                source = Path(temporary) / "taught"
                create_taught_corpus(list(map(spacy.load, teachers)), Path(folder), (), source)
            config = fill_config(
                source,
                encoder=encoder_directory,
                epochs=own.epochs,
                batch_words=own.batch_words,
                learn_rate=own.learn_rate,
                seed=own.seed,
            )
            config["vars"]["eval_frequency"] = config["vars"]["max_steps"]
            config["corpora"]["dev"]["limit"] = 1  # the loop always scores the development part
            Path(output).mkdir(parents=True, exist_ok=True)
            train(init_nlp(config), Path(output), use_gpu=0 if gpu else -1)
        shutil.rmtree(Path(output) / "model-best", ignore_errors=True)
        # What is compared is what was learned, not what agreement within a document repairs of it.
        nlp = spacy.load(Path(output) / "model-last", exclude=[CONSISTENCY])
        scores = {Path(test).name: score(nlp, Path(test)) for test in tests}
        return {"scores": scores, "seconds": round(time.perf_counter() - start, 1)}


def score(nlp: Any, corpus: Path) -> Scores:
    scores = nlp.evaluate(list(Corpus_v1(corpus / "test.spacy")(nlp)))
    by_label = {label: own["f"] for label, own in scores["ents_per_type"].items()}
    return {**by_label, MICRO: scores["ents_f"]}


# --- The corpora ---


def prepare(corpora: list[Path], work: Path, ways: list[str], limit: int | None) -> None:
    """Write the corpora to train on, to the folders of `place`."""
    if limit is not None:
        for corpus in corpora:
            write_part(corpus, work / "limited" / corpus.name, lambda docs: docs[:limit])
        corpora = [work / "limited" / corpus.name for corpus in corpora]
    combined = work / PARTIAL
    report = combine_corpora(corpora, combined)
    for corpus in report.corpora:
        part = corpus.parts["train"]
        console.print(f"{corpus.name}: {part.left_out} of {part.documents} documents left out")
    docs = read_docs(combined / "train.spacy", Vocab())
    kept = {normalise_words(doc.text) for doc in docs}
    for corpus in corpora:
        write_part(
            corpus,
            work / ALONE / corpus.name,
            lambda docs: [doc for doc in docs if normalise_words(doc.text) in kept],
        )
    if NAIVE in ways:
        write_part(combined, work / NAIVE, lambda _: list(concatenate(corpora, work / ALONE)))


def concatenate(corpora: list[Path], alone: Path) -> Iterator[Doc]:
    """The training documents of all corpora, as if each annotated every label."""
    vocab = Vocab()
    for corpus in corpora:
        for doc in read_docs(alone / corpus.name / "train.spacy", vocab):
            doc.user_data.pop(ANNOTATION_SCOPES, None)
            yield doc


def write_part(corpus: Path, target: Path, choose: Any) -> None:
    """Copy a corpus with a changed training part."""
    target.mkdir(parents=True, exist_ok=True)
    (target / "corpus.json").write_bytes((corpus / "corpus.json").read_bytes())
    for part in PARTS:
        docs = list(read_docs(corpus / f"{part}.spacy", Vocab()))
        chosen = choose(docs) if part == "train" else docs
        doc_bin = DocBin(attrs=ATTRIBUTES, docs=chosen, store_user_data=True)
        doc_bin.to_disk(target / f"{part}.spacy")


def place(run: Run, args: argparse.Namespace) -> Path:
    """The folder of the corpus to train on."""
    if run.way == ALONE:
        return args.work / ALONE / run.corpus
    if run.way == NAIVE:
        return args.work / NAIVE
    if run.way in (PARTIAL, TAUGHT):
        return args.work / PARTIAL
    folders = {corpus.name: corpus for corpus in args.corpora}
    return folders[run.corpus] if args.limit is None else args.work / "limited" / run.corpus


# --- The program ---


def main() -> None:
    args = parse_arguments()
    args.corpora = [corpus.resolve() for corpus in args.corpora]
    for corpus in args.corpora:
        read_description(corpus)
    if args.target not in [corpus.name for corpus in args.corpora]:
        raise BiomedError(f"--target {args.target}: none of the corpora is called so")
    encoder = str(Path(args.encoder).resolve()) if Path(args.encoder).is_dir() else args.encoder
    plan = list(plan_runs(args, identify(encoder)))
    done = read_runs(args.runs, Run)
    missing = [run for run in plan if not is_done(run, done, plan, args)]
    if missing:
        prepare(args.corpora, args.work, args.ways, args.limit)
    for run in advance(missing, "Training"):
        done[run] = train_one(run, plan, encoder, args)
        args.runs.parent.mkdir(parents=True, exist_ok=True)
        with args.runs.open("a", encoding="utf8") as file:
            print(json.dumps({**run._asdict(), **done[run]}), file=file)
        own = args.target if run.corpus == EVERY_CORPUS else run.corpus
        console.print(
            f"{run.way}, {run.corpus}, seed {run.seed}: {100 * done[run]['scores'][own][MICRO]:.2f}"
            f" on {own}, {done[run]['seconds']:.0f} s"
        )
    results = collect(plan, done)
    labels = {corpus.name: annotated_labels(corpus) for corpus in args.corpora}
    print_target(results, args.target, labels)
    print_own(results, list(labels))
    checks = make_checks(results, args.target)
    print_checks(checks)
    write_results(args.output, args, checks, scores=results)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", help="directory in Hugging Face layout")
    parser.add_argument("corpora", type=Path, nargs="+", help="folders of converted corpora")
    parser.add_argument("--target", required=True, help="the corpus that has all labels")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epochs", type=positive, default=3)
    parser.add_argument("--learn-rate", type=float, default=2e-4)
    parser.add_argument("--batch-words", type=positive, default=400)
    parser.add_argument("--limit", type=positive, help="documents to train on of each corpus")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--gpu", action="store_true", help="train on the GPU")
    parser.add_argument("--work", type=Path, default=Path("build/benchmarks/merging"))
    parser.add_argument("--runs", type=Path, default=Path("build/benchmarks/merging.jsonl"))
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/merging.json"))
    return parser.parse_args()


def plan_runs(args: argparse.Namespace, encoder: str) -> Iterator[Run]:
    """The trainings, teachers before their students."""
    data = hash_files(args.corpora)
    names = [corpus.name for corpus in args.corpora]
    settings = (args.epochs, args.learn_rate, args.batch_words, encoder, data, args.limit)
    for seed in args.seeds:
        for way in WAYS:
            is_single = way in (ALONE, WHOLE)
            if way in args.ways or (way == ALONE and TAUGHT in args.ways):
                for name in names if is_single else [EVERY_CORPUS]:
                    yield Run(way, name, seed, *settings)


def hash_files(corpora: list[Path]) -> str:
    digest = hashlib.sha256()
    for corpus in corpora:
        for part in PARTS:
            digest.update((corpus / f"{part}.spacy").read_bytes())
    return digest.hexdigest()[:16]


def is_done(
    run: Run, done: dict[Run, dict[str, Any]], plan: list[Run], args: argparse.Namespace
) -> bool:
    """Whether a training is finished; the pipeline of a teacher that is still needed must exist."""
    if run not in done:
        return False
    teaches = any(run in find_teachers(one, plan) and one not in done for one in plan)
    return not teaches or (args.work / "pipelines" / run.folder / "model-last").is_dir()


def find_teachers(run: Run, plan: list[Run]) -> list[Run]:
    if run.way != TAUGHT:
        return []
    return [one for one in plan if one.way == ALONE and one.seed == run.seed]


def train_one(run: Run, plan: list[Run], encoder: str, args: argparse.Namespace) -> dict[str, Any]:
    pipelines = args.work.resolve() / "pipelines"
    teachers = [pipelines / one.folder / "model-last" for one in find_teachers(run, plan)]
    own = (run.corpus, args.target)
    tests = [one for one in args.corpora if run.corpus == EVERY_CORPUS or one.name in own]
    with Worker([sys.executable, __file__, "--serve"], worker_environment(args.threads)) as worker:
        return worker.ask(
            "train",
            folder=str(place(run, args).resolve()),
            encoder_directory=encoder,
            teachers=list(map(str, teachers)),
            tests=list(map(str, tests)),
            output=str(pipelines / run.folder),
            gpu=args.gpu,
            **run._asdict(),
        )


def annotated_labels(corpus: Path) -> list[str]:
    return read_description(corpus).get("annotated_labels", [])


def collect(
    plan: list[Run], done: dict[Run, dict[str, Any]]
) -> dict[str, dict[str, dict[str, float]]]:
    """F1 from 0 to 100, mean over seeds, by training ("alone, biored"), test part and label."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for run in plan:
        title = run.way if run.corpus == EVERY_CORPUS else f"{run.way}, {run.corpus}"
        for test, scores in done[run]["scores"].items():
            for label, value in scores.items():
                of_test = found.setdefault(title, {}).setdefault(test, {})
                of_test.setdefault(label, []).append(100 * value)
    return {
        title: {
            test: {label: mean(values) for label, values in of_test.items()}
            for test, of_test in of_title.items()
        }
        for title, of_title in found.items()
    }


def print_target(
    results: dict[str, dict[str, dict[str, float]]], target: str, labels: dict[str, list[str]]
) -> None:
    table = Table(title=f"Test part of {target}, F1", title_justify="left")
    table.add_column("")
    for label in [*labels[target], MICRO]:
        table.add_column(label, justify="right")
    for title, scores in results.items():
        known = labels.get(title.partition(", ")[2], labels[target])
        cells = [
            f"{scores[target].get(label, 0.0):.1f}" if label in known else ""
            for label in labels[target]
        ]
        has_all = set(labels[target]) <= set(known)
        table.add_row(title, *cells, f"{scores[target][MICRO]:.1f}" if has_all else "")
    console.print(table)


def print_own(results: dict[str, dict[str, dict[str, float]]], names: list[str]) -> None:
    table = Table(title="Test part of each corpus, F1", title_justify="left")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for way in WAYS:
        own = [results.get(way, results.get(f"{way}, {name}")) for name in names]
        if any(own):
            cells = [
                f"{scores[name][MICRO]:.1f}" if scores else ""
                for scores, name in zip(own, names, strict=True)
            ]
            table.add_row(way, *cells)
    console.print(table)


def make_checks(results: dict[str, dict[str, dict[str, float]]], target: str) -> list[Check]:
    if not {PARTIAL, NAIVE} <= results.keys():
        return []
    gain = results[PARTIAL][target][MICRO] - results[NAIVE][target][MICRO]
    return [Check(f"{target}, partial minus naive", gain, 10.0, " points")]


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
