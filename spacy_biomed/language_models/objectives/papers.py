"""The objectives of the papers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat

from ...errors import BiomedError
from .objective import LayerObjective, Needs, Objective
from .terms import attention_divergence, attention_squared_error, cosine_distance, squared_error


@dataclass(eq=False, repr=False, kw_only=True)
class DistilBertObjective(Objective):
    """Labels, the teacher's distributions, and its last hidden states.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.1.3, equations 1 to 4, where it is the objective of DistilBioBERT.

        L = α1 L_mlm + α2 L_softMLM + α3 L_align

        L_mlm     = - mean over masked n of ln f_s(X)^n at the label       (1)
        L_softMLM = T² mean over masked n of D_KL(f_t(X)^n || f_s(X)^n)    (2)
        L_align   = mean over n of 1 - cos(h_t(X)^n, h_s(X)^n)             (3)

    The paper gives no temperature T. If the widths differ, the student's hidden states are
    projected by a learned matrix, as in Lewis et al. 2020 (`large_to_base`).

    Attributes:
        mlm_weight, soft_mlm_weight, align_weight, temperature: α1, α2, α3, T.
    """

    mlm_weight: NonNegativeFloat = 2.0
    soft_mlm_weight: NonNegativeFloat = 5.0
    align_weight: NonNegativeFloat = 1.0
    temperature: PositiveFloat = 1.0

    def weigh_terms(self) -> dict[str, float]:
        mlm, soft_mlm = self.mlm_weight, self.soft_mlm_weight
        return {"mlm": mlm, "soft_mlm": soft_mlm, "align": self.align_weight}


@dataclass(eq=False, repr=False, kw_only=True)
class LargeToBaseObjective(DistilBertObjective):
    """The terms of DistilBERT with other weights and a temperature.

    Source: Lewis et al. 2020, "Pretrained Language Models for Biomedical and Clinical Tasks",
    section 7.1, which follows Sanh et al. 2019.

        L = α_MLM L_mlm + α_KL L_softMLM + α_cos L_align

    An `align_weight` of 0 gives the paper's "distill", and 1 its "distill + align". The paper
    mentions the temperature only for the teacher's distributions, but follows Hinton et al. 2015
    and Sanh et al. 2019, who smooth both.
    """

    mlm_weight: NonNegativeFloat = 5.0
    soft_mlm_weight: NonNegativeFloat = 2.0
    temperature: PositiveFloat = 2.0


@dataclass(eq=False, repr=False, kw_only=True)
class TinyBertObjective(LayerObjective):
    """Embeddings, hidden states, attention maps and distributions, without any labels.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.2.3, equations 5 to 9, where it is the objective of TinyBioBERT.

        L = λ_0 L_Embed + Σ_l λ_l L_Layer(l) + λ_(M+1) L_output        (9)

        L_Layer(l) = MSE(h_s^l W_h, h_t^g(l))
                   + mean over heads i of MSE(a_s^l,i, a_t^g(l),i)     (6)
        L_Embed    = MSE(E_s W_e, E_t)                                 (7)
        L_output   = - mean over n of Σ_i f_t(X)_i^n ln f_s(X)_i^n     (8)

    W_h and W_e are learned, and used only if the widths differ; all layers share W_h. E are the
    outputs of the embedding layers, not the tables, in which rare rows would count as much as
    frequent ones. Attention maps are compared after softmax.

    Attributes:
        masked_output: whether L_output is over the masked tokens only.
        embedding_weight, output_weight: λ_0, λ_(M+1). The paper uses L_Embed only if student and
            teacher do not share the embedding layer.
        layer_weights: λ_1 to λ_M; 1 each by default.
    """

    embedding_weight: NonNegativeFloat = 1.0
    layer_weights: Sequence[NonNegativeFloat] | None = None
    output_weight: NonNegativeFloat = 1.0
    masked_output: bool = False
    compare_states, compare_attentions = squared_error, attention_squared_error

    def weigh_terms(self) -> dict[str, float]:
        of_layers = float(any(self.weigh_layers()))
        return {
            "embedding": self.embedding_weight,
            "hidden_states": of_layers,
            "attentions": of_layers,
            "output": self.output_weight,
        }

    def weigh_layers(self) -> Sequence[float]:
        weights, layers = self.layer_weights, self.student.layers
        if weights is None:
            return super().weigh_layers()
        if len(weights) != layers:
            raise BiomedError(
                f"layer_weights = {list(weights)}: {len(weights)} weights for a student of "
                f"{layers} layers; give one for each"
            )
        return weights

    def mean_over(self, name: str) -> str:
        return "pairs" if name == "attentions" else super().mean_over(name)

    @property
    def needs(self) -> Needs:
        needs = super().needs
        if self.masked_output and "output" in self.weights:
            return replace(needs, logits="masked")
        return needs


@dataclass(eq=False, repr=False, kw_only=True)
class CompactObjective(LayerObjective):
    """Labels, the teacher's distributions, and the hidden states and attention maps of each layer.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.3, equations 10 and 11, where it is the objective of CompactBioBERT.

        L = α1 L_mlm + α2 L_softMLM + α3 Σ_l L_compact(l)                                   (11)

        L_compact(l) = mean over n of 1 - cos(h_s^l,n, h_t^g(l),n)
                     + mean over heads i and n of D_KL(a_s^l,i_n || a_t^g(l),i_n)           (10)

    L_mlm and L_softMLM are equations 1 and 2, the latter at temperature 1. If the widths differ,
    hidden states are projected by one learned matrix for all layers, as in equation 6.

    Attributes:
        mlm_weight, soft_mlm_weight, layer_weight: α1, α2, α3.
    """

    mlm_weight: NonNegativeFloat = 1.0
    soft_mlm_weight: NonNegativeFloat = 5.0
    layer_weight: NonNegativeFloat = 3.0
    compare_states, compare_attentions = cosine_distance, attention_divergence

    def weigh_terms(self) -> dict[str, float]:
        weights = {"mlm": self.mlm_weight, "soft_mlm": self.soft_mlm_weight}
        return weights | dict.fromkeys(("hidden_states", "attentions"), self.layer_weight)


@dataclass(eq=False, repr=False, kw_only=True)
class MobileBertObjective(LayerObjective):
    """Labels, and the hidden states and attention maps of each layer; no distributions.

    Source: Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical Transformers", section
    4.4.2, equations 12 and 13, which restate Sun et al. 2020, "MobileBERT".

        L = α L_mlm + (1 - α) 1/M Σ_l L_mobile(l)                                           (13)

        L_mobile(l) = MSE(h_s^l, h_t^l)
                    + mean over heads i and n of D_KL(a_s^l,i_n || a_t^l,i_n)               (12)

    L_mlm is equation 1. Equation 12 has a sum over positions n; here it is a mean, as in equation
    10 and Sun et al., since a sum would dominate the squared error in long sequences. If the shapes
    differ, layers are mapped, and hidden states are projected by one learned matrix for all layers,
    as in equations 5 and 6.
    """

    # It is α, above 0 and below 1. The paper gives no value; by default both have the same weight.
    mlm_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    compare_states, compare_attentions = squared_error, attention_divergence
    is_mean = True

    def weigh_terms(self) -> dict[str, float]:
        share = self.mlm_share
        return {"mlm": share, "hidden_states": 1 - share, "attentions": 1 - share}
