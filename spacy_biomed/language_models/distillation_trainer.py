"""Training of a student by what a teacher computes on the same batches."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForMaskedLM,
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from ..encoders.batching.word_pieces import WordPieceTokenizer
from .objectives import Needs, Objective, Outputs
from .objectives.objective import Terms
from .packed_sequences import PackedText
from .progress import RunLog
from .recipe import TrainingRecipe
from .trainer import Inputs, MaskedLanguageModelTrainer, RowSelection

# Before the name of a term in what the trainer logs.
_TERM = "term_"


class DistillationTrainer(MaskedLanguageModelTrainer):
    """Trains a student on an objective; see `MaskedLanguageModelTrainer`.

    The objective becomes a module of the student while it is trained, so that its projections are
    trained and kept in checkpoints too. The teacher computes without gradients, in the training's
    number format.

    In the loss of a step, means over other positions than the predicted ones are weighted like
    those, by how many pieces each micro-batch predicts; masking predicts nearly the same share of
    every batch.

    Validation is masked language modelling, unless the objective takes no distributions: then the
    student's head learns nothing, and validation is the objective itself.

    Attributes:
        student, teacher: models for masked language modelling with the same vocabulary, from
            `show_attention` if the objective compares attention maps.
    """

    def __init__(
        self,
        student: PreTrainedModel,
        teacher: PreTrainedModel,
        objective: Objective,
        recipe: TrainingRecipe,
        tokenizer: WordPieceTokenizer,
        training: PackedText,
        validation: PackedText,
        callbacks: Iterable[TrainerCallback] = (),
    ):
        needs = objective.needs
        self.objective = objective
        self.student_view = ModelView(student, needs)
        # The teacher's outputs, what is no padding, and labels, while a student is compared.
        self._compared_with: tuple[Outputs, Tensor, Tensor] | None = None
        student.add_module("objective", objective)
        student.register_forward_hook(self._compare)
        super().__init__(student, recipe, tokenizer, training, validation, callbacks)
        teacher.eval().requires_grad_(False).to(self.args.device, _number_format(self.args))
        self.teacher = teacher
        self.teacher_view = ModelView(teacher, needs)
        self._sums: Terms = {}
        self._count = 0

    def micro_batch_loss(self, model: torch.nn.Module, inputs: Inputs) -> Tensor:
        loss, terms = self._distillation_loss(model, inputs)
        count = inputs["labels"].numel()
        for name, term in terms.items():
            self._sums[name] = self._sums.get(name, 0.0) + term * count
        self._count += count
        return loss

    def prediction_loss(self, model: torch.nn.Module, inputs: Inputs) -> Tensor:
        if self.objective.needs.logits == "none":
            return self._distillation_loss(model, inputs)[0]
        return super().prediction_loss(model, inputs)

    def perplexity(self, loss: float) -> float | None:
        return None if self.objective.needs.logits == "none" else super().perplexity(loss)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Beside the loss, its terms: their means since the last time."""
        if "loss" in logs and self._count:
            count = torch.tensor(self._count, device=self.args.device)
            totals = torch.stack([*self._sums.values(), count]).double()
            *sums, count = self.accelerator.reduce(totals).tolist()
            names = (_TERM + name for name in self._sums)
            logs |= {name: total / count for name, total in zip(names, sums, strict=True)}
            self._sums, self._count = {}, 0
        super().log(logs, start_time)

    def _distillation_loss(self, model: torch.nn.Module, inputs: Inputs) -> tuple[Tensor, Terms]:
        needs = self.objective.needs
        positions = _positions(needs, inputs)
        text = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        teacher = self._teach(text, positions if needs.teacher_logits else positions[:0])
        with self.student_view(positions) as view:
            self._compared_with = teacher, text["attention_mask"].bool(), inputs["labels"]
            try:
                output = model(**text, **view.arguments)
            finally:
                self._compared_with = None
        return output["loss"], output["terms"]

    def _teach(self, text: Inputs, positions: Tensor) -> Outputs:
        # Its weights have the number format already: autocast would cast them again each time.
        with torch.no_grad(), torch.autocast(self.args.device.type, enabled=False):
            with self.teacher_view(positions) as view:
                output = self.teacher(**text, **view.arguments)
            return view.outputs(output.logits)

    def _compare(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        """Take the loss inside the student's forward pass, in place of its outputs.

        Processes exchange the gradients of what the outputs of a forward pass depend on: that is
        all parameters of the loss, the projections among them, and not a head without use.
        """
        if self._compared_with is None:
            return output
        student = self.student_view.outputs(output.logits)
        loss, terms = self.objective(student, *self._compared_with)
        return {"loss": loss, "terms": {name: term.detach() for name, term in terms.items()}}


class ModelView:
    """What an objective compares of a model, taken from its forward pass.

    Attributes:
        model: for masked language modelling.
        needs: of the objective.
    """

    def __init__(self, model: PreTrainedModel, needs: Needs):
        self.arguments = {
            "output_hidden_states": needs.hidden_states == "all",
            "output_attentions": needs.attentions,
        }
        self._only_last = needs.hidden_states == "last"
        self._is_open = False
        self._kept = Outputs()
        # Before the rows are selected: hidden states are compared at all positions.
        model.base_model.register_forward_hook(self._keep)
        self._rows = RowSelection(model)

    @contextmanager
    def __call__(self, positions: Tensor) -> Iterator[ModelView]:
        """Within the context, a call of the model with `arguments` is looked at.

        Args:
            positions: (positions,) places in the flattened batch that logits are computed at.
        """
        self._is_open = True
        try:
            with self._rows(positions):
                yield self
        finally:
            self._is_open = False

    def outputs(self, logits: Tensor) -> Outputs:
        """What the last call gave, once.

        Args:
            logits: (positions, vocabulary), of that call.
        """
        kept, self._kept = self._kept, Outputs()
        kept.logits = logits
        return kept

    def _keep(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        if not self._is_open:
            return output
        if self._only_last:
            self._kept = Outputs(hidden_states=[output.last_hidden_state])
        else:
            self._kept = Outputs(output.hidden_states or (), output.attentions or ())
        # In mixed precision whatever a model returns is copied in fp32.
        output.hidden_states = output.attentions = None
        return output


class TermLog(RunLog):
    """A log whose rows of training say the terms of the objective as well, without weights."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float],
        **others: Any,
    ) -> None:
        self._terms = {
            name.removeprefix(_TERM): value
            for name, value in logs.items()
            if name.startswith(_TERM)
        }
        super().on_log(args, state, control, logs, **others)

    def _write(self, state: TrainerState, **values: Any) -> dict[str, Any]:
        if "loss" in values:
            values["terms"] = self._terms
        return super()._write(state, **values)


def show_attention(model: PreTrainedModel) -> PreTrainedModel:
    """The same model, able to give the attention maps that it computes with.

    Fused kernels keep no maps, and what transformers returns has gone through dropout: rows with
    zeros that do not sum to 1. So attention is computed by plain products without dropout. The
    config, and with it what is saved, keeps its dropout.
    """
    config = copy.deepcopy(model.config)
    rates = ("attention_probs_dropout_prob", "attention_dropout")
    names = [name for name in rates if hasattr(config, name)]
    for name in names:
        setattr(config, name, 0.0)
    shown = AutoModelForMaskedLM.from_config(
        config, trust_remote_code=False, attn_implementation="eager"
    )
    shown.load_state_dict(model.state_dict())
    for name in names:
        setattr(shown.config, name, getattr(model.config, name))
    return shown


def _positions(needs: Needs, inputs: Inputs) -> Tensor:
    """Places in the flattened batch that distributions are compared at."""
    if needs.logits == "attended":
        return inputs["attention_mask"].flatten().nonzero().squeeze(1)
    return inputs["positions"] if needs.logits == "masked" else inputs["positions"][:0]


def _number_format(args: TrainingArguments) -> torch.dtype:
    if args.bf16:
        return torch.bfloat16
    return torch.float16 if args.fp16 else torch.float32
