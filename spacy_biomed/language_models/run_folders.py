"""A run of a recipe: its processes, its folder, and the encoder directory it writes."""

from __future__ import annotations

import atexit
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from confection import Config
from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.console import Console
from spacy.util import dict_to_dot
from transformers import AutoModelForMaskedLM, PretrainedConfig

from ..encoders.batching.concurrency import describe_processor
from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..encoders.loading import read_config, read_weights, save_encoder, without_warnings
from ..errors import BiomedError
from ..files.outputs import find_paths, replace_text, replacing_directory
from ..files.working_directories import working_directory
from .packed_sequences import PackedText, fingerprint, prepare_text
from .progress import RunLog, counting, read_rows
from .recipe import TrainingRecipe
from .trainer import (
    MaskedLanguageModelTrainer,
    check_arguments,
    choose_device_batch,
    last_checkpoint,
    remove_incomplete_checkpoints,
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
        parameters: number of parameters of the model with its head.
        megabytes: size of the weights' file, in millions of bytes.
        seconds: duration of the run, including the time before a resume.
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
    """Create the run's folder, and a directory for the encoder, which only the main process gets.

    The directory becomes the recipe's output when the context is left without an error.
    """
    if not state.is_main_process:
        yield None
        return
    sources = list(find_paths(recipe.model_dump(exclude={"output", "paths"})))
    with (
        replacing_directory(recipe.output.directory, recipe.made_by, sources) as partial,
        working_directory(recipe.output.work, recipe.made_by, sources),
    ):
        try:
            yield partial
        except BiomedError:
            if last_checkpoint(recipe.output.work / CHECKPOINTS) is None:
                (recipe.output.work / RUN).unlink(missing_ok=True)  # there is nothing to resume
            raise


def claim_text(
    recipe: TrainingRecipe,
    tokenizer: WordPieceTokenizer,
    state: PartialState,
    console: Console | None = None,
) -> tuple[PackedText, PackedText]:
    """Pack the training and the validation text, in the run's folder.

    The main process claims the folder for the recipe, and refuses one with a run of another.
    """
    if state.is_main_process:
        _claim_folder(recipe, fingerprint(recipe, tokenizer))
    with counting("Tokenizing", "documents", console) as progress:
        return prepare_text(recipe, tokenizer, recipe.output.work / TEXT, progress)


def _claim_folder(recipe: TrainingRecipe, text: str) -> None:
    """Claim the run's folder for a recipe and packed text, and delete incomplete checkpoints."""
    work = recipe.output.work
    remove_incomplete_checkpoints(work / CHECKPOINTS)
    identity = {**recipe.identity(), "text_and_vocabulary": text}
    path = work / RUN
    if last_checkpoint(work / CHECKPOINTS) is None or not path.is_file():
        shutil.rmtree(work / CHECKPOINTS, ignore_errors=True)
        replace_text(path, json.dumps(identity, indent=2))
        return
    changed = _differences(json.loads(path.read_text(encoding="utf8")), identity)
    if changed:
        raise BiomedError(
            f"{work}: holds a run of another recipe ({'; '.join(changed[:2])}); remove the folder "
            "to start again, or give another output.directory"
        )


def train(
    trainer: MaskedLanguageModelTrainer,
    tokenizer: WordPieceTokenizer,
    made: str,
    directory: Path | None,
    console: Console | None = None,
) -> RunReport | None:
    """Train, then write the best weights of the run, its log and its model card.

    Args:
        made: a sentence about the origin of the encoder, for the model card.
        directory: an empty directory to write to; None in processes other than the main process.

    Returns:
        the result; None in processes other than the main process.
    """
    recipe = trainer.recipe
    log = recipe.output.work / LOG
    if directory is None:
        trainer.run()
        return None
    shown = RunLog(log, trainer.batches, console)
    trainer.add_callback(shown)
    try:
        trainer.run()
    finally:
        shown.progress.stop()  # also after an error, since it hides the cursor
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
    card = create_card(recipe, trainer, report, model.config, made)
    (directory / "README.md").write_text(card, encoding="utf8")
    return report


def create_card(
    recipe: TrainingRecipe,
    trainer: MaskedLanguageModelTrainer,
    report: RunReport,
    config: PretrainedConfig,
    made: str,
) -> str:
    """The model card, in Markdown; all figures are from this run."""
    environment = Environment(
        loader=PackageLoader(__package__, ""),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["thousands"] = "{:,}".format
    args = trainer.args
    precision = "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32"
    return environment.get_template("encoder_card.md.jinja").render(
        name=recipe.output.directory.name,
        made=made,
        config=config,
        recipe=recipe,
        report=report,
        text=trainer.batches.text,
        validation=trainer.eval_dataset.text,
        pieces=read_rows(recipe.output.work / LOG)[-1]["pieces"],
        epochs=trainer.state.epoch,
        computed_on=f"{args.world_size} × {_device_name(args.device)}, in {precision}",
        settings=Config(recipe.identity()).to_str().strip(),
    )


def short_name(name: str) -> str:
    """The name of an encoder in a model card: of a directory without its path."""
    return Path(name).name if Path(name).is_dir() else name


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{describe_processor()[0]}, {torch.get_num_threads()} threads"


def _differences(earlier: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Descriptions of the settings that have changed."""
    before, after = dict_to_dot(earlier), dict_to_dot(now)
    return [
        f"{name} was {before.get(name, 'not there')} and is {after.get(name, 'not there')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
