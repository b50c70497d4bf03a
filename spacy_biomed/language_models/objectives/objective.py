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


@dataclass(eq=False, repr=False)
class Objective(nn.Module):
    """A distillation loss: a weighted sum of terms, with learned projections.

    A term with the weight 0 is left out, and the outputs that only it needs are not computed. The
    keyword arguments of a subclass are its settings in a recipe.

    Raises:
        BiomedError: if a weight is below 0, or all are 0.
    """

    student: Shape
    teacher: Shape
    temperature = 1.0  # of the distributions that `soft_mlm` compares

    def __post_init__(self) -> None:
        super().__init__()
        weights = self.weigh_terms()
        for name, weight in weights.items():
            if weight < 0:
                raise BiomedError(f"the weight of {name} is {weight}; give 0 or more")
        if not any(weights.values()):
            raise BiomedError("all weights are 0; give one of them a value above 0")
        self.weights = {name: weight for name, weight in weights.items() if weight}
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
    """

    layer_map: Sequence[int] | None = None
    compare_states: ClassVar[Comparison]
    compare_attentions: ClassVar[Comparison]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layer_map = map_layers(self.student.layers, self.teacher.layers, self.layer_map)

    def weigh_layers(self) -> Sequence[float]:
        """The weight of each layer of the student."""
        return [1.0] * self.student.layers

    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
        terms = super().terms(student, teacher, attended, labels)
        if "hidden_states" in self.weights:
            terms |= self.compare_layers(student, teacher, attended)
        return {name: terms[name] for name in self.weights}

    def compare_layers(self, student: Outputs, teacher: Outputs, attended: Tensor) -> Terms:
        """The terms `hidden_states` and `attentions`: sums over the layers of the student.

        A layer with the weight 0 is left out. Arguments are as in `forward`.
        """
        terms: Terms = {"hidden_states": 0.0, "attentions": 0.0}
        compare = type(self)
        pairs = zip(self.layer_map or (), self.weigh_layers(), strict=True)
        for layer, (target, weight) in enumerate(pairs, start=1):
            if weight:
                states = self.project(student.hidden_states[layer])
                terms["hidden_states"] += weight * compare.compare_states(
                    states, teacher.hidden_states[target], attended
                )
                terms["attentions"] += weight * compare.compare_attentions(
                    student.attentions[layer - 1], teacher.attentions[target - 1], attended
                )
        return terms


def map_layers(student: int, teacher: int, layers: Sequence[int] | None = None) -> list[int]:
    """The map g of "On the Effectiveness of Compact Biomedical Transformers", equation 5.

    The list is g(1) to g(student). Layers count from 1; 0 is the embedding layer, and g(0) = 0. By
    default the student's layers map to every k-th layer of the teacher, the last to the last. If
    the number of layers is not a multiple, the positions are rounded up. `layers` are others in
    their place.

    Examples:
        >>> map_layers(6, 12)
        [2, 4, 6, 8, 10, 12]
        >>> map_layers(4, 6)
        [2, 3, 5, 6]
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
    """Check the layers of a setting; raise BiomedError if the teacher does not have one of them."""
    for layer in layers:
        if not 1 <= layer <= teacher:
            raise BiomedError(
                f"{name} = {list(layers)}: the teacher has no layer {layer}; its layers are 1 to "
                f"{teacher}"
            )
