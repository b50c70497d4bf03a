"""The base class of distillation objectives: the outputs they need, and their loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from ...errors import BiomedError

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
_USED_OUTPUTS: dict[str, dict[str, Any]] = {
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


class Objective(nn.Module, ABC):
    """A distillation loss: a weighted sum of terms, with learned projections.

    A term with the weight 0 is left out, and the outputs that only it needs are not computed.

    Attributes:
        student, teacher: the shapes of the two encoders.
        weights: the weight of each term.

    Raises:
        BiomedError: if a weight is below 0, or all are 0.
    """

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

    @property
    def needs(self) -> Needs:
        """The outputs that the terms with a weight use; to override for terms of other names."""
        used: dict[str, Any] = {}
        for name in self.weights:
            used |= _USED_OUTPUTS[name]
        return Needs(**used)

    @abstractmethod
    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
        """The terms that have a weight, not multiplied by it; arguments are as in `forward`."""

    def forward(
        self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor
    ) -> tuple[Tensor, Terms]:
        """Compare the outputs of the two encoders for one batch.

        Args:
            student, teacher: the outputs.
            attended: (batch, length), false for padding.
            labels: (masked,) the word pieces at the positions chosen by masking, in the batch's
                order.

        Returns:
            the weighted sum, and the unweighted terms.
        """
        terms = self.terms(student, teacher, attended.bool(), labels)
        return sum(self.weights[name] * term for name, term in terms.items()), terms

    def compare_layers(
        self,
        student: Outputs,
        teacher: Outputs,
        attended: Tensor,
        *,
        states: Comparison,
        attentions: Comparison,
        weights: Sequence[float] | None = None,
    ) -> Terms:
        """The terms `hidden_states` and `attentions`: sums over the layers of the student.

        The hidden states of the student are projected by `self.project`, and its layers are mapped
        by `self.layer_map`.

        Args:
            student, teacher, attended: as in `forward`.
            states, attentions: the functions that compare two layers.
            weights: of the layers; 1 each by default. A layer with the weight 0 is left out.
        """
        terms = {"hidden_states": 0.0, "attentions": 0.0}
        pairs = zip(self.layer_map, weights or [1.0] * self.student.layers, strict=True)
        for layer, (target, weight) in enumerate(pairs, start=1):
            if weight:
                terms["hidden_states"] += weight * states(
                    self.project(student.hidden_states[layer]),
                    teacher.hidden_states[target],
                    attended,
                )
                terms["attentions"] += weight * attentions(
                    student.attentions[layer - 1], teacher.attentions[target - 1], attended
                )
        return terms

    def projection(self) -> nn.Module:
        """A learned linear map from the student's width to the teacher's, without bias.

        It is the identity if the widths are the same. The papers' equations have no bias.
        """
        if self.student.width == self.teacher.width:
            return nn.Identity()
        return nn.Linear(self.student.width, self.teacher.width, bias=False)
