"""The objective for distilling a large encoder into an encoder of base size."""

from __future__ import annotations

from .distilbert import DistilBertObjective
from .objective import Shape


class LargeToBaseObjective(DistilBertObjective):
    """The terms of DistilBERT with other weights, a temperature, and a projection.

    Source: Lewis et al. 2020, "Pretrained Language Models for Biomedical and Clinical Tasks",
    section 7.1, which follows Sanh et al. 2019.

        L = α_MLM L_mlm + α_KL L_KL + α_cos L_cos

        L_mlm = - mean over masked n of ln f_s(X)^n at the label
        L_KL  = T² mean over masked n of D_KL(f_t(X)^n || f_s(X)^n), both at temperature T
        L_cos = mean over n of 1 - cos(h_t(X)^n, W h_s(X)^n)

    W is learned, and used only if the widths differ. An `align_weight` of 0 gives the paper's
    "distill", and 1 its "distill + align".

    Attributes:
        mlm_weight, soft_mlm_weight, align_weight: α_MLM, α_KL, α_cos.
        temperature: T of both distributions. The paper mentions it only for the teacher's, but it
            follows Hinton et al. 2015 and Sanh et al. 2019, who smooth both.
    """

    def __init__(
        self,
        student: Shape,
        teacher: Shape,
        *,
        mlm_weight: float = 5.0,
        soft_mlm_weight: float = 2.0,
        align_weight: float = 1.0,
        temperature: float = 2.0,
    ):
        super().__init__(
            student,
            teacher,
            mlm_weight=mlm_weight,
            soft_mlm_weight=soft_mlm_weight,
            align_weight=align_weight,
            temperature=temperature,
        )
