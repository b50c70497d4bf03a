"""Measure how well a trained pipeline learns a new label from few documents, and what it forgets.

    python benchmarks/updating.py training/all/model-best corpus/notes corpus/others \\
        --documents 50 --seeds 0 1 2 --texts notes.txt --threads 2

before:     the pipeline without further training.
plain:      it is trained further on --documents of the corpus.
rehearsed:  the same, and it also learns from its earlier predictions on them and on --texts
            (`spacy biomed teach`).

The first corpus is a folder written by `spacy biomed convert` that annotates a new label. The
documents are drawn from its training part with the seed. The second folder has converted corpora
that annotate labels of the pipeline. Training uses the config of `spacy biomed init-config
--source`, for --epochs over the documents. The last weights are scored, since nothing is selected
on development parts.

The output is a Markdown table with the exact-match F1 in percent, as means over the seeds: of the
new labels on the corpus's test part, and of the old labels on each of the other test parts, as
means over the labels that a corpus annotates.

Each finished training is a line of the file --runs and is not repeated, so an interrupted benchmark
can be resumed; delete the file when the code changes. Nothing is downloaded.
"""

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from comparisons import advance, console, positive, read_runs, run_program, worker_environment
from merging import hash_files, write_part

from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.workers import Worker, serve
from spacy_biomed.language_models.sources import read_documents, sample_documents
from spacy_biomed.pipeline.pipeline_loading import load_pipeline
from spacy_biomed.training.checkpoint import digest_files
from spacy_biomed.training.config import read_description
from spacy_biomed.training.corpus import Corpus_v1
from spacy_biomed.training.teaching import create_taught_corpus
from spacy_biomed.training.updating import create_update

BEFORE, PLAIN, REHEARSED = WAYS = ("before", "plain", "rehearsed")

# F1 on the test parts, 0 to 1, by corpus and by label, and the means over labels, NEW and OLD.
Scores = dict[str, dict[str, float]]

NEW, OLD = "new labels", "old labels"


class Run(NamedTuple):
    """A training, or for "before" only a scoring.

    Attributes:
        pipeline, data: digests of the pipeline and of all corpora.
        texts: digest of the unlabelled text, only for "rehearsed".
        repeat: readings of the documents in an epoch, with one reading of the text.
        learn_rate: None for the rate of `init-config --source`.
        batch_words: None for the template's.
    """

    way: str
    seed: int
    documents: int
    epochs: int
    learn_rate: float | None
    batch_words: int | None
    pipeline: str
    data: str
    texts: str
    max_words: int
    repeat: int


# --- In a separate process ---


class Process:
    """The requests of a training process."""

    def train(
        self,
        source: str,
        folder: str,
        tests: list[str],
        unlabelled: list[str],
        gpu: bool,
        **run: Any,
    ) -> dict[str, Any]:
        """Train and score.

        Args:
            source: directory of the pipeline.
            folder: folder of the corpus with the new label.
            tests: folders of the corpora with old labels.
            unlabelled: files of text.
            gpu: whether to train on the GPU.
            run: fields of the `Run`.

        Returns:
            the scores, and seconds.
        """
        import spacy

        if gpu:
            spacy.require_gpu()
        own, start = Run(**run), time.perf_counter()
        nlp = load_pipeline(source)
        known = labels_of(nlp)
        with TemporaryDirectory() as temporary:
            if own.way != BEFORE:
                corpus = prepare(own, nlp, Path(folder), list(map(Path, unlabelled)), temporary)
                nlp = learn(own, source, corpus, Path(temporary) / "pipeline", gpu)
        tests = list(dict.fromkeys([folder, *tests]))
        scores = {Path(test).name: score(nlp, Path(test), known) for test in tests}
        return {"scores": scores, "seconds": round(time.perf_counter() - start, 1)}


def prepare(run: Run, nlp: Any, folder: Path, unlabelled: list[Path], temporary: str) -> Path:
    """Write the corpus for a training.

    Args:
        nlp: the pipeline to train further.
        folder: the corpus to draw documents from.
        unlabelled: files of text.
        temporary: directory to write to.

    Returns:
        a folder in the temporary directory.
    """
    drawn, taught = Path(temporary) / "drawn", Path(temporary) / "taught"
    write_part(folder, drawn, lambda docs: draw(docs, run.documents, run.seed))
    if run.way == PLAIN:
        return drawn
    words = run.max_words
    texts = sample_documents(unlabelled, words) if words else read_documents(unlabelled)
    create_taught_corpus([nlp], drawn, texts, taught, repeat=run.repeat)
    return taught


def learn(run: Run, source: str, corpus: Path, output: Path, gpu: bool) -> Any:
    """Train the pipeline further, and load the result."""
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train

    config = create_update(
        corpus,
        source=source,
        epochs=run.epochs,
        learn_rate=run.learn_rate,
        batch_words=run.batch_words,
        seed=run.seed,
    ).config
    config["vars"]["eval_frequency"] = config["vars"]["max_steps"]
    config["corpora"]["dev"]["limit"] = 1  # the loop always scores the development part
    output.mkdir()
    train(init_nlp(config), output, use_gpu=0 if gpu else -1)
    return load_pipeline(str(output / "model-last"))


def draw(docs: list[Any], count: int, seed: int) -> list[Any]:
    """Draw `count` documents, in the corpus's order."""
    if count > len(docs):
        raise BiomedError(f"--documents {count}: the training part has {len(docs)}")
    return [docs[place] for place in sorted(random.Random(seed).sample(range(len(docs)), count))]


