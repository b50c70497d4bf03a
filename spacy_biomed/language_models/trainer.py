"""Training by masked language modelling, on transformers' `Trainer` and accelerate.

What differs from the plain `Trainer`: batches and masks follow from the step (`batches.py`), the
head predicts only the pieces that are asked for, and a checkpoint counts once it is complete.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Sampler
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from ..encoders.batching.word_pieces import WordPieceTokenizer
from ..encoders.loading import without_warnings
from ..encoders.torch.dropout import use_byte_dropout
from ..encoders.torch.precision import resolve_precision
from ..outputs import delete_directory
from .batches import TrainingBatches, ValidationBatches
from .masking import Masking
from .packed_sequences import PackedText
from .recipe import TrainingRecipe

# Padded word pieces that a device computes at once.
_CPU_PIECES, _GPU_PIECES = 4096, 32768

# Pieces that are predicted at once are filled up to a multiple of this. Logits of another size in
# every batch break the memory of a process into pieces that none of the next fits in.
_PREDICTED = 128

# The label of a place that is not predicted.
IGNORED = -100

# Written into a checkpoint's directory after everything else.
COMPLETE = "complete"

Inputs = dict[str, Any]


class RowSelection:
    """Lets the head of a language model see only the positions whose pieces it is to predict.

    The head costs as much as the layers where the vocabulary is large and the encoder small, and of
    six positions five are not predicted. The logits are those that the model would have computed
    for these positions.

    Attributes:
        model: any of transformers' models for masked language modelling.
    """

    def __init__(self, model: PreTrainedModel):
        self._positions: Tensor | None = None
        model.base_model.register_forward_hook(self._select)

    @contextmanager
    def __call__(self, positions: Tensor) -> Iterator[None]:
        """Within the context, logits are (positions, vocabulary).

        Args:
            positions: (positions,) places in the flattened batch.
        """
        self._positions = positions
        try:
            yield
        finally:
            self._positions = None

    def _select(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        if self._positions is not None:
            hidden = output.last_hidden_state
            output.last_hidden_state = hidden.flatten(0, 1)[self._positions]
        return output


def masked_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of the pieces that are predicted, in fp32.

    Args:
        logits: (predicted, vocabulary). labels: (predicted,); IGNORED for rows that do not count.
    """
    return functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED)


