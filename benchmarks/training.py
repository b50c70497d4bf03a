"""How fast an encoder is fine-tuned: ours, spaCy with spacy-transformers, and a plain loop.

    python benchmarks/training.py corpus/ncbi_disease ENCODER_DIRECTORY --threads 2

All three fine-tune the same encoder for named entities on the same batches of 32 sentences: ours as
`configs/ner.cfg` says, and stock spacy-transformers with `ner`, both in spaCy's own training loop;
and the usual loop of transformers' Trainer around a token classifier: fp32, AdamW, linear schedule
with warm-up, gradients clipped at norm 1. Each lives in a process of its own, and they take turns:
some steps each, on the same batches, while the others wait. Speeds are medians of these rounds.

    python benchmarks/training.py corpus/ncbi_disease ENCODER_DIRECTORY --f1 --epochs 3

trains ours and the plain loop in full instead, with one learning rate, and compares their F1 on the
test part. Both keep the epoch that is best on the development part. A mention counts as found if
its character offsets and its label are predicted. Nothing is downloaded.
"""

import argparse
import copy
import random
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice, pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from comparisons import (
    Check,
    Contest,
    TextSet,
    add_options,
    advance,
    console,
    positive,
    print_checks,
    run_program,
    worker_environment,
    write_results,
)
from contestants import REPOSITORY, stock_config
from rich.table import Table
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_biomed.evaluation.workers import Worker, serve
from spacy_biomed.training.config import fill_config
from spacy_biomed.training.corpus import read_docs

if TYPE_CHECKING:
    import torch

OURS, STOCK, PLAIN = "ours", "stock spacy-transformers", "plain transformers loop, fp32"

# As `spacy init config --gpu` writes it, but for the batches.
STOCK_TRAINING = """
[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = null

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = null

[training]
seed = 0
gpu_allocator = null
dropout = 0.1
accumulate_gradient = 1

[training.optimizer]
@optimizers = "Adam.v1"

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
warmup_steps = 0
total_steps = 0
initial_rate = 0.0
"""


class Schedule:
    """How long and how fast to train.

    steps: of the whole training; the learning rate rises for a tenth of them, then falls to 0.
    """

    def __init__(self, steps: int, learn_rate: float, batch: int, seed: int):
        self.steps, self.learn_rate, self.batch, self.seed = steps, learn_rate, batch, seed
        self.warmup = max(round(0.1 * steps), 1)


# --- The contestants ---


class SpacyTrainer:
    """spaCy's own training loop.

    config: a whole training config.
    """

    def __init__(self, config: Config, schedule: Schedule):
        from spacy.training.initialize import init_nlp

        self.schedule = schedule
        self.nlp = init_nlp(config)

    def steps(self, count: int) -> Iterator[Any]:
        """Train on the first batches over and over; `count` of them."""
        from spacy.schemas import ConfigSchemaTraining
        from spacy.training.loop import train_while_improving
        from spacy.util import registry, resolve_dot_names

        config = self.nlp.config.interpolate()
        settings = registry.resolve(config["training"], schema=ConfigSchemaTraining)
        [corpus] = resolve_dot_names(config, ["corpora.train"])
        batches = first_batches(list(corpus(self.nlp)), self.schedule, count)
        return train_while_improving(
            self.nlp,
            settings["optimizer"],
            ((0, batch) for batch in cycle(batches)),
            lambda: (0.0, {}),
            dropout=settings["dropout"],
            eval_frequency=sys.maxsize,
            accumulate_gradient=settings["accumulate_gradient"],
            patience=0,
            max_steps=0,
            exclude=[],
            annotating_components=[],
            before_update=None,
        )

    def fit(self, corpus: Path) -> dict[str, float]:
        """Train in full, and score the epoch that is best on the development part."""
        from spacy.training import Corpus
        from spacy.training.loop import train
        from spacy.util import load_model

        with TemporaryDirectory() as directory:
            train(self.nlp, Path(directory))
            nlp = load_model(Path(directory) / "model-best")
        result = {}
        for part in ("dev", "test"):
            examples = list(Corpus(corpus / f"{part}.spacy")(nlp))
            docs = nlp.pipe([example.predicted for example in examples])
            for example, doc in zip(examples, docs, strict=True):
                example.predicted = doc
            result[part] = f1(examples)
        return result


