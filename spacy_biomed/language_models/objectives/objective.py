"""The base class of distillation objectives: the outputs they need, and their loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor, nn

from ...errors import BiomedError
from .terms import (
    cosine_distance,
    label_cross_entropy,
    soft_target_cross_entropy,
    soft_target_divergence,
    squared_error,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Terms = dict[str, Tensor]

# Compares outputs of student and teacher at the attended positions.
Comparison = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of an encoder: number of layers, width of hidden states, attention heads."""

    layers: int
    width: int
    heads: int

    @classmethod
    def of(cls, model: PreTrainedModel) -> Shape:
        """The shape of a model of transformers."""
        config = model.config
        return cls(config.num_hidden_layers, config.hidden_size, config.num_attention_heads)


@dataclass(frozen=True, slots=True)
class Needs:
    """The outputs that an objective uses, so that nothing else is computed.

    Attributes:
        logits: positions with vocabulary distributions: none, the positions chosen by masking, or
            all except padding.
        teacher_logits: whether it also uses the teacher's distributions, which then needs a
            language-model head.
        hidden_states: none, of the last layer, or of all layers.
        attentions: whether it uses attention maps.
    """

    logits: Literal["none", "masked", "attended"] = "none"
    teacher_logits: bool = False
    hidden_states: Literal["none", "last", "all"] = "none"
    attentions: bool = False


# By the names of terms. No objective has terms that use different positions or layers.
_USED_OUTPUTS: dict[str, dict[str, object]] = {
    "mlm": {"logits": "masked"},
    "soft_mlm": {"logits": "masked", "teacher_logits": True},
    "output": {"logits": "attended", "teacher_logits": True},
    "align": {"hidden_states": "last"},
    "embedding": {"hidden_states": "all"},
    "hidden_states": {"hidden_states": "all"},
    "attentions": {"attentions": True},
}


@dataclass(slots=True)
class Outputs:
    """The outputs of an encoder for a batch.

    Attributes:
        hidden_states: (batch, length, width) each; of all layers, starting with the embeddings, or
            only of the last layer.
        attentions: (batch, heads, length, length) for each layer, after softmax and before dropout;
            row n has the attention of position n to all positions.
        logits: (positions, vocabulary) at the positions that the objective needs, in the batch's
            order.
    """

    hidden_states: Sequence[Tensor] = field(default_factory=tuple)
    attentions: Sequence[Tensor] = field(default_factory=tuple)
    logits: Tensor | None = None


class Objective(nn.Module):
    """A distillation loss: a weighted sum of terms, with learned projections.

    A term with the weight 0 is left out, and the outputs that only it needs are not computed.

    Attributes:
        temperature: of the distributions that `soft_mlm` compares.
        layer_map: for each layer of the student the teacher's that it is compared with.
        layer_weights: of the student's layers; None for 1 each.
        compare_states, compare_attentions: the functions that compare two layers.

    Raises:
        BiomedError: if a weight is below 0, or all are 0.
    """

    temperature: float = 1.0
    layer_map: Sequence[int] = ()
    layer_weights: Sequence[float] | None = None
    compare_states: ClassVar[Comparison]
    compare_attentions: ClassVar[Comparison]

    def __init__(self, student: Shape, teacher: Shape, weights: dict[str, float]):
        super().__init__()
        for name, weight in weights.items():
            if weight < 0:
                raise BiomedError(f"the weight of {name} is {weight}; give 0 or more")
        if not any(weights.values()):
            raise BiomedError("all weights are 0; give one of them a value above 0")
        self.student = student
        self.teacher = teacher
        self.weights = {name: weight for name, weight in weights.items() if weight}
        if "embedding" in self.weights:
            self.project_embeddings = self._create_projection()
        if self.weights.keys() & {"align", "hidden_states"}:
            self.project = self._create_projection()

    @property
    def needs(self) -> Needs:
        """The outputs that the terms with a weight use; to override for terms of other names."""
        used: dict[str, Any] = {}
        for name in self.weights:
            used |= _USED_OUTPUTS[name]
        return Needs(**used)

    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
        """The terms that have a weight, not multiplied by it; arguments are as in `forward`."""
        terms: Terms = {}
        if "mlm" in self.weights:
            terms["mlm"] = label_cross_entropy(student.logits, labels)
        if "soft_mlm" in self.weights:
            terms["soft_mlm"] = soft_target_divergence(
                student.logits, teacher.logits, self.temperature
            )
        if "align" in self.weights:
            states = self.project(student.hidden_states[-1])
            terms["align"] = cosine_distance(states, teacher.hidden_states[-1], attended)
        if "embedding" in self.weights:
            embeddings = self.project_embeddings(student.hidden_states[0])
            terms["embedding"] = squared_error(embeddings, teacher.hidden_states[0], attended)
        if "hidden_states" in self.weights:
            terms |= self.compare_layers(student, teacher, attended)
        if "output" in self.weights:
            terms["output"] = soft_target_cross_entropy(student.logits, teacher.logits)
        return terms

    def forward(
        self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor
    ) -> tuple[Tensor, Terms]:
        """Compare the outputs of the two encoders for one batch.

        Args:
            attended: (batch, length), false for padding.
            labels: (masked,) the word pieces at the positions chosen by masking, in the batch's
                order.

        Returns:
            the weighted sum, and the unweighted terms.
        """
        terms = self.terms(student, teacher, attended.bool(), labels)
        return sum(self.weights[name] * term for name, term in terms.items()), terms

    def compare_layers(self, student: Outputs, teacher: Outputs, attended: Tensor) -> Terms:
        """The terms `hidden_states` and `attentions`: sums over the layers of the student.

        A layer with the weight 0 is left out. Arguments are as in `forward`.
        """
        terms: Terms = {"hidden_states": 0.0, "attentions": 0.0}
        compare = type(self)
        weights = self.layer_weights or [1.0] * self.student.layers
        for layer, (target, weight) in enumerate(zip(self.layer_map, weights, strict=True), 1):
            if weight:
                states = self.project(student.hidden_states[layer])
                terms["hidden_states"] += weight * compare.compare_states(
                    states, teacher.hidden_states[target], attended
                )
                terms["attentions"] += weight * compare.compare_attentions(
                    student.attentions[layer - 1], teacher.attentions[target - 1], attended
                )
        return terms

    def _create_projection(self) -> nn.Module:
        """A learned linear map from the student's width to the teacher's, without bias.

        It is the identity if the widths are the same. The papers' equations have no bias.
        """
        if self.student.width == self.teacher.width:
            return nn.Identity()
        return nn.Linear(self.student.width, self.teacher.width, bias=False)
