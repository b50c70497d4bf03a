"""Training by masked language modelling, on transformers' `Trainer` and accelerate.

The differences from the plain `Trainer`: batches and masks depend only on the step (`batches.py`),
the head computes logits only for the predicted pieces, and incomplete checkpoints are ignored.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from pathlib import Path

import torch
import transformers
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Sampler
from transformers import PreTrainedModel, TrainerControl, TrainerState, TrainingArguments
from transformers.modeling_outputs import BaseModelOutput

from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..encoders.loading import without_warnings
from ..encoders.torch.dropout import use_byte_dropout
from ..encoders.torch.precision import resolve_precision
from ..files.outputs import delete_directory
from ..settings.environment import setting_variable
from ..settings.sections import advise_on_name
from .batches import Masking, TrainingBatches, ValidationBatches
from .objectives import Needs, Outputs
from .packed_sequences import PackedText
from .recipe import TrainingRecipe

# The variable from which accelerate takes the number format, also that of `accelerate launch`.
ACCELERATE = "ACCELERATE_MIXED_PRECISION"

# Default number of padded word pieces that a device computes at once.
_CPU_PIECES, _GPU_PIECES = 4096, 32768

# The number of predicted pieces is padded to a multiple of this, since logits of ever different
# sizes would fragment a process's memory. The label of padding is cross_entropy's -100.
_PREDICTED, _IGNORED = 128, -100

# Prefix of the names of an objective's terms in the logs.
TERM = "term_"

# Written into a checkpoint's directory after everything else.
COMPLETE = "complete"

Inputs = dict[str, Tensor]


class RowSelection:
    """Makes a language model's head compute logits only for selected positions.

    With a large vocabulary and a small encoder the head costs as much as the layers. Of calls with
    `arguments`, what an objective needs beside the logits is kept for `outputs`.
    """

    def __init__(self, model: PreTrainedModel, needs: Needs | None = None):
        self.arguments: dict[str, bool] = {}
        if needs is not None:
            self.arguments["output_hidden_states"] = needs.hidden_states == "all"
            self.arguments["output_attentions"] = needs.attentions
        self._positions: Tensor | None = None
        self._kept = Outputs()
        model.base_model.register_forward_hook(self._select)

    @contextmanager
    def __call__(self, positions: Tensor) -> Iterator[None]:
        """Within the context, compute logits, (positions, vocabulary), only at these places."""
        self._positions = positions
        try:
            yield
        finally:
            self._positions = None

    def outputs(self, logits: Tensor) -> Outputs:
        """Return and forget the last call's outputs; logits are (positions, vocabulary)."""
        kept, self._kept = self._kept, Outputs()
        kept.logits = logits
        return kept

    def _select(
        self, module: torch.nn.Module, args: object, output: BaseModelOutput
    ) -> BaseModelOutput:
        if self._positions is None:
            return output
        hidden = output.last_hidden_state
        if self.arguments:
            self._kept = Outputs(output.hidden_states or [hidden], output.attentions or ())
            # In mixed precision all outputs of a model would be copied to fp32.
            output.hidden_states = output.attentions = None
        output.last_hidden_state = hidden.flatten(0, 1)[self._positions]
        return output