class MaskedLanguageModelTrainer(Trainer):
    """Trains a language model on a recipe's text.

    A class of this one trains on another objective: it replaces `micro_batch_loss`. Validation
    stays masked language modelling (`prediction_loss`) unless that is replaced too. Weights that an
    objective learns are those of modules added to the model, so that they are stepped, spread over
    processes and kept in checkpoints with the rest.

    Attributes:
        model: for masked language modelling; on a CPU its dropout layers are replaced.
        recipe: says how to train.
        tokenizer: of the text, with a mask token.
        training, validation: text to train on and to measure the loss on.
        callbacks: told of what happens, as transformers has it.

    Raises:
        BiomedError: if the recipe does not fit the number of processes, or its [training.arguments]
            are not transformers'.
    """

    control: TrainerControl

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: TrainingRecipe,
        tokenizer: WordPieceTokenizer,
        training: PackedText,
        validation: PackedText,
        callbacks: Iterable[TrainerCallback] = (),
    ):
        settings = recipe.training
        steps = settings.total_steps(len(training))
        args = training_arguments(recipe, steps)
        device_batch = choose_device_batch(recipe, args.device, args.world_size)
        args.per_device_train_batch_size = args.per_device_eval_batch_size = device_batch
        args.gradient_accumulation_steps = settings.batch // (device_batch * args.world_size)
        masking = Masking(tokenizer, **recipe.masking.model_dump(), seed=settings.seed)
        self.batches = TrainingBatches(
            training,
            masking,
            batch=settings.batch,
            device_batch=device_batch,
            steps=steps,
            seed=settings.seed,
            rank=args.process_index,
            processes=args.world_size,
        )
        self.recipe = recipe
        self.first_step = 0
        if args.device.type == "cpu":
            use_byte_dropout(model)
            if args.bf16:
                keep_in_bf16(model)
        self.rows = RowSelection(model)
        super().__init__(
            model,
            args,
            train_dataset=self.batches,
            eval_dataset=ValidationBatches(validation, masking, device_batch=device_batch),
            callbacks=[EndCallback(), *callbacks],
        )
        self.remove_callback(PrinterCallback)
        # The loss is a mean over all pieces that the step predicts, whichever process has them.
        self.model_accepts_loss_kwargs = True

    # --- What is learned ---

    def micro_batch_loss(self, model: torch.nn.Module, inputs: Inputs) -> Tensor:
        """The loss to be minimised, as a mean over a micro-batch's predicted pieces.

        In the loss of a step each micro-batch has the weight of its predicted pieces.

        Args:
            model: to be called, so that processes exchange gradients; `self.model` is what is
                inside.
            inputs: a `MaskedBatch` of tensors on the device.
        """
        return self.prediction_loss(model, inputs)

    def prediction_loss(self, model: torch.nn.Module, inputs: Inputs) -> Tensor:
        """Mean cross-entropy of a micro-batch's predicted pieces."""
        extra = -inputs["labels"].numel() % _PREDICTED
        positions = functional.pad(inputs["positions"], (0, extra))
        labels = functional.pad(inputs["labels"], (0, extra), value=IGNORED)
        with self.rows(positions):
            output = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        return masked_loss(output.logits, labels)

    def perplexity(self, loss: float) -> float | None:
        """How many equally probable pieces a validation loss stands for.

        Returns:
            inf where they are too many to say; None where the loss is no cross-entropy.
        """
        try:
            return math.exp(loss)
        except OverflowError:
            return math.inf

    # --- What transformers' loop calls ---

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: Inputs,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Tensor:
        loss = self.micro_batch_loss(model, inputs)
        share = inputs["labels"].numel() / num_items_in_batch
        # Gradients are averaged over processes, and should be summed.
        return loss * share * self.args.world_size

    def training_step(
        self, model: torch.nn.Module, inputs: Inputs, num_items_in_batch: Tensor | None = None
    ) -> Tensor:
        # Dropout hangs on the micro-batch, not on what this process has computed before.
        torch.manual_seed(inputs.pop("seed"))
        return super().training_step(model, inputs, num_items_in_batch)

    def autocast_smart_context_manager(
        self, cache_enabled: bool | None = True
    ) -> AbstractContextManager:
        # Around the whole loss, on every device: what an objective compares is computed alike.
        return self.accelerator.autocast()

    def get_train_dataloader(self) -> DataLoader:
        first = self.first_step * self.batches.accumulation
        return self._loader(self.batches, _Rest(first, len(self.batches)))

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Loss, and perplexity if it has one, on the validation text, over all processes."""
        start = time.perf_counter()
        batches = self.eval_dataset if eval_dataset is None else eval_dataset
        rank, processes = self.args.process_index, self.args.world_size
        rounds = -(-len(batches) // processes)
        # All processes make equally many calls; the last may be of a batch that another has.
        mine = [min(turn * processes + rank, len(batches) - 1) for turn in range(rounds)]
        counts = [turn * processes + rank < len(batches) for turn in range(rounds)]
        total = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        self.model.eval()
        loader = self._loader(batches, mine)
        with torch.no_grad():
            for inputs, is_mine in zip(loader, counts, strict=True):
                inputs = self._prepare_inputs(inputs)
                with self.compute_loss_context_manager():
                    loss = self.prediction_loss(self.model, inputs)
                count = inputs["labels"].numel() * is_mine
                total += torch.stack([loss.double() * count, torch.full_like(total[0], count)])
        loss, count = self.accelerator.reduce(total).tolist()
        metrics = {
            f"{metric_key_prefix}_loss": loss / count,
            f"{metric_key_prefix}_perplexity": self.perplexity(loss / count),
            f"{metric_key_prefix}_seconds": time.perf_counter() - start,
        }
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        sequences = self.state.global_step * self.batches.batch
        self.state.epoch = sequences / len(self.batches.text)
        super().log(logs, start_time)

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            (checkpoint_path(self.args.output_dir, self.state.global_step) / COMPLETE).touch()

    def _rotate_checkpoints(self, use_mtime: bool = False, output_dir: str | None = None) -> None:
        # By their steps: their times say nothing after they have been copied.
        super()._rotate_checkpoints(use_mtime=False, output_dir=output_dir)

    def _loader(self, batches: Any, sampler: Any) -> DataLoader:
        return DataLoader(
            batches,
            batch_size=None,
            sampler=sampler,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.device.type == "cuda",
        )

    # --- What users of the class call ---

    def run(self) -> None:
        """Train, from the last complete checkpoint on if there is one.

        Raises:
            BiomedError: if the device's memory is too small, or nothing was learned.
        """
        checkpoint = last_checkpoint(Path(self.args.output_dir))
        if checkpoint is not None:
            self.first_step = checkpoint_step(checkpoint)
        # It warns of weights that a checkpoint has once and the model uses twice.
        try:
            with without_warnings():
                self.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except torch.OutOfMemoryError as error:
            raise self.recipe.error(
                "training.device_batch",
                f"{self.batches.device_batch} sequences at once are too many for the memory of "
                f"{self.args.device}; give fewer",
            ) from error
        if self.state.best_global_step is None:
            raise self.recipe.error(
                "training.learning_rate", "the loss on the validation text was no number; lower it"
            )

    @property
    def best_checkpoint(self) -> Path:
        """Where the weights with the lowest validation loss are, in Hugging Face layout."""
        return checkpoint_path(self.args.output_dir, self.state.best_global_step)


class EndCallback(TrainerCallback):
    """Asks for an evaluation after the last step, whatever its number."""

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> TrainerControl:
        if state.global_step >= state.max_steps:
            control.should_log = control.should_evaluate = True
        return control


class _Rest(Sampler):
    """Items from one on; its length is that of all, which the loop reckons with."""

    def __init__(self, first: int, end: int):
        self.first, self.end = first, end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.end))

    def __len__(self) -> int:
        return self.end


def keep_in_bf16(model: PreTrainedModel) -> None:
    """Have autocast on a CPU keep hidden states in bf16 from the embeddings on.

    It would add and normalise them in fp32, as the embeddings are, and cast them for every product.
    """
    embeddings = getattr(model.base_model, "embeddings", None)
    if embeddings is not None:
        embeddings.register_forward_hook(lambda module, args, output: output.to(torch.bfloat16))


# --- Settings for transformers ---


def training_arguments(recipe: TrainingRecipe, steps: int) -> TrainingArguments:
    """The settings of `Trainer` that a recipe's [training] comes to.

    Raises:
        BiomedError: if [training.arguments] has a setting that transformers refuses.
    """
    check_arguments(recipe)
    given = recipe.training.arguments
    own = _own_arguments(recipe, steps)
    defaults = {
        "optim": "adamw_torch_fused",
        "report_to": "none",
        "save_total_limit": 2,
        "logging_steps": max(recipe.training.evaluate_every // 10, 1),
        "use_cpu": not torch.cuda.is_available(),
    }
    settings = {**defaults, **given}
    # A GPU is not to wait for batches; a CPU has them made in a hundredth of a step.
    settings.setdefault("dataloader_num_workers", 0 if settings["use_cpu"] else 4)
    device = torch.device("cpu" if settings["use_cpu"] else "cuda")
    precision = resolve_precision(recipe.training.precision, device)
    # What `accelerate launch` or an earlier run in this process has left here would win.
    os.environ["ACCELERATE_MIXED_PRECISION"] = "no" if precision == "fp32" else precision
    try:
        args = TrainingArguments(
            **own, **settings, bf16=precision == "bf16", fp16=precision == "fp16"
        )
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise recipe.error("training.arguments", f"transformers refuses them: {reason}") from error
    # One process on several GPUs would use DataParallel, which copies the model without its hooks.
    args._n_gpu = min(args.n_gpu, 1)
    return args


def check_arguments(recipe: TrainingRecipe) -> None:
    """RAISES BiomedError: if [training.arguments] has an unknown setting, or one of ours."""
    known = {field.name for field in fields(TrainingArguments) if field.init}
    for name in recipe.training.arguments:
        where = f"training.arguments.{name}"
        if name in _own_arguments(recipe, steps=1) or name in ("bf16", "fp16"):
            raise recipe.error(where, "follows from the other settings of the recipe; remove it")
        if name not in known:
            close = get_close_matches(name, known, n=2)
            advice = f"did you mean {' or '.join(close)}?" if close else "remove it"
            raise recipe.error(where, f"no such field of transformers' TrainingArguments; {advice}")


def _own_arguments(recipe: TrainingRecipe, steps: int) -> dict[str, Any]:
    settings = recipe.training
    return {
        "output_dir": str(recipe.output.work / "checkpoints"),
        "max_steps": steps,
        "warmup_steps": settings.warmup_steps(steps),
        "lr_scheduler_type": "linear",
        "learning_rate": settings.learning_rate,
        "weight_decay": settings.weight_decay,
        "adam_beta1": settings.beta1,
        "adam_beta2": settings.beta2,
        "adam_epsilon": settings.epsilon,
        "max_grad_norm": settings.gradient_clipping,
        "seed": settings.seed,
        "eval_strategy": "steps",
        "eval_steps": settings.evaluate_every,
        "save_strategy": "steps",
        "save_steps": settings.evaluate_every,
        "metric_for_best_model": "eval_loss",
        "greater_is_better": False,
        "ignore_data_skip": True,
        "remove_unused_columns": False,
        "average_tokens_across_devices": True,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
    }


def choose_device_batch(recipe: TrainingRecipe, device: torch.device, processes: int) -> int:
    """Sequences that a process computes at once: as many as wanted, or fewer, to divide a step's.

    Raises:
        BiomedError: if the batch cannot be spread over the processes, or what the recipe wants does
            not divide it.
    """
    settings = recipe.training
    share, rest = divmod(settings.batch, processes)
    if rest:
        raise recipe.error(
            "training.batch",
            f"{settings.batch} sequences cannot be spread evenly over {processes} "
            "processes; make it a multiple",
        )
    if settings.device_batch is not None:
        if share % settings.device_batch:
            raise recipe.error(
                "training.device_batch",
                f"{settings.device_batch} does not divide the {share} sequences of a step that "
                "each process has; change it or training.batch",
            )
        return settings.device_batch
    pieces = _CPU_PIECES if device.type == "cpu" else _GPU_PIECES
    wanted = max(pieces // recipe.packing.length, 1)
    return next(size for size in range(min(wanted, share), 0, -1) if share % size == 0)


# --- Checkpoints ---


def checkpoint_path(directory: str | Path, step: int) -> Path:
    return Path(directory) / f"checkpoint-{step}"


def checkpoint_step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def remove_incomplete_checkpoints(directory: Path) -> None:
    for path in directory.glob("checkpoint-*"):
        if not (path / COMPLETE).is_file():
            delete_directory(path)


def last_checkpoint(directory: Path) -> Path | None:
    """The newest checkpoint that was written to its end; None if there is none."""
    complete = [path.parent for path in directory.glob(f"checkpoint-*/{COMPLETE}")]
    return max(complete, key=checkpoint_step, default=None)
