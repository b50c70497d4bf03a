"""A run of a recipe: its processes, folder and progress, and the encoder directory it writes."""

import atexit
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import srsly
import torch
from accelerate import PartialState
from confection import Config
from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn
from spacy.util import dict_to_dot
from transformers import AutoModelForMaskedLM, PretrainedConfig, TrainerCallback, TrainerState

from ..encoders.batching.concurrency import describe_processor
from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..encoders.loading import read_config, read_weights, save_encoder, without_warnings
from ..errors import BiomedError
from ..files import outputs
from ..files.digests import hash_pieces, read_blocks
from ..files.templates import read_template
from .batches import TrainingBatches
from .packed_sequences import PackedText, fingerprint, prepare_text
from .recipe import TrainingRecipe
from .trainer import (
    TERM,
    MaskedLanguageModelTrainer,
    check_arguments,
    choose_device_batch,
    find_checkpoints,
)

CHECKPOINTS, TEXT, LOG, RUN = "checkpoints", "text", "log.jsonl", "run.json"

# How long processes wait for the main process, which tokenizes the text.
_PATIENCE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a run.

    Attributes:
        step, steps: step with the best weights, and number of steps.
        loss, perplexity: of these weights on the validation text; the perplexity is None if the
            loss is an objective without distributions.
        parameters: of the model with its head.
        megabytes: of the file of weights.
        seconds: of the run, with the time before a resume.
    """

    output: Path
    step: int
    steps: int
    loss: float
    perplexity: float | None
    parameters: int
    megabytes: float
    seconds: float

    @property
    def validation(self) -> str:
        """The loss, and the perplexity if there is one."""
        perplexity = "" if self.perplexity is None else f" (perplexity {self.perplexity:.2f})"
        return f"{self.loss:.4f}{perplexity}"

    def __str__(self) -> str:
        return (
            f"{self.output}: {self.parameters / 1e6:.2f} million parameters, "
            f"{self.megabytes:.1f} MB; validation loss {self.validation} after step "
            f"{self.step:,} of {self.steps:,}"
        )


def start_processes(recipe: TrainingRecipe) -> PartialState:
    """Join the processes started by `torchrun` or `accelerate launch`, if there are any."""
    check_arguments(recipe)
    use_cpu = recipe.training.arguments.get("use_cpu", not torch.cuda.is_available())
    state = PartialState(cpu=use_cpu, timeout=_PATIENCE)
    if state.use_distributed:  # its threads must end before the interpreter does
        atexit.register(state.destroy_process_group)
    choose_device_batch(recipe, state.device, state.num_processes)
    return state


@contextmanager
def open_run(recipe: TrainingRecipe, state: PartialState) -> Iterator[Path | None]:
    """Create the run's folder, and yield the main process a directory that becomes the output."""
    if not state.is_main_process:
        yield None
        return
    sources = list(outputs.find_paths(recipe.model_dump(exclude={"output", "paths"})))
    with (
        outputs.replacing_directory(recipe.output.directory, recipe.made_by, sources) as partial,
        outputs.working_directory(recipe.output.work, recipe.made_by, sources),
    ):
        yield partial


def claim_text(
    recipe: TrainingRecipe,
    tokenizer: WordPieceTokenizer,
    state: PartialState,
    console: Console | None = None,
) -> tuple[PackedText, PackedText]:
    """Pack the training and the validation text in the run's folder.

    The main process refuses a folder with a run of another recipe.
    """
    work = recipe.output.work
    identity = {**recipe.identity(), "text_and_vocabulary": fingerprint(recipe, tokenizer)}
    if state.is_main_process:
        identity |= _hash_encoders(recipe)
        _check_run(work, identity)
    with counting("Documents tokenized", console) as progress:
        texts = prepare_text(recipe, tokenizer, work / TEXT, progress)
    if state.is_main_process:
        outputs.replace_text(work / RUN, json.dumps(identity, indent=2))
    return texts


def _hash_encoders(recipe: TrainingRecipe) -> dict[str, str]:
    """A hash of the weights of each encoder that is a directory, by the recipe's section."""
    hashes = {}
    for section in ("encoder", "teacher", "student"):
        name = getattr(getattr(recipe, section, None), "name", None)
        if name is None:
            continue
        folder = Path(name).expanduser()
        if files := sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]):
            pieces = chain.from_iterable(map(read_blocks, files))
            hashes[f"{section}.weights"] = hash_pieces(pieces)[:16]
    return hashes