class OurTrainer(SpacyTrainer):
    """Our components and optimizer, as `configs/ner.cfg` has them."""

    def __init__(self, corpus: Path, encoder: str, schedule: Schedule, epochs: int):
        config = fill_config(
            REPOSITORY / "configs" / "ner.cfg",
            corpus,
            encoder=encoder,
            epochs=epochs,
            learn_rate=schedule.learn_rate,
            seed=schedule.seed,
        )
        config["vars"].update(
            max_steps=schedule.steps,
            warmup_steps=schedule.warmup,
            eval_frequency=max(schedule.steps // epochs, 1),
        )
        batcher = {"@batchers": "spacy.batch_by_sequence.v1", "size": schedule.batch}
        config["training"]["batcher"] = batcher
        super().__init__(config, schedule)


class StockTrainer(SpacyTrainer):
    """spacy-transformers and spaCy's `ner`, with spaCy's optimizer."""

    def __init__(self, corpus: Path, encoder: str, schedule: Schedule, epochs: int):
        language = fill_config(
            REPOSITORY / "configs" / "ner.cfg", corpus, encoder=encoder, epochs=epochs
        )["nlp"]["lang"]
        config = stock_config(encoder, language).merge(Config().from_str(STOCK_TRAINING))
        for part in ("train", "dev"):
            config["corpora"][part]["path"] = str(corpus / f"{part}.spacy")
        config["training"]["seed"] = schedule.seed
        config["training"]["optimizer"]["learn_rate"].update(
            initial_rate=schedule.learn_rate,
            warmup_steps=schedule.warmup,
            total_steps=schedule.steps,
        )
        super().__init__(config, schedule)


class PlainTrainer:
    """What transformers' Trainer does, around `AutoModelForTokenClassification`."""

    def __init__(self, corpus: Path, encoder: str, schedule: Schedule, epochs: int):
        import torch
        from transformers import (
            AutoModelForTokenClassification,
            AutoTokenizer,
            DataCollatorForTokenClassification,
            get_linear_schedule_with_warmup,
        )

        torch.manual_seed(schedule.seed)
        self.schedule, self.epochs = schedule, epochs
        self.tokenizer = AutoTokenizer.from_pretrained(encoder)
        self.tokenizer.model_max_length = min(self.tokenizer.model_max_length, 512)
        self.collate = DataCollatorForTokenClassification(self.tokenizer)
        docs = list(read_docs(corpus / "train.spacy", Vocab()))
        labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
        self.tags = ["O", *(f"{edge}-{label}" for label in labels for edge in "BI")]
        self.model = AutoModelForTokenClassification.from_pretrained(
            encoder, num_labels=len(self.tags)
        )
        self.train_inputs = [self.encode(doc) for doc in docs]
        self.optimizer = torch.optim.AdamW(_decay_groups(self.model), lr=schedule.learn_rate)
        self.rates = get_linear_schedule_with_warmup(
            self.optimizer, schedule.warmup, schedule.steps
        )

    def encode(self, doc: Doc) -> dict[str, Any]:
        """Word pieces, and the tag of each token on its first one."""
        encoded = self.tokenizer(
            [token.text for token in doc], is_split_into_words=True, truncation=True
        )
        tags = [f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc]
        words = encoded.word_ids()
        first = [word is not None and word != before for before, word in pairwise([None, *words])]
        encoded["labels"] = [
            self.tags.index(tags[word]) if is_first else -100
            for word, is_first in zip(words, first, strict=True)
        ]
        return encoded

    def steps(self, count: int) -> Iterator[None]:
        """Train on the first batches over and over; `count` of them."""
        for batch in cycle(first_batches(self.train_inputs, self.schedule, count)):
            self.step(batch)
            yield

    def step(self, batch: list[dict[str, Any]]) -> None:
        import torch

        self.model.train()
        self.model(**self.collate(batch)).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.rates.step()
        self.optimizer.zero_grad()

    def fit(self, corpus: Path) -> dict[str, float]:
        """Train in full, and score the epoch that is best on the development part."""
        best, state = -1.0, {}
        order = random.Random(self.schedule.seed)
        for _ in range(self.epochs):
            order.shuffle(self.train_inputs)
            for start in range(0, len(self.train_inputs), self.schedule.batch):
                self.step(self.train_inputs[start : start + self.schedule.batch])
            score = self.score(corpus / "dev.spacy")
            if score > best:
                best, state = score, copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(state)
        return {"dev": best, "test": self.score(corpus / "test.spacy")}

    def score(self, part: Path) -> float:
        docs = list(read_docs(part, Vocab()))
        examples = []
        for start in range(0, len(docs), self.schedule.batch):
            batch = docs[start : start + self.schedule.batch]
            for doc, tags in zip(batch, self.predict(batch), strict=True):
                predicted = Doc(
                    doc.vocab,
                    words=[token.text for token in doc],
                    spaces=[bool(token.whitespace_) for token in doc],
                )
                predicted.ents = decode_bio(predicted, tags)
                examples.append(Example(predicted, doc))
        return f1(examples)

    def predict(self, docs: list[Doc]) -> list[list[str]]:
        """The tag of each token: that of its first word piece; "O" where it has none."""
        import torch

        encoded = [self.encode(doc) for doc in docs]
        self.model.eval()
        with torch.no_grad():
            best = self.model(**self.collate(encoded)).logits.argmax(-1).tolist()
        result = []
        for doc, own, row in zip(docs, encoded, best, strict=True):
            tags = ["O"] * len(doc)
            for word, label, tag in zip(own.word_ids(), own["labels"], row, strict=False):
                if label != -100:
                    tags[word] = self.tags[tag]
            result.append(tags)
        return result


TRAINERS = {OURS: OurTrainer, STOCK: StockTrainer, PLAIN: PlainTrainer}


def first_batches(examples: list, schedule: Schedule, count: int) -> list[list]:
    """The first batches of the examples in an order that the seed gives: the same for all."""
    order = random.Random(schedule.seed).sample(range(len(examples)), len(examples))
    endless = cycle(order)
    return [[examples[i] for i in islice(endless, schedule.batch)] for _ in range(count)]


def _decay_groups(model: "torch.nn.Module") -> list[dict[str, Any]]:
    """As Trainer does: biases and normalisation weights do not decay."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.01},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]


def decode_bio(doc: Doc, tags: list[str]) -> list[Span]:
    """Mentions that tags say; an "I" that goes on nothing begins one."""
    spans: list[Span] = []
    start, current = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        edge, _, label = tag.partition("-")
        if current and (edge != "I" or label != current):
            spans.append(Span(doc, start, i, label=current))
            current = ""
        if label and not current:
            start, current = i, label
    return spans


def f1(examples: list[Example]) -> float:
    """Over character offsets and labels, against all gold mentions of the source."""
    from spacy_biomed.pipeline.ner import score_mentions

    return score_mentions(examples)["ents_f"]


class Process:
    """Answers requests about one contestant, in a process of its own."""

    def load(self, name: str, corpus: str, encoder: str, epochs: int, **schedule: Any) -> None:
        """Set up a contestant."""
        self.corpus = Path(corpus)
        self.trainer = TRAINERS[name](self.corpus, encoder, Schedule(**schedule), epochs)

    def read(self, count: int) -> None:
        """Make the batches, and take a round that does not count."""
        self.count = count
        self.loop = self.trainer.steps(count)
        self.round("")

    def round(self, name: str) -> float:
        """A step for each batch: seconds."""
        start = time.perf_counter()
        for _ in islice(self.loop, self.count):
            pass
        return time.perf_counter() - start

    def fit(self) -> dict[str, float]:
        """Train in full: F1, 0 to 1, of the development and the test part; seconds."""
        start = time.perf_counter()
        scores = self.trainer.fit(self.corpus)
        return {**scores, "seconds": time.perf_counter() - start}


# --- The program ---


def main() -> None:
    args = parse_arguments()
    args.corpus = args.corpus.resolve()
    if Path(args.encoder).is_dir():
        args.encoder = str(Path(args.encoder).resolve())
    (compare_scores if args.f1 else compare_speeds)(args)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder that `spacy biomed convert` wrote")
    parser.add_argument("encoder", help="directory in Hugging Face layout")
    parser.add_argument("--steps", type=positive, default=20, help="in a round")
    parser.add_argument("--batch-size", type=positive, default=32, help="sentences in a batch")
    parser.add_argument("--learn-rate", type=float, default=2e-4, help="the highest")
    parser.add_argument("--f1", action="store_true", help="train in full and compare F1 instead")
    parser.add_argument("--epochs", type=positive, default=3, help="with --f1")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="with --f1")
    add_options(parser, output="build/benchmarks/training.json")
    return parser.parse_args()


def compare_speeds(args: argparse.Namespace) -> None:
    """Rounds in turns."""
    docs = list(read_docs(args.corpus / "train.spacy", Vocab()))
    schedule = {
        "steps": args.steps * (args.repeats + 1),
        "learn_rate": args.learn_rate,
        "batch": args.batch_size,
        "seed": 0,
    }
    chosen = [
        doc for batch in first_batches(docs, Schedule(**schedule), args.steps) for doc in batch
    ]
    name = f"{args.corpus.name}, {args.steps} batches of {args.batch_size}"
    texts = TextSet(name, [doc.text for doc in chosen], sum(map(len, chosen)))
    contest = Contest(args.threads, args.repeats)
    try:
        for own in TRAINERS:
            contest.start(own, [sys.executable, __file__, "--serve"])
        where = {"corpus": str(args.corpus), "encoder": args.encoder, "epochs": 1}
        for own in contest.among(list(TRAINERS), "Before it counts"):
            contest.ask(own, "load", name=own, **where, **schedule)
            contest.ask(own, "read", count=args.steps)
        contest.take_turns(texts, list(TRAINERS))
    finally:
        contest.close()
    checks = [
        Check("fine-tuning, ours vs stock", contest.ratio(name, OURS, STOCK), 3.5),
        Check("fine-tuning, ours vs plain loop", contest.ratio(name, OURS, PLAIN), 3.5),
    ]
    contest.print_speeds()
    print_checks(checks)
    write_results(args.output, args, checks, texts=contest.to_json(), missing=contest.missing)


def compare_scores(args: argparse.Namespace) -> None:
    """Train ours and the plain loop in full, once with each seed."""
    documents = sum(1 for _ in read_docs(args.corpus / "train.spacy", Vocab()))
    steps = args.epochs * -(-documents // args.batch_size)
    results: dict[str, list[dict[str, float]]] = {OURS: [], PLAIN: []}
    runs = [(seed, name) for seed in args.seeds for name in results]
    for seed, name in advance(runs, "Training"):
        schedule = {"steps": steps, "learn_rate": args.learn_rate, "batch": args.batch_size}
        where = {"corpus": str(args.corpus), "encoder": args.encoder, "epochs": args.epochs}
        command = [sys.executable, __file__, "--serve"]
        with Worker(command, worker_environment(args.threads)) as worker:
            worker.ask("load", name=name, seed=seed, **where, **schedule)
            results[name].append(worker.ask("fit"))
        last = results[name][-1]
        console.print(f"{name}, seed {seed}: F1 {100 * last['test']:.2f}, {last['seconds']:.0f} s")
    means = {name: 100 * mean(one["test"] for one in own) for name, own in results.items()}
    table = Table(title="F1 on the test part", title_justify="left")
    for title in ("", *(f"seed {seed}" for seed in args.seeds), "mean"):
        table.add_column(title, justify="right" if title else "left")
    for name, own in results.items():
        table.add_row(name, *(f"{100 * one['test']:.2f}" for one in own), f"{means[name]:.2f}")
    console.print(table)
    difference = means[OURS] - means[PLAIN]
    checks = [Check("F1, ours minus plain loop", difference, 0.0, " points")]
    print_checks(checks)
    write_results(args.output, args, checks, scores=results)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
