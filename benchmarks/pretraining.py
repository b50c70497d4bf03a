"""Compare the speed of pretraining: ours in bf16 and in fp32, and transformers' Trainer.

    python benchmarks/pretraining.py configs/language_models/starter_en.cfg texts.txt.xz --threads 2

All three train the same model on the same sequences in steps of the recipe's batch. Ours use the
loop of `spacy biomed pretrain`. The plain one uses transformers' `Trainer` and
`DataCollatorForLanguageModeling` in fp32, and computes the head at all positions. Each runs in a
separate process, and they take turns: some steps each, while the others wait. Speeds are medians of
these rounds, in word pieces per second. Nothing is downloaded.
"""

import argparse
import sys
import time
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any

from comparisons import (
    Check,
    Contest,
    TextSet,
    create_parser,
    positive,
    report,
    run_program,
)
from transformers import TrainerCallback

from spacy_biomed.language_models.recipe import PretrainingRecipe, read_recipe
from spacy_biomed.language_models.text_sources import read_documents
from spacy_biomed.workers.process import serve

if TYPE_CHECKING:
    from transformers import Trainer

BF16, FP32, PLAIN = "ours, bf16", "ours, fp32", "plain transformers loop, fp32"
CONTESTANTS = [BF16, FP32, PLAIN]


class Gate(TrainerCallback):
    """Pauses a training after some steps."""

    def __init__(self, steps: int):
        self.steps = steps
        self.opened, self.reached = Semaphore(0), Semaphore(0)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step % self.steps == 0:
            self.reached.release()
            self.opened.acquire()

    def round(self) -> float:
        """Run the next steps; return the seconds."""
        start = time.perf_counter()
        self.opened.release()
        self.reached.acquire()
        return time.perf_counter() - start


class Process:
    """The requests of a contestant's process."""

    def load(self, name: str, recipe: str, overrides: dict[str, Any], steps: int) -> int:
        """Set up a contestant, and run a round as a warm-up.

        Returns:
            word pieces in a round, special tokens included.
        """
        precision = {BF16: "bf16", FP32: "fp32", PLAIN: "fp32"}[name]
        settings = read_recipe(
            Path(recipe), PretrainingRecipe, {**overrides, "training.precision": precision}
        )
        trainer = (make_plain if name == PLAIN else make_ours)(settings)
        trainer.args.eval_strategy = trainer.args.save_strategy = "no"
        self.gate = Gate(steps)
        trainer.add_callback(self.gate)
        Thread(target=trainer.train, daemon=True).start()
        self.gate.reached.acquire()
        self.gate.round()
        return steps * settings.training.batch * settings.packing.length

    def round(self, name: str) -> float:
        return self.gate.round()


def make_ours(recipe: PretrainingRecipe) -> "Trainer":
    """Create the trainer of `spacy biomed pretrain`."""
    from spacy_biomed.language_models.packed_sequences import prepare_text
    from spacy_biomed.language_models.pretraining import prepare_model
    from spacy_biomed.language_models.run_folders import TEXT, start_processes
    from spacy_biomed.language_models.trainer import MaskedLanguageModelTrainer

    tokenizer, model, _ = prepare_model(recipe, start_processes(recipe))
    texts = prepare_text(recipe, tokenizer, recipe.output.work / TEXT)
    return MaskedLanguageModelTrainer(model, recipe, tokenizer, *texts)


def make_plain(recipe: PretrainingRecipe) -> "Trainer":
    """Create a trainer that only uses transformers, on the same sequences."""
    from transformers import (
        AutoModelForMaskedLM,
        DataCollatorForLanguageModeling,
        PreTrainedTokenizerFast,
        Trainer,
        TrainingArguments,
    )

    ours = make_ours(recipe)
    masking, text = ours.batches.masking, ours.batches.text
    prefix, suffix = masking.prefix.tolist(), masking.suffix.tolist()
    sequences = [{"input_ids": [*prefix, *text[i].ids.tolist(), *suffix]} for i in range(len(text))]
    vocabulary = next((recipe.output.work / "vocabulary").iterdir())
    tokenizer = PreTrainedTokenizerFast.from_pretrained(vocabulary, trust_remote_code=False)
    args = ours.args
    return Trainer(
        AutoModelForMaskedLM.from_config(ours.model.config, trust_remote_code=False),
        TrainingArguments(
            output_dir=args.output_dir,
            max_steps=args.max_steps,
            per_device_train_batch_size=args.per_device_train_batch_size,
            gradient_accumulation_steps=args.gradient_accumulation_steps,
            learning_rate=args.learning_rate,
            max_grad_norm=args.max_grad_norm,
            use_cpu=args.use_cpu,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=sequences,
        data_collator=DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=recipe.masking.probability
        ),
    )


# --- The program ---


def main() -> None:
    args = parse_arguments()
    with TemporaryDirectory() as folder:
        compare(args, Path(folder))


def parse_arguments() -> argparse.Namespace:
    parser = create_parser(__doc__, "pretraining.json")
    parser.add_argument("recipe", type=Path, help="of an encoder from scratch")
    parser.add_argument("text", type=Path, help="as `spacy biomed pretrain` takes it")
    parser.add_argument(
        "--documents", type=positive, default=2000, help="of the text, from its start"
    )
    parser.add_argument("--batch", type=positive, help="sequences in a step; else the recipe's")
    parser.add_argument(
        "--device-batch", type=positive, help="sequences at once; else the recipe's"
    )
    parser.add_argument("--steps", type=positive, default=4, help="in a round")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    return parser.parse_args()


def compare(args: argparse.Namespace, folder: Path) -> None:
    """Run the contestants' rounds in turns, print and write the results."""
    text = folder / "text.txt"
    documents = islice(read_documents([args.text]), args.documents)
    text.write_text("".join(f"{document}\n" for document in documents), encoding="utf8")
    overrides = {
        "paths.text": str(text),
        "paths.output": str(folder / "encoder"),
        "text.validation": 10,
        "training.steps": args.steps * (args.repeats + 2),
        "training.arguments.use_cpu": args.device == "cpu",
        "training.arguments.logging_steps": 10**9,
    }
    for name in ("batch", "device_batch"):
        if getattr(args, name):
            overrides[f"training.{name}"] = getattr(args, name)
    recipe = str(args.recipe.resolve())
    shared = {"recipe": recipe, "overrides": overrides, "steps": args.steps}
    with Contest(args.threads, args.repeats, "word pieces") as contest:
        contest.start(CONTESTANTS, __file__, "--serve")
        pieces = [
            contest.ask(name, "load", name=name, **shared)
            for name in contest.among(CONTESTANTS, "Before it counts")
        ]
        rounds = TextSet(args.recipe.stem, [], next(filter(None, pieces), 0))
        contest.take_turns(rounds, CONTESTANTS)
    checks = [
        Check("bf16 vs fp32", contest.ratio(rounds.name, BF16, FP32), 2.5),
        Check("fp32 vs plain loop", contest.ratio(rounds.name, FP32, PLAIN), None),
        Check("bf16 vs plain loop", contest.ratio(rounds.name, BF16, PLAIN), None),
    ]
    report(contest, args, checks)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Process())
    else:
        run_program(main)
