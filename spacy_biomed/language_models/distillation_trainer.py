"""Training of a student on the outputs of a teacher for the same batches."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedModel
from transformers.modeling_outputs import ModelOutput

from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from .initialization import ATTENTION_DROPOUT
from .objectives import Objective, Outputs
from .objectives.objective import Terms
from .packed_sequences import PackedText
from .recipe import TrainingRecipe
from .trainer import TERM, Inputs, MaskedLanguageModelTrainer, RowSelection

_NUMBER_FORMATS = {"no": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class DistillationTrainer(MaskedLanguageModelTrainer):
    """Trains a student on an objective, which is a module of the student in training.

    In the loss of a step, micro-batches are weighted by their number of predicted pieces, also for
    means over other positions. This is nearly exact, because masking predicts nearly the same share
    of each micro-batch.

    Validation is masked language modelling. But if the objective uses no distributions, the
    student's head is not trained, and validation is the objective itself.
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
    ):
        self.objective = objective
        # The teacher's outputs, the attention mask and the labels, during a student's forward pass.
        self._compared_with: tuple[Outputs, Tensor, Tensor] | None = None
        student.add_module("objective", objective)
        student.register_forward_hook(self._compare)
        super().__init__(student, recipe, tokenizer, training, validation, objective.needs)
        teacher.eval().requires_grad_(False)
        teacher.to(self.args.device, _NUMBER_FORMATS[self.accelerator.mixed_precision])
        self.teacher = teacher
        self.teacher_rows = RowSelection(teacher, objective.needs)
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
        """Log the means of the terms since the last call together with the loss."""
        if "loss" in logs and self._count:
            count = torch.tensor(self._count, device=self.args.device)
            totals = torch.stack([*self._sums.values(), count]).double()
            *sums, count = self.accelerator.reduce(totals).tolist()
            names = (TERM + name for name in self._sums)
            logs |= {name: total / count for name, total in zip(names, sums, strict=True)}
            self._sums, self._count = {}, 0
        super().log(logs, start_time)

    def _distillation_loss(self, model: torch.nn.Module, inputs: Inputs) -> tuple[Tensor, Terms]:
        needs = self.objective.needs
        # The places in the flattened batch at which distributions are compared.
        positions = inputs["positions"] if needs.logits == "masked" else inputs["positions"][:0]
        if needs.logits == "attended":
            positions = inputs["attention_mask"].flatten().nonzero().squeeze(1)
        text = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        taught = positions if needs.teacher_logits else positions[:0]
        # Its weights are already in the number format; autocast would cast them again each time.
        uncast = torch.autocast(self.args.device.type, enabled=False)
        with torch.no_grad(), uncast, self.teacher_rows(taught):
            output = self.teacher(**text, **self.teacher_rows.arguments)
        teacher = self.teacher_rows.outputs(output.logits)
        with self.rows(positions):
            self._compared_with = teacher, text["attention_mask"].bool(), inputs["labels"]
            try:
                output = model(**text, **self.rows.arguments)
            finally:
                self._compared_with = None
        return output["loss"], output["terms"]

    def _compare(
        self, module: torch.nn.Module, args: object, output: ModelOutput
    ) -> ModelOutput | dict[str, object]:
        """Compute the loss in the student's forward pass, and return it instead of the outputs.

        Processes exchange the gradients of the parameters that the forward pass's outputs depend
        on. So these are exactly the parameters of the loss, including the projections, and not
        those of an unused head.
        """
        if self._compared_with is None:
            return output
        student = self.rows.outputs(output.logits)
        loss, terms = self.objective(student, *self._compared_with)
        return {"loss": loss, "terms": {name: term.detach() for name, term in terms.items()}}


def show_attention(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of a model that can return its attention maps.

    Fused kernels keep no maps, and transformers returns maps after dropout, whose rows have zeros
    and do not sum to 1. So the copy computes attention by plain matrix products without dropout.
    The copy's config, which is saved with it, keeps the dropout.
    """
    config = copy.deepcopy(model.config)
    names = [name for name in ATTENTION_DROPOUT if hasattr(config, name)]
    for name in names:
        setattr(config, name, 0.0)
    shown = AutoModelForMaskedLM.from_config(
        config, trust_remote_code=False, attn_implementation="eager"
    )
    shown.load_state_dict(model.state_dict())
    for name in names:
        setattr(shown.config, name, getattr(model.config, name))
    return shown
