"""The distillation objective of TinyBERT."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...errors import BiomedError
from .layer_maps import map_layers
from .objective import Objective, Outputs, Shape, Terms
from .terms import attention_squared_error, soft_target_cross_entropy, squared_error


class TinyBertObjective(Objective):
    """Embeddings, hidden states, attention maps and distributions, without any labels.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.2.3, equations 5 to 9, where it is the objective of TinyBioBERT.

        L = λ_0 L_Embed + Σ_l λ_l L_Layer(l) + λ_(M+1) L_output        (9)

        L_Layer(l) = MSE(h_s^l W_h, h_t^g(l))
                   + mean over heads i of MSE(a_s^l,i, a_t^g(l),i)     (6)
        L_Embed    = MSE(E_s W_e, E_t)                                 (7)
        L_output   = - mean over n of Σ_i f_t(X)_i^n ln f_s(X)_i^n     (8)

    W_h and W_e are learned, and used only if the widths differ. W_h has no index in equation 6, so
    all layers share it. E are the outputs of the embedding layers, since g(0) = 0 makes them layer
    0. They are not the embedding tables, in which rare rows would count as much as frequent rows.
    Attention maps are compared after softmax, because equation 10 has divergences of the same maps.
    Equation 8 is over all N tokens, not only the masked tokens.

    Attributes:
        embedding_weight, output_weight: λ_0, λ_(M+1). The paper uses L_Embed only if student and
            teacher do not share the embedding layer.
        layer_weights: λ_1 to λ_M; 1 each by default.
        layer_map: g(1) to g(M), by default every k-th layer of the teacher.
    """

    def __init__(
        self,
        student: Shape,
        teacher: Shape,
        *,
        embedding_weight: float = 1.0,
        layer_weights: Sequence[float] | None = None,
        output_weight: float = 1.0,
        layer_map: Sequence[int] | None = None,
    ):
        layer_weights = _check_layer_weights(layer_weights, student.layers)
        weights = {
            "embedding": embedding_weight,
            "hidden_states": float(any(layer_weights)),
            "attentions": float(any(layer_weights)),
            "output": output_weight,
        }
        super().__init__(student, teacher, weights)
        self.layer_weights = layer_weights
        self.layer_map = map_layers(student.layers, teacher.layers, layer_map)
        if "embedding" in self.weights:
            self.project_embeddings = self.projection()
        if "hidden_states" in self.weights:
            self.project = self.projection()

    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
        """The terms that have a weight; terms of layers are sums weighted by λ_1 to λ_M."""
        terms: Terms = {}
        if "embedding" in self.weights:
            terms["embedding"] = squared_error(
                self.project_embeddings(student.hidden_states[0]),
                teacher.hidden_states[0],
                attended,
            )
        if "hidden_states" in self.weights:
            terms |= self.compare_layers(
                student,
                teacher,
                attended,
                states=squared_error,
                attentions=attention_squared_error,
                weights=self.layer_weights,
            )
        if "output" in self.weights:
            terms["output"] = soft_target_cross_entropy(student.logits, teacher.logits)
        return terms


def _check_layer_weights(weights: Sequence[float] | None, layers: int) -> list[float]:
    if weights is None:
        return [1.0] * layers
    if len(weights) != layers:
        raise BiomedError(
            f"layer_weights = {list(weights)}: {len(weights)} weights for a student of {layers} "
            "layers; give one for each"
        )
    if min(weights) < 0:
        raise BiomedError(f"layer_weights = {list(weights)}: give weights of 0 or more")
    return list(weights)
