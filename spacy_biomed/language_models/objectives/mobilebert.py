"""The distillation objective of MobileBERT."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...errors import BiomedError
from .layer_maps import map_layers
from .objective import Objective, Outputs, Shape, Terms
from .terms import attention_divergence, label_cross_entropy, squared_error


class MobileBertObjective(Objective):
    """Labels, and the hidden states and attention maps of each layer; no distributions.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.4.2, equations 12 and 13, which restate Sun et al. 2020, "MobileBERT".

        L = α L_mlm + (1 - α) 1/M Σ_l L_mobile(l)                                           (13)

        L_mobile(l) = MSE(h_s^l, h_t^l)
                    + mean over heads i and n of D_KL(a_s^l,i_n || a_t^l,i_n)               (12)

    L_mlm is equation 1. Equation 12 has a sum over positions n; here it is a mean, as in equation
    10 and Sun et al., since a sum would dominate the squared error in long sequences. The student's
    attention comes first in the divergence, as printed. In the papers student and teacher have the
    same number of layers and the same width, and layer l is compared with layer l. Otherwise the
    layers of the student are mapped, and its hidden states are projected by one learned matrix for
    all layers, as in equations 5 and 6.

    Attributes:
        mlm_share: α, above 0 and below 1. The paper gives no value; by default both have the same
            weight.
        layer_map: g(1) to g(M), by default every k-th layer of the teacher.
    """

    def __init__(
        self,
        student: Shape,
        teacher: Shape,
        *,
        mlm_share: float = 0.5,
        layer_map: Sequence[int] | None = None,
    ):
        if not 0 < mlm_share < 1:
            raise BiomedError(f"mlm_share = {mlm_share}; give one between 0 and 1")
        weights = {
            "mlm": mlm_share,
            "hidden_states": 1 - mlm_share,
            "attentions": 1 - mlm_share,
        }
        super().__init__(student, teacher, weights)
        self.layer_map = map_layers(student.layers, teacher.layers, layer_map)
        self.project = self.projection()

    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
        """All terms; terms of layers are means over the layers."""
        sums = self.compare_layers(
            student, teacher, attended, states=squared_error, attentions=attention_divergence
        )
        means = {name: total / self.student.layers for name, total in sums.items()}
        return {"mlm": label_cross_entropy(student.logits, labels), **means}
