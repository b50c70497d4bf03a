"""The distillation objective of DistilBERT."""

from __future__ import annotations

from torch import Tensor

from ...errors import BiomedError
from .objective import Objective, Outputs, Shape, Terms
from .terms import cosine_distance, label_cross_entropy, soft_target_divergence


class DistilBertObjective(Objective):
    """Labels, the teacher's distributions, and its last hidden states.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.1.3, equations 1 to 4, where it is the objective of DistilBioBERT.

        L = α1 L_mlm + α2 L_softMLM + α3 L_align

        L_mlm     = - mean over masked n of ln f_s(X)^n at the label       (1)
        L_softMLM = T² mean over masked n of D_KL(f_t(X)^n || f_s(X)^n)    (2)
        L_align   = mean over n of 1 - cos(h_t(X)^n, h_s(X)^n)             (3)

    The paper gives no temperature T: its equation 2 has T = 1, the default. The paper's student is
    as wide as the teacher. If the widths differ, the student's hidden states are projected by a
    learned matrix, as in Lewis et al. 2020 (`large_to_base`).

    Attributes:
        mlm_weight, soft_mlm_weight, align_weight: α1, α2, α3.
        temperature: T of both distributions.
    """

    def __init__(
        self,
        student: Shape,
        teacher: Shape,
        *,
        mlm_weight: float = 2.0,
        soft_mlm_weight: float = 5.0,
        align_weight: float = 1.0,
        temperature: float = 1.0,
    ):
        weights = {"mlm": mlm_weight, "soft_mlm": soft_mlm_weight, "align": align_weight}
        super().__init__(student, teacher, weights)
        if temperature <= 0:
            raise BiomedError(f"temperature = {temperature}; give one above 0")
        self.temperature = temperature
        if "align" in self.weights:
            self.project = self.projection()

    def terms(self, student: Outputs, teacher: Outputs, attended: Tensor, labels: Tensor) -> Terms:
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
        return terms
