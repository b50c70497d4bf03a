"""Compare the accuracy of fine-tuning with this package and with transformers, task by task.

    python benchmarks/accuracy.py ENCODER_DIRECTORY --tasks ncbi_disease hoc --threads 2

Both use the same encoder, data, number of epochs, batch size in documents and learning rate, and
keep the best of several epochs by the development part. This package is trained with the config of
`init-config`, in spaCy's training loop; transformers with `plain_transformers.py`. For mentions the
transformers side is also trained with twice the learning rate, and the better result by development
part counts. Predictions on the test part are scored with the same code, with scikit-learn and scipy
if they have the metric. Means are over the seeds.

Corpora are read from --corpora, as written by `spacy biomed convert`. The contexts of COVID-QA,
whole articles, are cut to 200 words with the answer at a random position.

Each finished training is a line of the file --runs and is not repeated, so an interrupted benchmark
can be resumed; delete the file when the code changes. `--runs benchmarks/accuracy.jsonl` starts
with the results of docs/performance.md. Nothing is downloaded.
"""

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

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
from finetuning import Schedule, our_config
from rich.table import Table
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_biomed.annotations.document_keys import ANSWER_KEY, UNALIGNED_MENTIONS
from spacy_biomed.annotations.pairs import PAIR_KEY, get_pair
from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.workers import Worker, serve
from spacy_biomed.training.corpus import read_docs

OURS, PLAIN = "ours", "transformers"

CONTEXT_WORDS = 200


# --- Scores ---


def mentions(doc: Doc) -> set[tuple[int, int, str]]:
    """(start, end, label) in characters, including gold mentions that do not fit tokens."""
    unaligned = {tuple(mention) for mention in doc.user_data.get(UNALIGNED_MENTIONS, ())}
    return unaligned | {(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents}


def mention_f1(gold: list[set], found: list[set]) -> float:
    """Micro F1 over character offsets and labels."""
    right = sum(len(true & predicted) for true, predicted in zip(gold, found, strict=True))
    return 2 * right / max(sum(map(len, gold)) + sum(map(len, found)), 1)


def relation(doc: Doc) -> str:
    """The label of the only relation of a marked sentence; "" for none."""
    return doc._.relations[0].label if doc._.relations else ""


def relation_f1(gold: list[str], found: list[str]) -> float:
    """Micro F1 over all labels except "no relation"."""
    from sklearn.metrics import f1_score

    labels = sorted({*gold, *found} - {""})
    return float(f1_score(gold, found, labels=labels, average="micro", zero_division=0))


def classes(doc: Doc) -> set[str]:
    return {label for label, value in doc.cats.items() if value >= 0.5}


def classes_f1(gold: list[set[str]], found: list[set[str]]) -> float:
    """Macro F1 over all classes."""
    from sklearn.metrics import f1_score
    from sklearn.preprocessing import MultiLabelBinarizer

    binarizer = MultiLabelBinarizer().fit([*gold, *found])
    rows = binarizer.transform(gold), binarizer.transform(found)
    return float(f1_score(*rows, average="macro", zero_division=0))


def best_class(doc: Doc) -> str:
    return max(doc.cats, key=doc.cats.__getitem__)


def accuracy(gold: list[str], found: list[str]) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(gold, found))


def number(doc: Doc) -> float:
    [value] = doc.cats.values()
    return value


def pearson(gold: list[float], found: list[float]) -> float:
    from scipy.stats import pearsonr

    return float(pearsonr(gold, found).statistic)


def answers(doc: Doc) -> list[str]:
    return [span.text for span in doc.spans.get(ANSWER_KEY, ())]


def answer_f1(gold: list[list[str]], found: list[list[str]]) -> float:
    """SQuAD's F1 of the first answer."""
    from spacy_biomed.pipeline.qa_scores import Question, score_questions

    questions = [Question(given, true) for given, true in zip(found, gold, strict=True)]
    return score_questions(questions)["f1"]


class Kind(NamedTuple):
    """A kind of task.

    Attributes:
        metric: name of the metric.
        read: reads the gold annotation or a pipeline's prediction from a document.
        score: computes the score from the gold and the predictions of all documents, 0 to 1.
        plain: name of the class in `plain_transformers`.
        rates: learning rates of the transformers side, as multiples of the task's.
    """

    metric: str
    read: Callable[[Doc], Any]
    score: Callable[[list, list], float]
    plain: str
    rates: tuple[float, ...] = (1.0,)


ENTITIES = Kind("F1", mentions, mention_f1, "PlainEntities", (1.0, 2.0))
RELATIONS = Kind("micro F1", relation, relation_f1, "PlainRelations")
CLASSES = Kind("macro F1", classes, classes_f1, "PlainMultilabel")
PAIRS = Kind("accuracy", best_class, accuracy, "PlainClasses")
NUMBERS = Kind("Pearson", number, pearson, "PlainNumber")
ANSWERS = Kind("F1", answers, answer_f1, "PlainAnswers")


class Task(NamedTuple):
    """A corpus and the settings of the fine-tuning on it.

    Attributes:
        kind: kind of task.
        batch: documents per batch.
        learn_rate: maximum learning rate.
        epochs: number of epochs.
    """

    kind: Kind
    batch: int
    learn_rate: float
    epochs: int = 3