def _check_run(work: Path, identity: dict[str, Any]) -> None:
    """Refuse a folder with a run of another recipe, and delete what cannot be resumed."""
    complete = find_checkpoints(work / CHECKPOINTS)
    if not complete or not (work / RUN).is_file():
        shutil.rmtree(work / CHECKPOINTS, ignore_errors=True)
        return
    earlier = dict_to_dot(json.loads((work / RUN).read_text(encoding="utf8")))
    now = dict_to_dot(identity)
    changed = [
        f"{name} was {earlier.get(name, 'not there')} and is {now.get(name, 'not there')}"
        for name in sorted({*earlier, *now})
        if earlier.get(name) != now.get(name)
    ]
    if changed:
        raise BiomedError(
            f"{work}: holds a run of another recipe ({'; '.join(changed[:2])}); remove the folder "
            "to start again, or give another output.directory"
        )
    for path in {*(work / CHECKPOINTS).glob("checkpoint-*")}.difference(complete.values()):
        outputs.delete_directory(path)


def train(
    trainer: MaskedLanguageModelTrainer,
    tokenizer: WordPieceTokenizer,
    made: str,
    directory: Path | None,
    console: Console | None = None,
) -> RunReport | None:
    """Train, then write the best weights of the run, its log and its model card.

    Only the main process has a directory to write to, and gets a report.
    """
    recipe = trainer.recipe
    log = recipe.output.work / LOG
    if directory is None:
        trainer.run()
        return None
    shown = RunLog(log, trainer.batches, console)
    trainer.add_callback(shown)
    with shown.progress:
        trainer.run()
    with without_warnings():  # of modules that an objective has added to the model
        best = trainer.best_checkpoint
        model, _ = read_weights(AutoModelForMaskedLM, best, read_config(best))
    if recipe.output.weights == "fp16":
        model.half()
    save_encoder(directory, tokenizer, model)
    shutil.copyfile(log, directory / LOG)
    report = RunReport(
        output=recipe.output.directory,
        step=trainer.state.best_global_step,
        steps=trainer.state.max_steps,
        loss=trainer.state.best_metric,
        perplexity=trainer.perplexity(trainer.state.best_metric),
        parameters=model.num_parameters(),
        megabytes=(directory / "model.safetensors").stat().st_size / 1e6,
        seconds=read_rows(log)[-1]["seconds"],
    )
    card = create_card(trainer, report, model.config, made)
    (directory / "README.md").write_text(card, encoding="utf8")
    return report


def create_card(
    trainer: MaskedLanguageModelTrainer, report: RunReport, config: PretrainedConfig, made: str
) -> str:
    """The model card, in Markdown; all figures are from this run."""
    template = Path(__file__).parent / "encoder_card.md.jinja"
    args, recipe = trainer.args, trainer.recipe
    precision = trainer.accelerator.mixed_precision.replace("no", "fp32")
    device = f"{describe_processor()[0]}, {torch.get_num_threads()} threads"
    if args.device.type == "cuda":
        device = torch.cuda.get_device_name(args.device)
    return read_template(template, thousands="{:,}".format).render(
        name=recipe.output.directory.name,
        made=made,
        config=config,
        recipe=recipe,
        report=report,
        text=trainer.batches.text,
        validation=trainer.eval_dataset.text,
        pieces=read_rows(recipe.output.work / LOG)[-1]["pieces"],
        epochs=trainer.state.epoch,
        computed_on=f"{args.world_size} × {device}, in {precision}",
        settings=Config(recipe.identity()).to_str().strip(),
    )


def short_name(name: str) -> str:
    """The name of an encoder in a model card: of a directory without its path."""
    return Path(name).name if Path(name).is_dir() else name


