"""The distillation objective of CompactBioBERT."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .layer_maps import map_layers
from .objective import Objective, Outputs, Shape, Terms
from .terms import (
    attention_divergence,
    cosine_distance,
    label_cross_entropy,
    soft_target_divergence,
)


class CompactObjective(Objective):
    """Labels, the teacher's distributions, and the hidden states and attention maps of each layer.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.3, equations 10 and 11, where it is the objective of CompactBioBERT.

        L = α1 L_mlm + α2 L_softMLM + α3 Σ_l L_compact(l)                                   (11)

        L_compact(l) = mean over n of 1 - cos(h_s^l,n, h_t^g(l),n)
                     + mean over heads i and n of D_KL(a_s^l,i_n || a_t^g(l),i_n)           (10)

    L_mlm and L_softMLM are equations 1 and 2, the latter at temperature 1. Layers are summed, and
    the student's attention comes first in the divergence, both as printed. The paper's student is
    as wide as the teacher. If the widths differ, the student's hidden states are projected by one
    learned matrix for all layers, as in equation 6.

    Attributes:
        mlm_weight, soft_mlm_weight, layer_weight: α1, α2, α3.
        layer_map: g(1) to g(M), by default every k-th layer of the teacher.
    """

    def __init__(
        self,
        student: Shape,
        teacher: Shape,
        *,
        mlm_weight: float = 1.0,
        soft_mlm_weight: float = 5.0,
        layer_weight: float = 3.0,
        layer_map: Sequence[int] | None = None,
    ):
        weights = {
            "mlm": mlm_weight,
            "soft_mlm": soft_mlm_weight,
            "hidden_states": layer_weight,
            "attentions": layer_weight,
        }
        super().__init__(student, teacher, weights)
        self.layer_map = map_layers(student.layers, teacher.layers, layer_map)
        if layer_weight:
            self.project = self.projection()

    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
        """The terms that have a weight; terms of layers are sums over the layers."""
        terms: Terms = {}
        if "mlm" in self.weights:
            terms["mlm"] = label_cross_entropy(student.logits, labels)
        if "soft_mlm" in self.weights:
            terms["soft_mlm"] = soft_target_divergence(student.logits, teacher.logits, 1.0)
        if "hidden_states" in self.weights:
            terms |= self.compare_layers(
                student, teacher, attended, states=cosine_distance, attentions=attention_divergence
            )
        return terms
