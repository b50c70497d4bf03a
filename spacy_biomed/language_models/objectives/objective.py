"""What the distillation objectives share: what they compare, what they need, and their loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from ...errors import BiomedError

Terms = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """What an objective has to know of an encoder: layers, width of hidden states, heads."""

    layers: int
    width: int
    heads: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What an objective compares, so that nothing else is computed.

    Attributes:
        logits: at which positions it takes vocabulary distributions: none, those that masking
            chose, or all that are no padding.
        teacher_logits: whether it takes the teacher's too, for which that needs a language-model
            head.
        hidden_states: none, the last layer's, or all layers'.
        attentions: whether it compares attention maps.
    """

    logits: Literal["none", "masked", "attended"] = "none"
    teacher_logits: bool = False
    hidden_states: Literal["none", "last", "all"] = "none"
    attentions: bool = False


@dataclass(slots=True)
class Outputs:
    """What one encoder computed for a batch.

    Attributes:
        hidden_states: (batch, length, width) each; of all layers, the embeddings' first, or of the
            last layer alone.
        attentions: (batch, heads, length, length) each, after softmax and before dropout; row n
            holds what position n attends to. One for each layer.
        logits: (positions, vocabulary) at the positions that the objective needs, in the batch's
            order.
    """

    hidden_states: Sequence[Tensor] = field(default_factory=tuple)
    attentions: Sequence[Tensor] = field(default_factory=tuple)
    logits: Tensor | None = None


class Objective(nn.Module, ABC):
    """A distillation loss: a weighted sum of terms, with the projections that it learns.

    A term whose weight is 0 is left out and what it needs is not computed.

    Attributes:
        student, teacher: the shapes of the two encoders.
        weights: the weight of each term.

    Raises:
        BiomedError: if a weight is below 0 or all are 0.
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
    @abstractmethod
    def needs(self) -> Needs:
        """What the terms with a weight compare."""

    @abstractmethod
    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
        """The terms with a weight, each without it; arguments are those of `forward`."""

    def forward(
        self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor
    ) -> tuple[Tensor, Terms]:
        """Compare the outputs of the two encoders for one batch.

        Args:
            attended: (batch, length), true where there is no padding.
            labels: (masked,) the word pieces at the positions that masking chose, in the batch's
                order.

        Returns:
            the weighted sum, and the terms without their weights.
        """
        terms = self.terms(student, teacher, attended.bool(), labels)
        return sum(self.weights[name] * term for name, term in terms.items()), terms

    def projection(self) -> nn.Module:
        """A learned linear map from the student's width to the teacher's; none where they agree.

        Without bias: the equations have a matrix alone.
        """
        if self.student.width == self.teacher.width:
            return nn.Identity()
        return nn.Linear(self.student.width, self.teacher.width, bias=False)