TASKS = {
    "ncbi_disease": Task(ENTITIES, 16, 2e-4),
    "bc5cdr": Task(ENTITIES, 16, 2e-4),
    "meddocan": Task(ENTITIES, 2, 2e-4),
    "chemprot": Task(RELATIONS, 16, 1e-4),
    "hoc": Task(CLASSES, 2, 2e-4),
    "medrqe": Task(PAIRS, 16, 5e-5),
    "sts": Task(NUMBERS, 16, 5e-5),
    "covid_qa": Task(ANSWERS, 8, 1e-4),
}


# --- The contestants ---


class Run(NamedTuple):
    """A training.

    Attributes:
        encoder: identifier of the encoder, from `identify`.
        limit: maximum documents of each part; None for all.
    """

    task: str
    system: str
    seed: int
    epochs: int
    learn_rate: float
    batch: int
    encoder: str
    limit: int | None


class Process:
    """The requests of a training process."""

    def train(self, corpora: str, encoder_directory: str, **run: Any) -> dict[str, float | None]:
        """Train and score.

        Args:
            corpora: folder of the corpora.
            encoder_directory: the encoder, or its hub id.
            run: fields of the `Run`.

        Returns:
            dev: score on the development part, 0 to 1; None if it was not needed. test: score on
            the test part. seconds: duration.
        """
        chosen = Run(**run)
        start = time.perf_counter()
        with TemporaryDirectory() as temporary:
            corpus = prepare_corpus(Path(corpora) / chosen.task, Path(temporary), chosen.limit)
            fit = fit_ours if chosen.system == OURS else fit_plain
            scores = fit(corpus, encoder_directory, chosen, Path(temporary))
        return {**scores, "seconds": round(time.perf_counter() - start, 1)}


def prepare_corpus(corpus: Path, directory: Path, limit: int | None) -> Path:
    """Write the corpus with short contexts and at most `limit` documents in each part.

    Returns:
        its folder; the original folder if nothing has to be changed.
    """
    kind = TASKS[corpus.name].kind
    if kind is not ANSWERS and limit is None:
        return corpus
    target = directory / "corpus"
    target.mkdir()
    (target / "corpus.json").write_bytes((corpus / "corpus.json").read_bytes())
    for part in ("train", "dev", "test"):
        docs = list(read_docs(corpus / f"{part}.spacy", Vocab()))[:limit]
        if kind is ANSWERS:
            docs = list(shorten_contexts(docs))
        DocBin(docs=docs, store_user_data=True).to_disk(target / f"{part}.spacy")
    return target


def shorten_contexts(docs: list[Doc]) -> Iterator[Doc]:
    """Cut contexts to a part with the answer at a random position."""
    generator = random.Random(0)
    for doc in docs:
        question, context = get_pair(doc)
        answer = doc.spans[ANSWER_KEY][0] if len(doc.spans[ANSWER_KEY]) else context[:1]
        room = max(CONTEXT_WORDS - len(answer), 0)
        start = max(answer.start - generator.randint(0, room), context.start)
        end = min(start + max(CONTEXT_WORDS, answer.end - start), context.end)
        between = context.start
        kept = [*range(question.start, between), *range(start, end)]
        shorter = Doc(
            doc.vocab,
            words=[doc[i].text for i in kept],
            spaces=[bool(doc[i].whitespace_) for i in kept],
        )
        shift = start - between
        shorter.spans[PAIR_KEY] = [shorter[: len(question)], shorter[between : len(kept)]]
        shorter.spans[ANSWER_KEY] = [
            shorter[span.start - shift : span.end - shift]
            for span in doc.spans[ANSWER_KEY]
            if start <= span.start and span.end <= end
        ]
        shorter.user_data.update(doc.user_data)
        yield shorter


def fit_ours(corpus: Path, encoder: str, run: Run, directory: Path) -> dict[str, float | None]:
    """Fine-tune with this package, as `python -m spacy biomed train` does."""
    from spacy.training import Corpus
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train
    from spacy.util import load_model

    task = TASKS[run.task]
    schedule = create_schedule(corpus, run)
    config = our_config(corpus, encoder, schedule, run.epochs)
    if run.epochs == 1:  # the loop always scores the development part, here without need
        config["corpora"]["dev"]["limit"] = 1
    train(init_nlp(config), directory)
    nlp = load_model(directory / ("model-last" if run.epochs == 1 else "model-best"))
    examples = list(Corpus(corpus / "test.spacy")(nlp))
    docs = nlp.pipe([example.predicted for example in examples])
    found = [task.kind.read(doc) for doc in docs]
    gold = [task.kind.read(example.reference) for example in examples]
    return {"dev": None, "test": task.kind.score(gold, found)}


def fit_plain(corpus: Path, encoder: str, run: Run, _: Path) -> dict[str, float | None]:
    """Fine-tune a model of transformers."""
    import plain_transformers

    kind = TASKS[run.task].kind
    trainer_class = getattr(plain_transformers, kind.plain)
    trainer = trainer_class(corpus, encoder, create_schedule(corpus, run))
    return trainer.fit(
        run.epochs,
        lambda docs, found: kind.score([kind.read(doc) for doc in docs], found),
        needs_dev=len(kind.rates) > 1,
    )