def labels_of(nlp: Any) -> set[str]:
    """The labels of entities that a pipeline finds."""
    return set(nlp.pipe_labels.get("biomed_ner", ()))


def score(nlp: Any, corpus: Path, known: set[str]) -> dict[str, float]:
    """F1 by label, and the means over old labels and over new labels.

    Args:
        known: the old labels.
    """
    examples = list(Corpus_v1(corpus / "test.spacy")(nlp))
    scores = nlp.evaluate(examples)["ents_per_type"]
    by_label = {label: own["f"] for label, own in scores.items()}
    annotated = set(read_description(corpus)["annotated_labels"])
    for title, labels in ((NEW, annotated - known), (OLD, annotated & known)):
        own = [by_label.get(label, 0.0) for label in sorted(labels)]
        if own:
            by_label[title] = mean(own)
    return by_label


# --- The program ---


def main() -> None:
    args = parse_arguments()
    others = find_corpora(args.others)
    if args.corpus.name in [other.name for other in others if other != args.corpus]:
        raise BiomedError(f"{args.others}: has another corpus of the name {args.corpus.name}")
    known = labels_of(load_pipeline(str(args.pipeline)))
    annotated = set(read_description(args.corpus).get("annotated_labels", ()))
    if not annotated - known:
        raise BiomedError(f"{args.corpus}: annotates no label that {args.pipeline} lacks")
    plan = list(plan_runs(args, others))
    done = read_runs(args.runs, Run)
    for run in advance([run for run in plan if run not in done], "Training"):
        done[run] = train_one(run, args, others)
        args.runs.parent.mkdir(parents=True, exist_ok=True)
        with args.runs.open("a", encoding="utf8") as file:
            print(json.dumps({**run._asdict(), **done[run]}), file=file)
    table = make_table({run: done[run]["scores"] for run in plan}, args.corpus.name)
    console.print(table, markup=False, soft_wrap=True)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(table + "\n", encoding="utf8")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", type=Path, help="directory of a trained pipeline")
    parser.add_argument("corpus", type=Path, help="converted corpus with a new label")
    parser.add_argument("others", type=Path, help="folder of converted corpora with old labels")
    parser.add_argument("--documents", type=positive, default=50, help="documents to learn from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=positive, default=10)
    parser.add_argument("--learn-rate", type=float, help="by default as in init-config --source")
    parser.add_argument("--batch-words", type=positive, help="by default the template's")
    parser.add_argument("--texts", type=Path, nargs="+", default=[], help="text to rehearse on too")
    parser.add_argument("--max-words", type=int, default=0, help="of the text; 0 for all")
    parser.add_argument(
        "--repeat", type=positive, default=1, help="documents in an epoch, beside the text once"
    )
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--gpu", action="store_true", help="train on the GPU")
    parser.add_argument("--runs", type=Path, default=Path("build/benchmarks/updating.jsonl"))
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/updating.md"))
    return parser.parse_args()


def find_corpora(folder: Path) -> list[Path]:
    """The converted corpora in a folder.

    Raises:
        BiomedError: if there are none.
    """
    found = sorted(path.parent for path in folder.glob("*/corpus.json"))
    if not found:
        raise BiomedError(f"{folder}: no converted corpora in it (`spacy biomed convert`)")
    return found


def plan_runs(args: argparse.Namespace, others: list[Path]) -> Iterator[Run]:
    """The runs: the scoring before training, and then the trainings."""
    pipeline = digest_files(args.pipeline)[:16]
    data = hash_files([args.corpus, *others])
    texts = hashlib.sha256("".join(map(digest_files, args.texts)).encode()).hexdigest()[:16]
    yield Run(BEFORE, 0, 0, 0, None, None, pipeline, data, "", 0, 1)
    common = (args.learn_rate, args.batch_words, pipeline, data)
    rehearsal = (texts, args.max_words, args.repeat)
    for seed in args.seeds:
        readings = args.epochs * args.repeat  # of the documents, the same with and without text
        yield Run(PLAIN, seed, args.documents, readings, *common, "", 0, 1)
        yield Run(REHEARSED, seed, args.documents, args.epochs, *common, *rehearsal)


def train_one(run: Run, args: argparse.Namespace, others: list[Path]) -> dict[str, Any]:
    with Worker([sys.executable, __file__, "--serve"], worker_environment(args.threads)) as worker:
        return worker.ask(
            "train",
            source=str(args.pipeline.resolve()),
            folder=str(args.corpus.resolve()),
            tests=[str(path.resolve()) for path in others],
            unlabelled=[str(path.resolve()) for path in args.texts],
            gpu=args.gpu,
            **run._asdict(),
        )


def make_table(found: dict[Run, Scores], corpus: str) -> str:
    """A Markdown table of F1 from 0 to 100, means over the seeds, with a row for each way.

    Args:
        found: the scores of all runs.
        corpus: name of the corpus with the new labels.
    """
    tests = list(dict.fromkeys(test for scores in found.values() for test in scores))
    columns = [(corpus, NEW), *((test, OLD) for test in tests)]
    columns = [
        (test, labels)
        for test, labels in columns
        if any(labels in scores[test] for scores in found.values())
    ]
    titles = ["F1", *(f"{test}, {labels}" for test, labels in columns)]
    lines = [titles, ["---", *("---:" for _ in columns)]]
    for way in WAYS:
        own = [scores for run, scores in found.items() if run.way == way]
        cells = [f"{100 * mean(one[test][labels] for one in own):.1f}" for test, labels in columns]
        lines.append([way, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