class RunLog(TrainerCallback):
    """Logs and shows the progress of a training; only for the main process.

    A row has step, epoch, pieces (so far), seconds (so far, with evaluations and the time before a
    resume) and pieces_per_second (since the last row of training, without evaluations). It also has
    loss, learning_rate and in distillation the unweighted `terms`; or validation_loss and
    validation_perplexity (null if the loss is not a cross-entropy). Numbers that are not finite
    are null.
    """

    def __init__(self, path: Path, batches: TrainingBatches, console: Console | None = None):
        self.path = path
        self.batches = batches
        self.console = console
        self.progress = _make_bar(console, *Progress.get_default_columns())
        self.pieces = 0
        self.seconds = 0.0
        self._loss: float | None = None

    def on_train_begin(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        rows = [row for row in read_rows(self.path) if 0 < row["step"] <= state.global_step]
        with outputs.replacing_file(self.path) as partial:
            srsly.write_jsonl(partial, rows)
        if rows:
            self.pieces, self.seconds = rows[-1]["pieces"], rows[-1]["seconds"]
        self._start = self._mark = time.perf_counter()
        self._interval = 0.0
        self._interval_pieces = 0
        self._task = self.progress.add_task(
            "Training", total=state.max_steps, completed=state.global_step
        )

    def on_step_end(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        now = time.perf_counter()
        pieces = self.batches.pieces(state.global_step - 1)
        self._interval += now - self._mark
        self._interval_pieces += pieces
        self.pieces += pieces
        self._mark = now
        loss = "" if self._loss is None else f"loss {self._loss:.3f}, "
        shown = f"{loss}{self._speed():,.0f} pieces/s"
        self.progress.update(self._task, completed=state.global_step, description=shown)

    def on_log(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        logs: dict[str, float] = event["logs"]
        if "loss" not in logs:
            return
        self._loss = logs["loss"]
        row: dict[str, Any] = {"loss": self._loss, "learning_rate": logs["learning_rate"]}
        if terms := {n.removeprefix(TERM): logs[n] for n in logs if n.startswith(TERM)}:
            row["terms"] = terms
        self._write(state, **row)
        self._interval, self._interval_pieces = 0.0, 0

    def on_evaluate(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        metrics: dict[str, Any] = event["metrics"]
        loss, perplexity = metrics["eval_loss"], metrics["eval_perplexity"]
        row = self._write(state, validation_loss=loss, validation_perplexity=perplexity)
        self._mark = time.perf_counter()
        if self.console is not None:
            parts = [
                f"step {state.global_step:,} of {state.max_steps:,}",
                "" if self._loss is None else f"loss {self._loss:.4f}",
                f"validation {loss:.4f}",
                "" if perplexity is None else f"perplexity {perplexity:.2f}",
                f"{row['seconds'] / 60:.1f} min",
            ]
            line = " · ".join(filter(None, parts))
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def on_save(self, *event: object, **others: object) -> None:
        self._mark = time.perf_counter()

    def _speed(self) -> float:
        return self._interval_pieces / max(self._interval, 1e-9)

    def _write(self, state: TrainerState, **values: float) -> dict[str, Any]:
        row = {
            "step": state.global_step,
            "epoch": state.epoch,
            "pieces": self.pieces,
            "seconds": self.seconds + time.perf_counter() - self._start,
            "pieces_per_second": self._speed() if self._interval else None,
            **values,
        }
        # JSON has no numbers that are not finite, as of a training that diverges.
        written = json.loads(json.dumps(row), parse_constant=lambda name: None)
        srsly.write_jsonl(self.path, [written], append=True, append_new_line=False)
        return row


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log; empty if there is no log. Incomplete rows are left out."""
    return list(srsly.read_jsonl(path, skip=True)) if path.is_file() else []


@contextmanager
def counting(what: str, console: Console | None) -> Iterator[Callable[[int], None]]:
    """Show a count during a task of unknown length, in a terminal; yield a function that adds."""
    column = TextColumn("{task.description}: {task.completed:,.0f}", markup=False)
    with _make_bar(console, column) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)


def _make_bar(console: Console | None, *columns: ProgressColumn) -> Progress:
    """A bar that is shown only on a terminal."""
    is_shown = console is not None and console.is_terminal
    return Progress(
        *columns,
        console=console if is_shown else Console(quiet=True),
        transient=True,
        disable=not is_shown,
        speed_estimate_period=300,  # seconds; a step may take a minute
    )