def create_schedule(corpus: Path, run: Run) -> Schedule:
    documents = sum(1 for _ in read_docs(corpus / "train.spacy", Vocab()))
    steps = run.epochs * -(-documents // run.batch)
    return Schedule(steps, run.learn_rate, run.batch, run.seed)


# --- The program ---


def main() -> None:
    args = parse_arguments()
    encoder = str(Path(args.encoder).resolve()) if Path(args.encoder).is_dir() else args.encoder
    missing = [name for name in args.tasks if not (args.corpora / name).is_dir()]
    if missing:
        raise BiomedError(
            f"{args.corpora / missing[0]}: not there; `python -m spacy biomed convert` writes it"
        )
    plan = list(plan_runs(args, identify(encoder)))
    done = read_runs(args.runs, Run)
    for run in advance([run for run in plan if run not in done], "Training"):
        command = [sys.executable, __file__, "--serve"]
        with Worker(command, worker_environment(args.threads)) as worker:
            places = {"corpora": str(args.corpora), "encoder_directory": encoder}
            result = worker.ask("train", **places, **run._asdict())
        done[run] = result
        args.runs.parent.mkdir(parents=True, exist_ok=True)
        with args.runs.open("a", encoding="utf8") as file:
            print(json.dumps({**run._asdict(), **result}), file=file)
        console.print(
            f"{run.task}, {run.system}, {run.learn_rate:g}, seed {run.seed}: "
            f"{100 * result['test']:.2f}, {result['seconds']:.0f} s"
        )
    scores = {name: collect(name, plan, done) for name in args.tasks}
    print_scores(scores)
    checks = make_checks(scores)
    print_checks(checks)
    write_results(args.output, args, checks, scores=scores)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", help="directory in Hugging Face layout")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="NAME")
    parser.add_argument("--corpora", type=Path, default=Path("corpus"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=positive, help="by default as set for each task")
    parser.add_argument("--limit", type=positive, help="documents of each part (default: all)")
    parser.add_argument("--threads", type=positive, default=2, help="threads of each library")
    parser.add_argument("--runs", type=Path, default=Path("build/benchmarks/accuracy.jsonl"))
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/accuracy.json"))
    return parser.parse_args()


def plan_runs(args: argparse.Namespace, encoder: str) -> Iterator[Run]:
    for name in args.tasks:
        task = TASKS[name]
        systems = [(OURS, 1.0), *((PLAIN, rate) for rate in task.kind.rates)]
        for system, rate in systems:
            for seed in args.seeds:
                yield Run(
                    name,
                    system,
                    seed,
                    args.epochs or task.epochs,
                    task.learn_rate * rate,
                    task.batch,
                    encoder,
                    args.limit,
                )


def identify(encoder: str) -> str:
    """An identifier of an encoder: the beginning of its weights' SHA-256, or its hub id."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        weights = Path(encoder) / name
        if weights.is_file():
            return hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    return encoder


def collect(
    task: str, plan: list[Run], done: dict[Run, dict[str, Any]]
) -> dict[str, dict[int, float]]:
    """The score on the test part, 0 to 100, by system and seed, with the best learning rate."""
    results: dict[str, dict[int, list[dict[str, Any]]]] = {OURS: {}, PLAIN: {}}
    for run in plan:
        if run.task == task:
            results[run.system].setdefault(run.seed, []).append(done[run])
    return {
        system: {
            seed: 100 * max(of_rates, key=lambda result: result["dev"])["test"]
            for seed, of_rates in by_seed.items()
        }
        for system, by_seed in results.items()
    }


def print_scores(scores: dict[str, dict[str, dict[int, float]]]) -> None:
    table = Table(title="Test parts, mean over seeds (each seed)", title_justify="left")
    for title in ("", "metric", OURS, PLAIN, "difference"):
        table.add_column(title, justify="right" if title in (OURS, PLAIN, "difference") else "left")
    for name, systems in scores.items():
        cells = [
            f"{mean(by_seed.values()):.2f} "
            f"({', '.join(f'{points:.2f}' for points in by_seed.values())})"
            for by_seed in systems.values()
        ]
        table.add_row(name, TASKS[name].kind.metric, *cells, f"{difference(systems):+.2f}")
    console.print(table)


def difference(systems: dict[str, dict[int, float]]) -> float:
    """This package's mean over the seeds minus transformers', in points."""
    return mean(systems[OURS].values()) - mean(systems[PLAIN].values())


def make_checks(scores: dict[str, dict[str, dict[int, float]]]) -> list[Check]:
    checks = [
        Check(f"{name}, ours minus transformers", difference(systems), -0.5, " points")
        for name, systems in scores.items()
    ]
    mentions = [
        difference(systems) for name, systems in scores.items() if TASKS[name].kind is ENTITIES
    ]
    if mentions:
        checks.append(Check("mean over corpora of mentions", mean(mentions), 1.5, " points"))
    return checks


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
