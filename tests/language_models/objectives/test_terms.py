"""The terms of the objectives, on tensors small enough to calculate by hand."""

import math

import pytest
import torch

from spacy_biomed.language_models.objectives import terms

ALL = torch.ones((1, 2), dtype=torch.bool)
FIRST = torch.tensor([[True, False]])


def test_label_cross_entropy_is_the_mean_over_positions():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    loss = terms.label_cross_entropy(logits, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx((math.log(2) + math.log(10)) / 2)


def test_soft_target_divergence_takes_the_teachers_expectation():
    student, teacher = (torch.log(torch.tensor([p])) for p in ([0.5, 0.5], [0.9, 0.1]))
    expected = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    loss = terms.soft_target_divergence(student, teacher, 1.0)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_a_temperature_divides_the_logits_and_its_square_multiplies():
    student, teacher = torch.tensor([[0.0, 4.0]]), torch.tensor([[2.0, 0.0]])
    halved = terms.soft_target_divergence(student / 2, teacher / 2, 1.0)
    assert terms.soft_target_divergence(student, teacher, 2.0) == pytest.approx(4 * halved.item())


def test_soft_target_cross_entropy_is_the_divergence_and_the_teachers_entropy():
    student, teacher = torch.randn((3, 4)), torch.randn((3, 4))
    entropy = torch.distributions.Categorical(logits=teacher).entropy().mean()
    divergence = terms.soft_target_divergence(student, teacher, 1.0)
    loss = terms.soft_target_cross_entropy(student, teacher)
    assert loss.item() == pytest.approx((divergence + entropy).item(), rel=1e-5)


def test_the_cosine_distance_does_not_see_lengths():
    student = torch.tensor([[[2.0, 0.0], [0.0, 5.0]]])
    teacher = torch.tensor([[[1.0, 0.0], [3.0, 0.0]]])
    assert terms.cosine_distance(student, teacher, ALL).item() == pytest.approx(0.5)
    assert terms.cosine_distance(student, teacher, FIRST).item() == pytest.approx(0.0)


def test_the_squared_error_is_the_mean_over_positions_and_width():
    student = torch.tensor([[[1.0, 2.0], [10.0, 0.0]]])
    assert terms.squared_error(student, torch.zeros((1, 2, 2)), ALL).item() == 105 / 4
    assert terms.squared_error(student, torch.zeros((1, 2, 2)), FIRST).item() == 5 / 2


def test_the_error_of_attention_counts_attended_rows_and_columns():
    student = torch.tensor([[[[1.0, 0.5], [0.25, 0.125]]]])
    zeros = torch.zeros((1, 1, 2, 2))
    expected = (1 + 1 / 4 + 1 / 16 + 1 / 64) / 4
    assert terms.attention_squared_error(student, zeros, ALL).item() == pytest.approx(expected)
    assert terms.attention_squared_error(student, zeros, FIRST).item() == 1


def test_the_divergence_of_attention_takes_the_students_expectation():
    student = torch.tensor([[[[0.5, 0.5], [1.0, 0.0]]]])
    teacher = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]]]])
    first = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    loss = terms.attention_divergence(student, teacher, ALL)
    assert loss.item() == pytest.approx((first + math.log(2)) / 2, rel=1e-6)


@pytest.mark.parametrize(
    "term", [terms.attention_squared_error, terms.attention_divergence], ids=lambda t: t.__name__
)
def test_other_numbers_of_heads_are_compared_by_their_means(term):
    student = torch.rand((1, 2, 2, 2)).softmax(dim=-1)
    teacher = torch.rand((1, 3, 2, 2)).softmax(dim=-1)
    means = (maps.mean(dim=1, keepdim=True) for maps in (student, teacher))
    assert term(student, teacher, ALL).item() == pytest.approx(term(*means, ALL).item())


def test_attention_that_underflowed_gives_a_finite_loss_and_gradient():
    student = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]], requires_grad=True)
    teacher = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
    loss = terms.attention_divergence(student, teacher, ALL)
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(terms.LEAST_ATTENTION) / 2, rel=1e-5)
    assert student.grad.isfinite().all()


def test_over_no_positions_every_term_is_zero():
    none = torch.zeros((1, 2), dtype=torch.bool)
    states, maps = torch.rand((1, 2, 3)), torch.rand((1, 1, 2, 2))
    rows, labels = torch.zeros((0, 5)), torch.zeros(0, dtype=torch.long)
    assert terms.label_cross_entropy(rows, labels) == 0
    assert terms.soft_target_divergence(rows, rows, 1.0) == 0
    assert terms.soft_target_cross_entropy(rows, rows) == 0
    assert terms.cosine_distance(states, 1 - states, none) == 0
    assert terms.squared_error(states, 1 - states, none) == 0
    assert terms.attention_squared_error(maps, 1 - maps, none) == 0
    assert terms.attention_divergence(maps, 1 - maps, none) == 0


def test_what_half_precision_computed_is_compared_in_single_precision():
    states = torch.rand((1, 2, 3), dtype=torch.bfloat16)
    other = torch.rand((1, 2, 3), dtype=torch.bfloat16)
    for term in (terms.cosine_distance, terms.squared_error):
        loss = term(states, other, ALL)
        assert loss.dtype == torch.float32
        assert loss == term(states.float(), other.float(), ALL)
    assert terms.soft_target_divergence(states[0], other[0], 2.0).dtype == torch.float32
