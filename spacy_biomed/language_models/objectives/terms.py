"""The terms of distillation objectives.

Equations without a source are from Rohanian et al. 2022, "On the Effectiveness of Compact
Biomedical Transformers".

Sums over tokens in the equations are means here, as in Sanh et al. (2019) and Sun et al. (2020):
the weight of a sum would depend on the length and the batch size. A mean is over all positions of
the batch without padding, and over none 0. Half-precision outputs are compared in single precision.

Logits are (positions, vocabulary), hidden states (batch, length, width), and attention maps
(batch, heads, length, length). `attended`, (batch, length), is false for padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

# Minimum attention in logarithms. Softmax can underflow to 0, and a single zero would make the
# divergence infinite.
LEAST_ATTENTION = 1e-10


def label_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of the word pieces, (positions,), at the masked positions (equation 1)."""
    return F.cross_entropy(_single(logits), labels, reduction="sum") / max(len(labels), 1)


def soft_target_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL divergence of the student's distributions from the teacher's (equation 2).

    The equation's minus sign, which would drive the two apart, must be a misprint. The square of
    the temperature keeps the size of the gradients (Hinton et al. 2015, section 2).
    """
    divergence = F.kl_div(
        F.log_softmax(_single(student) / temperature, dim=-1),
        F.log_softmax(_single(teacher) / temperature, dim=-1),
        reduction="sum",
        log_target=True,
    )
    return temperature**2 * divergence / max(len(student), 1)


def soft_target_cross_entropy(student: Tensor, teacher: Tensor) -> Tensor:
    """Cross-entropy with the teacher's distributions as labels (equation 8)."""
    targets = F.softmax(_single(teacher), dim=-1)
    return F.cross_entropy(_single(student), targets, reduction="sum") / max(len(student), 1)


def cosine_distance(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """Mean of 1 - cosine of the hidden states over positions (equation 3)."""
    distance = 1 - F.cosine_similarity(_single(student), _single(teacher), dim=-1)
    return _mean(distance, attended)


def squared_error(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """Mean squared error of hidden states over positions and width (equation 6, first term)."""
    error = (_single(student) - _single(teacher)).square().mean(dim=-1)
    return _mean(error, attended)


def attention_squared_error(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """Mean squared error over heads and the entries of their maps (equation 6, second term).

    An entry counts only if both its row and its column are attended.
    """
    student, teacher = _match_heads(_single(student), _single(teacher))
    error = (student - teacher).square().mean(dim=1)
    return _mean(error, attended[:, :, None] & attended[:, None, :])


def attention_divergence(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """Mean KL divergence of rows of attention maps, over heads and rows.

    The student's map comes first, D(student || teacher), as in equations 10 and 12. A row is a
    distribution over the attended columns.
    """
    student, teacher = _match_heads(_single(student), _single(teacher))
    ratio = student.clamp(min=LEAST_ATTENTION).log() - teacher.clamp(min=LEAST_ATTENTION).log()
    entries = (student * ratio).masked_fill(~attended[:, None, None, :], 0.0)
    return _mean(entries.sum(dim=-1).mean(dim=1), attended)


def _match_heads(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Average the maps over the heads if the numbers of heads differ.

    No paper defines which of the teacher's heads a head of the student should follow. The means are
    distributions too, and compare the attention of a whole layer.
    """
    if student.shape[1] == teacher.shape[1]:
        return student, teacher
    return student.mean(dim=1, keepdim=True), teacher.mean(dim=1, keepdim=True)


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    """The mean of the values where `counted` is true; both have the same shape."""
    total = values.masked_fill(~counted, 0.0).sum()
    return total / counted.sum().clamp(min=1)


def _single(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
