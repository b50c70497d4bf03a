"""Task-agnostic distillation, from a teacher to an encoder directory: `spacy biomed distill`."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from accelerate import PartialState
from rich.console import Console
from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedModel
from transformers.modeling_outputs import ModelOutput

from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..errors import BiomedError
from .initialization import ATTENTION_DROPOUT, check_positions, load_language_model
from .objectives import Objective, Outputs, Shape
from .objectives.objective import Terms, check_layers, map_layers
from .packed_sequences import PackedText
from .recipe import DistillationRecipe
from .run_folders import RunReport, claim_text, open_run, short_name, start_processes, train
from .trainer import TERM, Inputs, MaskedLanguageModelTrainer, RowSelection

# The setting for the inner width of feed-forward layers, for types with just these four sizes.
_FEED_FORWARD = {
    "bert": "intermediate_size",
    "roberta": "intermediate_size",
    "xlm-roberta": "intermediate_size",
    "distilbert": "hidden_dim",
}
_NUMBER_FORMATS = {"no": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def distill(recipe: DistillationRecipe, console: Console | None = None) -> RunReport | None:
    """Train a student as described by a recipe, resuming from the last checkpoint if there is one.

    Arguments, result and errors are those of `pretraining.pretrain`.
    """
    state = start_processes(recipe)
    console = console if state.is_main_process else None
    with open_run(recipe, state) as partial:
        with state.main_process_first():
            tokenizer, student, teacher, objective = prepare_models(recipe, state)
            training, validation = claim_text(recipe, tokenizer, state, console)
        trainer = DistillationTrainer(
            student, teacher, objective, recipe, tokenizer, training, validation
        )
        return train(trainer, tokenizer, describe(recipe, objective), partial, console)


def prepare_models(
    recipe: DistillationRecipe, state: PartialState
) -> tuple[WordPieceTokenizer, PreTrainedModel, PreTrainedModel, Objective]:
    """Load or create the student's tokenizer, the student, the teacher and the objective."""
    on_cpu = state.device.type == "cpu"
    tokenizer, teacher, has_new_head = load_language_model(
        recipe.teacher.name, recipe.teacher.revision, on_cpu=on_cpu
    )
    tokenizer, student = prepare_student(recipe, tokenizer, teacher, on_cpu=on_cpu)
    check_positions(recipe, teacher, "teacher")
    check_positions(recipe, student, "student")
    objective = recipe.create_objective(Shape.of(student), Shape.of(teacher))
    if has_new_head and objective.needs.teacher_logits:
        raise recipe.error(
            "teacher.name",
            "has no head for masked language modelling, so it has no distributions to learn "
            f"from; set objective.{logits_setting(objective)} = 0, or take another teacher",
        )
    if objective.needs.attentions:
        student, teacher = show_attention(student), show_attention(teacher)
    for setting, model in (("teacher.name", teacher), ("student", student)):
        if not shows_layers(model, objective.needs.attentions):
            raise recipe.error(
                setting,
                f"encoders of type {model.config.model_type} do not show the states or the "
                "attention of their layers as BERT does; take another encoder or objective",
            )
    return tokenizer, student, teacher, objective


def prepare_student(
    recipe: DistillationRecipe,
    tokenizer: WordPieceTokenizer,
    teacher: PreTrainedModel,
    *,
    on_cpu: bool = False,
) -> tuple[WordPieceTokenizer, PreTrainedModel]:
    """Load or create the untrained student of a recipe, and its tokenizer."""
    section = recipe.student
    if section.name is not None:
        loaded, student, _ = load_language_model(section.name, section.revision, on_cpu=on_cpu)
        # All terms compare the two position by position, and their distributions entry by entry.
        mine, theirs = (
            (one.tokenizer.get_vocab(), one.prefix, one.suffix, model.config.vocab_size)
            for one, model in ((loaded, student), (tokenizer, teacher))
        )
        if mine != theirs:
            raise recipe.error(
                "student.name",
                f"its vocabulary is not the teacher's ({mine[-1]:,} rows in its embedding table, "
                f"and {theirs[-1]:,}); take a student with the teacher's, or give it layers",
            )
        return loaded, student
    try:
        if section.width is None:
            layers = section.teacher_layers or section.layers
            student = take_layers(teacher, cast("int | list[int]", layers))
        else:
            shape = section.model_dump(include={"layers", "width", "heads", "feed_forward"})
            student = create_smaller(teacher, **shape, seed=recipe.training.seed)
    except BiomedError as error:
        raise recipe.error("student", str(error)) from error
    return tokenizer, student


