"""The terms that distillation objectives are sums of.

Sums over tokens in the papers' equations are means here. As sums they would change their balance
with the other terms whenever the length or the batch does, and Sanh et al. (2019) and Sun et al.
(2020), whose losses the papers restate, take means as well. A mean is over the whole batch, so that
a position counts the same wherever it stands. Padding is in neither its numerator nor its
denominator. Over nothing at all, a mean is 0.

What half precision computed is compared in single precision. Logarithms are natural.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Attention below this counts as this much in logarithms: softmax underflows to 0, and one such
# entry would make the divergence infinite.
LEAST_ATTENTION = 1e-10


def label_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Of the word pieces at the masked positions (paper 2, equation 1).

    Args:
        logits: (masked, vocabulary). labels: (masked,).
    """
    return F.cross_entropy(_single(logits), labels, reduction="sum") / max(len(labels), 1)


def soft_target_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL divergence of the student's distributions from the teacher's (paper 2, equation 2).

    The equation has a minus before the divergence, which would drive the two apart: a misprint. The
    logits of both are divided by the temperature, and the divergence is multiplied by its square,
    so that the gradients keep their size whatever it is (Hinton et al. 2015, section 2).

    Args:
        student, teacher: logits, (positions, vocabulary).
    """
    divergence = F.kl_div(
        F.log_softmax(_single(student) / temperature, dim=-1),
        F.log_softmax(_single(teacher) / temperature, dim=-1),
        reduction="sum",
        log_target=True,
    )
    return temperature**2 * divergence / max(len(student), 1)


def soft_target_cross_entropy(student: Tensor, teacher: Tensor) -> Tensor:
    """Cross-entropy with the teacher's distributions as labels (paper 2, equation 8).

    Args:
        student, teacher: logits, (positions, vocabulary).
    """
    targets = F.softmax(_single(teacher), dim=-1)
    return F.cross_entropy(_single(student), targets, reduction="sum") / max(len(student), 1)


def cosine_distance(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """1 - cosine of the hidden states of a position, its mean over positions (paper 2, equation 3).

    Args:
        student, teacher: (batch, length, width). attended: (batch, length).
    """
    distance = 1 - F.cosine_similarity(_single(student), _single(teacher), dim=-1)
    return _mean(distance, attended)


def squared_error(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """Mean over positions and width (paper 2, equation 6, first term).

    Args:
        student, teacher: (batch, length, width). attended: (batch, length).
    """
    error = (_single(student) - _single(teacher)).square().mean(dim=-1)
    return _mean(error, attended)


def attention_squared_error(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """Mean over heads and the entries of their maps (paper 2, equation 6, second term).

    An entry counts where both its row and its column are attended.

    Args:
        student, teacher: (batch, heads, length, length). attended: (batch, length).
    """
    student, teacher = _match_heads(_single(student), _single(teacher))
    error = (student - teacher).square().mean(dim=1)
    return _mean(error, attended[:, :, None] & attended[:, None, :])


def attention_divergence(student: Tensor, teacher: Tensor, attended: Tensor) -> Tensor:
    """KL divergence between rows of attention maps, its mean over heads and rows.

    As the papers' equations have it, the student's map comes first: D(student || teacher) (paper 2,
    equations 10 and 12). A row is a distribution over the attended columns.

    Args:
        student, teacher: (batch, heads, length, length). attended: (batch, length).
    """
    student, teacher = _match_heads(_single(student), _single(teacher))
    ratio = student.clamp(min=LEAST_ATTENTION).log() - teacher.clamp(min=LEAST_ATTENTION).log()
    entries = (student * ratio).masked_fill(~attended[:, None, None, :], 0.0)
    return _mean(entries.sum(dim=-1).mean(dim=1), attended)


def _match_heads(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Where the numbers of heads differ, one map each: the mean over the heads.

    Which of the teacher's heads a head of the student should follow, no paper says; the means are
    distributions too, and compare what a layer attends to altogether.
    """
    if student.shape[1] == teacher.shape[1]:
        return student, teacher
    return student.mean(dim=1, keepdim=True), teacher.mean(dim=1, keepdim=True)


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    """The mean of the values that count; both of one shape."""
    total = values.masked_fill(~counted, 0.0).sum()
    return total / counted.sum().clamp(min=1)


def _single(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