class MaskedLanguageModelTrainer(transformers.Trainer):
    """Trains a language model on a recipe's text.

    A subclass trains on another objective by overriding `micro_batch_loss`, and validates on it by
    overriding `prediction_loss`. Learned weights of an objective must be in modules of the model,
    so that they are updated, distributed over processes and saved in checkpoints.
    """

    control: TrainerControl

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: TrainingRecipe,
        tokenizer: WordPieceTokenizer,
        training: PackedText,
        validation: PackedText,
        needs: Needs | None = None,
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
        self.rows = RowSelection(model, needs)
        with setting_variable(ACCELERATE, "bf16" if args.bf16 else "fp16" if args.fp16 else "no"):
            super().__init__(
                model,
                args,
                train_dataset=self.batches,
                eval_dataset=ValidationBatches(validation, masking, device_batch),
                callbacks=[EndCallback()],
            )
        self.remove_callback(transformers.PrinterCallback)
        # The loss is a mean over all predicted pieces of a step, on all processes.
        self.model_accepts_loss_kwargs = True

    # --- Losses ---

    def micro_batch_loss(self, model: torch.nn.Module, inputs: Inputs, share: Tensor) -> Tensor:
        """The part of a micro-batch in the loss of its step, of whose pieces it has a share.

        The model may be a wrapper of `self.model` that exchanges gradients between processes.
        """
        return self.prediction_loss(model, inputs) * share

    def prediction_loss(self, model: torch.nn.Module, inputs: Inputs) -> Tensor:
        """Mean cross-entropy of a micro-batch's predicted pieces, in fp32."""
        extra = -inputs["labels"].numel() % _PREDICTED
        positions = functional.pad(inputs["positions"], (0, extra))
        labels = functional.pad(inputs["labels"], (0, extra), value=_IGNORED)
        with self.rows(positions):
            output = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        return functional.cross_entropy(output.logits.float(), labels)

    def perplexity(self, loss: float) -> float | None:
        """The perplexity of a validation loss; None in subclasses with another kind of loss."""
        try:
            return math.exp(loss)
        except OverflowError:
            return math.inf

    # --- Called by transformers' training loop ---

    def compute_loss(
        self, model: torch.nn.Module, inputs: Inputs, num_items_in_batch: Tensor
    ) -> Tensor:
        share = inputs["labels"].numel() / num_items_in_batch
        # Compensates for the averaging of gradients over processes: they should be summed.
        return self.micro_batch_loss(model, inputs, share) * self.args.world_size

    def training_step(self, model: torch.nn.Module, inputs: Inputs, *others: object) -> Tensor:
        # Dropout depends on the micro-batch, not on what this process has computed before.
        torch.manual_seed(inputs.pop("seed"))
        return super().training_step(model, inputs, *others)

    def autocast_smart_context_manager(
        self, cache_enabled: bool | None = True
    ) -> AbstractContextManager:
        # For the whole loss and on every device, so that all outputs have the same precision.
        return self.accelerator.autocast()

    def get_train_dataloader(self) -> DataLoader:
        first = self.first_step * self.batches.accumulation
        return self._loader(self.batches, _RemainingItems(first, len(self.batches)))

    def evaluate(self, ignore_keys: object = None) -> dict[str, float]:
        """Compute the loss, and the perplexity if there is one, on all processes together."""
        batches, step = self.eval_dataset, self.state.global_step
        rank, processes = self.args.process_index, self.args.world_size
        # All processes make the same number of calls; the last batch may be another process's.
        rounds = -(-len(batches) // processes)
        places = range(rank, rounds * processes, processes)
        total = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        self.model.eval()
        loader = self._loader(batches, [min(place, len(batches) - 1) for place in places])
        with torch.no_grad():
            for inputs, place in zip(loader, places, strict=True):
                inputs = self._prepare_inputs(inputs)
                with self.compute_loss_context_manager():
                    loss = self.prediction_loss(self.model, inputs)
                count = inputs["labels"].numel() * (place < len(batches))
                total += torch.stack([loss.double() * count, torch.full_like(total[0], count)])
        loss, count = self.accelerator.reduce(total).tolist()
        loss /= count
        if not math.isfinite(loss):
            problem = f"the loss on the validation text is not finite at step {step:,}; lower it"
            raise self.recipe.error("training.learning_rate", problem)
        metrics = {"eval_loss": loss, "eval_perplexity": self.perplexity(loss)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        sequences = self.state.global_step * self.batches.batch
        self.state.epoch = sequences / len(self.batches.text)
        super().log(logs, start_time)

    def _save_checkpoint(self, model: torch.nn.Module, trial: object) -> None:
        with without_warnings():
            super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            step, folder = self.state.global_step, Path(self.args.output_dir)
            (folder / f"checkpoint-{step}" / COMPLETE).touch()
            # `save_total_limit` goes by modification times, which are not reliable after copying.
            for old, path in find_checkpoints(folder).items():
                if old not in (step, self.state.best_global_step):
                    delete_directory(path)

    def _loader(self, batches: object, sampler: object) -> DataLoader:
        return DataLoader(
            batches,
            batch_size=None,
            sampler=sampler,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.device.type == "cuda",
        )

    # --- Called by users of the class ---

    def run(self) -> None:
        """Train, resuming from the last complete checkpoint if there is one."""
        checkpoints = find_checkpoints(Path(self.args.output_dir))
        self.first_step = max(checkpoints, default=0)
        checkpoint = checkpoints.get(self.first_step)
        # It warns of tied weights, which a checkpoint has once and the model uses twice.
        try:
            with without_warnings():
                self.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except torch.OutOfMemoryError as error:
            raise self.recipe.error(
                "training.device_batch",
                f"{self.batches.device_batch} sequences at once are too many for the memory of "
                f"{self.args.device}; give fewer",
            ) from error

    @property
    def best_checkpoint(self) -> Path:
        """The checkpoint with the lowest validation loss, in Hugging Face layout."""
        return find_checkpoints(Path(self.args.output_dir))[self.state.best_global_step]


class EndCallback(transformers.TrainerCallback):
    """Requests an evaluation after the last step, and a row of the log before each evaluation.

    So no row is about steps before and after a checkpoint.
    """

    def on_step_end(
        self, args: object, state: TrainerState, control: TrainerControl, **others: object
    ) -> TrainerControl:
        control.should_evaluate |= state.global_step >= state.max_steps
        control.should_log |= control.should_evaluate
        return control


class _RemainingItems(Sampler):
    """Items from `first` on; its length is of all items, as the training loop expects."""

    def __init__(self, first: int, end: int):
        self.first, self.end = first, end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.end))

    def __len__(self) -> int:
        return self.end