def describe(recipe: DistillationRecipe, objective: Objective) -> str:
    """A description of how a student was trained, for its model card."""
    section = recipe.student
    if section.name is not None:
        start = f"as {short_name(section.name)}"
    elif section.width is not None:
        start = "with random weights"
    else:
        taken = section.teacher_layers or map_layers(
            objective.student.layers, objective.teacher.layers
        )
        start = f"as layers {', '.join(map(str, taken))} of the teacher, with its embeddings"
    weights = " + ".join(f"{weight:g} × {name}" for name, weight in objective.weights.items())
    parts = [
        f"Distilled from {short_name(recipe.teacher.name)} with the objective "
        f"`{recipe.objective.name}`: {weights}. The student began {start}."
    ]
    if objective.needs.logits == "none":
        parts.append(
            "The objective takes no vocabulary distributions, so the language-model head has not "
            "been trained."
        )
    return " ".join(parts)


def logits_setting(objective: Objective) -> str:
    """The setting with the weight of the objective's one term with the teacher's distributions."""
    [term] = objective.weights.keys() & {"soft_mlm", "output"}
    return f"{term}_weight"


def take_layers(teacher: PreTrainedModel, layers: int | Sequence[int]) -> PreTrainedModel:
    """Copy some of the teacher's layers, its embeddings, and its head if it has one.

    The initialisation of Sanh et al. 2019, "DistilBERT".

    Args:
        teacher: a model whose layers are named as in BERT, RoBERTa or DistilBERT.
        layers: indices of the teacher's layers, from 1, or their number. A number selects every
            k-th layer including the last, the layers of the default layer map.

    Returns:
        a model of the teacher's class and width, with copied weights.

    Raises:
        BiomedError: if the teacher does not have these layers, or its layers cannot be identified.
    """
    depth = teacher.config.num_hidden_layers
    if isinstance(layers, int):
        if not 1 <= layers <= depth:
            raise BiomedError(
                f"layers = {layers}: the student takes its layers from the teacher, which has "
                f"{depth}; give 1 to {depth}"
            )
        layers = map_layers(layers, depth)
    if not layers:
        raise BiomedError("teacher_layers = []: name at least one layer of the teacher")
    check_layers("teacher_layers", layers, depth)
    student = copy.deepcopy(teacher)
    base = student.base_model
    stack: Any = getattr(base, "encoder", getattr(base, "transformer", None))
    try:
        stack.layer = torch.nn.ModuleList(copy.deepcopy(stack.layer[i - 1]) for i in layers)
        student.config.num_hidden_layers = len(layers)
        with torch.random.fork_rng(devices=[]):  # as it will be loaded
            type(student)(student.config).load_state_dict(student.state_dict())
    except Exception as error:  # each type of model raises its own
        raise BiomedError(
            f"teacher of type {teacher.config.model_type}: its layers cannot be taken apart; give "
            "as the student's name an encoder with the teacher's vocabulary"
        ) from error
    return student


