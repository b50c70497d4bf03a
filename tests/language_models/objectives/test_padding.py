"""Padding does not affect any objective."""

import pytest

from spacy_biomed.language_models.objectives import OBJECTIVES


@pytest.mark.parametrize("which", ["student", "teacher"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_values_at_padding_change_nothing(make_case, change_padding, name, which):
    case = make_case()
    objective = case.create(OBJECTIVES[name]).double()
    before, _, _ = case.loss(objective)
    change_padding(case, which)
    after, _, tensors = case.loss(objective)
    after.backward()
    assert after.item() == before.item()
    learned = {key: tensor.grad for key, tensor in tensors.items() if tensor.grad is not None}
    assert "hidden.2" in learned
    for key, gradient in learned.items():
        if key.startswith("hidden."):
            assert (gradient[~case.attended] == 0).all()
        elif key.startswith("attention."):
            assert (gradient.movedim(1, 3)[~case.attended] == 0).all()  # rows
            assert (gradient.movedim(3, 1).movedim(3, 2)[~case.attended] == 0).all()  # columns