def keep_in_bf16(model: PreTrainedModel) -> None:
    """Make autocast on a CPU keep hidden states in bf16 from the embeddings on.

    It would add and normalise them in fp32, and cast them for every matrix product.
    """
    embeddings = getattr(model.base_model, "embeddings", None)
    if embeddings is not None:
        embeddings.register_forward_hook(lambda module, args, output: output.to(torch.bfloat16))


def training_arguments(recipe: TrainingRecipe, steps: int) -> TrainingArguments:
    """Convert a recipe's [training], which has been checked, to arguments of `Trainer`."""
    settings = {
        "optim": "adamw_torch_fused",
        "report_to": "none",
        "logging_steps": max(recipe.training.evaluate_every // 10, 1),
        "use_cpu": not torch.cuda.is_available(),
        **recipe.training.arguments,
        **_fixed_arguments(recipe, steps),
    }
    # A GPU must not wait for batches; on a CPU making them takes a hundredth of a step.
    settings.setdefault("dataloader_num_workers", 0 if settings["use_cpu"] else 4)
    device = torch.device("cpu" if settings["use_cpu"] else "cuda")
    precision = resolve_precision(recipe.training.precision, device)
    try:
        # transformers sets the variable too.
        with setting_variable(ACCELERATE, "no" if precision == "fp32" else precision):
            args = TrainingArguments(**settings, bf16=precision == "bf16", fp16=precision == "fp16")
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise recipe.error("training.arguments", f"transformers refuses them: {reason}") from error
    # One process on several GPUs would use DataParallel, which copies the model without its hooks.
    args._n_gpu = min(args.n_gpu, 1)
    return args


def check_arguments(recipe: TrainingRecipe) -> None:
    """Refuse settings in [training.arguments] that are unknown, or that others determine."""
    fixed = {*_fixed_arguments(recipe, steps=1), "bf16", "fp16"}
    known = {field.name for field in fields(TrainingArguments) if field.init} - fixed
    for name in recipe.training.arguments:
        if name not in known:
            problem = (
                "follows from other settings" if name in fixed else "no argument of transformers"
            )
            advice = advise_on_name(name, known)
            raise recipe.error(f"training.arguments.{name}", f"{problem}; {advice}")


def _fixed_arguments(recipe: TrainingRecipe, steps: int) -> dict[str, object]:
    """The arguments that follow from other settings of the recipe, or must not change."""
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
    """The `device_batch`, or a number that suits the device and divides a process's sequences."""
    settings = recipe.training
    share, rest = divmod(settings.batch, processes)
    if rest or share % (settings.device_batch or 1):
        raise recipe.error(
            "training.device_batch" if settings.device_batch else "training.batch",
            f"{settings.batch} sequences of a step cannot be spread evenly over processes "
            f"({processes}) in device batches of {settings.device_batch or 1}; change one of them",
        )
    if settings.device_batch:
        return settings.device_batch
    pieces = _CPU_PIECES if device.type == "cpu" else _GPU_PIECES
    wanted = max(pieces // recipe.packing.length, 1)
    return next(size for size in range(min(wanted, share), 0, -1) if share % size == 0)


def find_checkpoints(directory: Path) -> dict[int, Path]:
    """The complete checkpoints of a run, by step."""
    complete = [path.parent for path in directory.glob(f"checkpoint-*/{COMPLETE}")]
    return {int(path.name.rpartition("-")[2]): path for path in complete}