def create_smaller(
    teacher: PreTrainedModel,
    *,
    layers: int,
    width: int,
    heads: int,
    feed_forward: int | None = None,
    seed: int = 0,
) -> PreTrainedModel:
    """Create a model of the teacher's class and vocabulary in another shape, with random weights.

    All other settings (activation, dropout, positions) are the teacher's.

    Args:
        feed_forward: inner width of the feed-forward layers; four times `width` by default.

    Raises:
        BiomedError: if the heads do not divide the width, or if the teacher's type is not supported
            because its shape has further sizes.
    """
    if width % heads:
        raise BiomedError(f"width {width} is not a multiple of {heads} heads: change one of them")
    config = copy.deepcopy(teacher.config)
    if config.model_type not in _FEED_FORWARD:
        raise BiomedError(
            f"teacher of type {config.model_type}: only students of {', '.join(_FEED_FORWARD)} can "
            "have another shape; take layers of the teacher, or an encoder"
        )
    config.num_hidden_layers = layers
    config.hidden_size = width
    config.num_attention_heads = heads
    setattr(config, _FEED_FORWARD[config.model_type], feed_forward or 4 * width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return type(teacher)(config)


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


def shows_layers(model: PreTrainedModel, attentions: bool) -> bool:
    """Whether a model gives the hidden states and, if wanted, the attention maps of all layers."""
    shape, ids = Shape.of(model), torch.full((1, 5), model.config.vocab_size - 1)
    wanted = [(shape.layers + 1, 1, 5, shape.width), (shape.layers, 1, shape.heads, 5, 5)]
    try:
        with torch.no_grad():
            output = model(ids, output_hidden_states=True, output_attentions=attentions)
        shown = [output.hidden_states, *([output.attentions] if attentions else [])]
        return [torch.stack(one).shape for one in shown] == wanted[: len(shown)]
    except Exception:  # each type of model raises its own
        return False


class DistillationTrainer(MaskedLanguageModelTrainer):
    """Trains a student on an objective, which is a module of the student in training.

    Validation is masked language modelling, or, if the objective uses no distributions and the
    student's head is not trained, the objective itself.
    """

    def __init__(
        self,
        student: PreTrainedModel,
        teacher: PreTrainedModel,
        objective: Objective,
        recipe: DistillationRecipe,
        tokenizer: WordPieceTokenizer,
        training: PackedText,
        validation: PackedText,
    ):
        self.objective = objective
        # What the objective compares the student's outputs with, during its forward pass.
        self._compared_with: tuple[Outputs, Tensor, Tensor, Mapping[str, Tensor] | None] | None
        self._compared_with = None
        student.add_module("objective", objective)
        student.register_forward_hook(self._compare)
        super().__init__(student, recipe, tokenizer, training, validation, objective.needs)
        teacher.eval().requires_grad_(False)
        teacher.to(self.args.device, _NUMBER_FORMATS[self.accelerator.mixed_precision])
        self.teacher = teacher
        self.teacher_rows = RowSelection(teacher, objective.needs)
        self._sums: Terms = {}
        self._steps: Tensor | float = 0.0

    def micro_batch_loss(self, model: torch.nn.Module, inputs: Inputs, share: Tensor) -> Tensor:
        lengths = inputs["attention_mask"].sum(dim=1)
        positions, pairs = torch.stack([lengths.sum(), lengths.square().sum()]) / inputs["whole"]
        shares = {"labels": share, "positions": positions, "pairs": pairs}
        loss, terms = self._distillation_loss(model, inputs, shares)
        for name, term in terms.items():
            self._sums[name] = self._sums.get(name, 0.0) + term
        self._steps += share
        return loss

    def prediction_loss(self, model: torch.nn.Module, inputs: Inputs) -> Tensor:
        if self.objective.needs.logits == "none":
            return self._distillation_loss(model, inputs)[0]
        return super().prediction_loss(model, inputs)

    def perplexity(self, loss: float) -> float | None:
        return None if self.objective.needs.logits == "none" else super().perplexity(loss)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the means of the terms since the last call together with the loss."""
        if "loss" in logs and self._sums:
            steps = torch.as_tensor(self._steps, device=self.args.device)
            totals = torch.stack([*self._sums.values(), steps]).double()
            *sums, steps = self.accelerator.reduce(totals).tolist()
            names = (TERM + name for name in self._sums)
            logs |= {name: total / steps for name, total in zip(names, sums, strict=True)}
            self._sums, self._steps = {}, 0.0
        super().log(logs, start_time)

    def _distillation_loss(
        self, model: torch.nn.Module, inputs: Inputs, shares: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, Terms]:
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
            attended = text["attention_mask"].bool()
            self._compared_with = teacher, attended, inputs["labels"], shares
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
