"""The base class of distillation objectives: the outputs they need, and their loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


@dataclass(eq=False, repr=False)
class Objective(nn.Module):
    """A distillation loss: a weighted sum of terms, with learned projections.

    A term with the weight 0 is left out, and the outputs that only it needs are not computed. The
    keyword arguments of a subclass are its settings in a recipe, which are checked by their types.

    Attributes:
        student, teacher: the shapes of the two encoders.
        temperature: of the distributions that the term `soft_mlm` compares.
        weights: the weight of each term that is not left out.

    Raises:
        BiomedError: if all weights are 0.
    """

    student: Shape
    teacher: Shape
    temperature = 1.0

    def __post_init__(self) -> None:
        super().__init__()
        self.weights = {name: weight for name, weight in self.weigh_terms().items() if weight}
        if not self.weights:
            raise BiomedError("all weights are 0; give one of them a value above 0")
        if "embedding" in self.weights:
            self.project_embeddings = self._create_projection()
        if self.weights.keys() & {"align", "hidden_states"}:
            self.project = self._create_projection()

    def weigh_terms(self) -> dict[str, float]:
        """The weight of each term, by its name."""
        raise NotImplementedError

    @property
    def needs(self) -> Needs:
        """The outputs that the terms with a weight use; to override for terms of other names."""
        used: dict[str, Any] = {}
        for name in self.weights:
            used |= _USED_OUTPUTS[name]
        return Needs(**used)

    def terms(
        self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor
    ) -> dict[str, Callable[[], Tensor]]:
        """Functions that compute the terms, by name; arguments are as in `forward`."""
        own, other = student.hidden_states, teacher.hidden_states
        return {
            "mlm": lambda: label_cross_entropy(student.logits, labels),
            "soft_mlm": lambda: soft_target_divergence(
                student.logits, teacher.logits, self.temperature
            ),
            "align": lambda: cosine_distance(self.project(own[-1]), other[-1], attended),
            "embedding": lambda: squared_error(self.project_embeddings(own[0]), other[0], attended),
            "output": lambda: soft_target_cross_entropy(student.logits, teacher.logits),
        }

    def mean_over(self, name: str) -> str:
        """What the mean of a term is over: "labels", "positions" or, of attention, "pairs"."""
        by_labels = self.needs.logits == "masked" and name in ("mlm", "soft_mlm", "output")
        return "labels" if by_labels else "positions"

    def forward(
        self,
        student: Outputs,
        teacher: Outputs,
        attended: Tensor,
        labels: Tensor,
        shares: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Terms]:
        """Compare the outputs of the two encoders for one batch.

        Args:
            attended: (batch, length), false for padding.
            labels: (masked,) the word pieces at the positions chosen by masking, in the batch's
                order.
            shares: of a micro-batch in its step, by what means are over. Terms are then its parts
                of those of the step.

        Returns:
            the weighted sum, and the unweighted terms.
        """
        functions = self.terms(student, teacher, attended.bool(), labels)
        terms = {name: functions[name]() for name in self.weights}
        if shares is not None:
            terms = {name: term * shares[self.mean_over(name)] for name, term in terms.items()}
        return sum(self.weights[name] * term for name, term in terms.items()), terms

    def _create_projection(self) -> nn.Module:
        """A learned linear map from the student's width to the teacher's, without bias.

        It is the identity if the widths are the same. The papers' equations have no bias.
        """
        if self.student.width == self.teacher.width:
            return nn.Identity()
        return nn.Linear(self.student.width, self.teacher.width, bias=False)


@dataclass(eq=False, repr=False, kw_only=True)
class LayerObjective(Objective):
    """An objective that compares the hidden states and attention maps of layers.

    Attributes:
        layer_map: g(1) to g(M), by default every k-th layer of the teacher.
        compare_states, compare_attentions: the functions that compare two layers.
        is_mean: whether layers are averaged instead of added up.
    """

    layer_map: Sequence[int] | None = None
    compare_states: ClassVar[Comparison]
    compare_attentions: ClassVar[Comparison]
    is_mean: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layer_map = map_layers(self.student.layers, self.teacher.layers, self.layer_map)
        layers = enumerate(zip(self.layer_map, self.weigh_layers(), strict=True))
        # Both from 0; a layer with the weight 0 is left out.
        self._layers = [(own, other - 1, weight) for own, (other, weight) in layers if weight]

    def weigh_layers(self) -> Sequence[float]:
        """The weight of each layer of the student."""
        return [1.0] * self.student.layers

    def terms(
        self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor
    ) -> dict[str, Callable[[], Tensor]]:
        def compare_states(own: Tensor, other: Tensor, attended: Tensor) -> Tensor:
            return type(self).compare_states(self.project(own), other, attended)

        def add_up(compare: Comparison, own: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
            compared = [w * compare(own[i], other[j], attended) for i, j, w in self._layers]
            return sum(compared) / (self.student.layers if self.is_mean else 1)

        states = student.hidden_states[1:], teacher.hidden_states[1:]
        maps = student.attentions, teacher.attentions
        return super().terms(student, teacher, attended, labels) | {
            "hidden_states": lambda: add_up(compare_states, *states),
            "attentions": lambda: add_up(type(self).compare_attentions, *maps),
        }


def map_layers(student: int, teacher: int, layers: Sequence[int] | None = None) -> list[int]:
    """The map g of "On the Effectiveness of Compact Biomedical Transformers", equation 5.

    The list is g(1) to g(student). Layers count from 1; 0 is the embedding layer, and g(0) = 0.
    Without `layers` they are every k-th layer of the teacher with the last, 2, 4 and 6 for
    `map_layers(3, 6)`; positions between layers are rounded up.
    """
    if layers is None:
        if student > teacher:
            raise BiomedError(
                f"the student has {student} layers and the teacher {teacher}: set layer_map to the "
                "teacher's layers to compare with"
            )
        return [-(-layer * teacher // student) for layer in range(1, student + 1)]
    if len(layers) != student:
        raise BiomedError(
            f"layer_map = {list(layers)}: {len(layers)} layers for a student of {student}; give "
            "one of the teacher's for each of the student's"
        )
    check_layers("layer_map", layers, teacher)
    return list(layers)


def check_layers(name: str, layers: Sequence[int], teacher: int) -> None:
    """Raise BiomedError if the teacher does not have one of the layers of a setting."""
    if not all(1 <= layer <= teacher for layer in layers):
        raise BiomedError(f"{name} = {list(layers)}: the layers of the teacher are 1 to {teacher}")
