"""AdamW and Adamax: against the formula, against PyTorch's, and the same for thinc layers."""

import math

import numpy as np
import pytest
import spacy
import torch
from thinc.api import Linear

from spacy_biomed.training.optimizer import Adamax_v1, AdamW_v1

MATRIX = np.array([[0.5, -1.0], [2.0, 0.25]], dtype="float32")
BIAS = np.array([0.5, -1.5], dtype="float32")
GRADIENTS = [
    (np.array([[0.1, -0.2], [0.3, 0.05]]), np.array([0.2, -0.1])),
    (np.array([[-0.4, 0.1], [0.2, 0.0]]), np.array([0.1, 0.3])),
    (np.array([[3.0, -2.0], [1.0, 4.0]]), np.array([-2.0, 5.0])),
]


def make_module():
    module = torch.nn.Linear(2, 2)
    module.weight.data = torch.tensor(MATRIX)
    module.bias.data = torch.tensor(BIAS)
    return module


def set_gradients(module, weight, bias):
    module.weight.grad = torch.tensor(weight, dtype=torch.float32)
    module.bias.grad = torch.tensor(bias, dtype=torch.float32)


def reference_step(state, gradient, step, *, learn_rate, decay):
    """One step of algorithm 2 of "Decoupled Weight Decay Regularization", in float64."""
    weights, mean, square = state
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.999 * square + 0.001 * gradient**2
    corrected, corrected_square = mean / (1 - 0.9**step), square / (1 - 0.999**step)
    update = corrected / (np.sqrt(corrected_square) + 1e-8) + decay * weights
    return weights - learn_rate * update, mean, square


def test_a_module_steps_by_the_formula_and_its_bias_does_not_decay():
    module, optimizer = make_module(), AdamW_v1(0.01, L2=0.1, grad_clip=0.0)
    matrix, bias = (MATRIX.astype("float64"), 0.0, 0.0), (BIAS.astype("float64"), 0.0, 0.0)
    for step, (d_matrix, d_bias) in enumerate(GRADIENTS, start=1):
        set_gradients(module, d_matrix, d_bias)
        optimizer.step_module(1, module)
        matrix = reference_step(matrix, d_matrix, step, learn_rate=0.01, decay=0.1)
        bias = reference_step(bias, d_bias, step, learn_rate=0.01, decay=0.0)
    np.testing.assert_allclose(module.weight.detach().numpy(), matrix[0], atol=1e-6)
    np.testing.assert_allclose(module.bias.detach().numpy(), bias[0], atol=1e-6)


def check_same_steps(optimizer, ours, reference, theirs):
    """Compare with an optimizer of PyTorch, with clipped gradients."""
    for d_matrix, d_bias in GRADIENTS:
        for module in (ours, theirs):
            set_gradients(module, d_matrix, d_bias)
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step_module(1, ours)
        reference.step()
    torch.testing.assert_close(ours.weight, theirs.weight, atol=1e-6, rtol=0)
    torch.testing.assert_close(ours.bias, theirs.bias, atol=1e-6, rtol=0)


def test_a_module_steps_as_with_pytorchs_adamw():
    ours, theirs = make_module(), make_module()
    optimizer = AdamW_v1(0.01, beta1=0.8, beta2=0.99, eps=1e-6, L2=0.1, grad_clip=1.0)
    groups = [
        {"params": [theirs.weight], "weight_decay": 0.1},
        {"params": [theirs.bias], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.99), eps=1e-6)
    check_same_steps(optimizer, ours, reference, theirs)


def test_gradients_are_clipped_to_their_norm_over_the_whole_module():
    module = make_module()
    set_gradients(module, [[3.0, 0.0], [0.0, 0.0]], [0.0, 4.0])
    AdamW_v1(0.01, grad_clip=1.0).step_module(1, module)
    torch.testing.assert_close(module.weight.grad[0, 0], torch.tensor(0.6))
    torch.testing.assert_close(module.bias.grad[1], torch.tensor(0.8))


@pytest.mark.parametrize("limit", [0.0, 6.0])
def test_gradients_within_the_norm_or_without_a_limit_stay_as_they_are(limit):
    module = make_module()
    set_gradients(module, [[3.0, 0.0], [0.0, 0.0]], [0.0, 4.0])
    AdamW_v1(0.01, grad_clip=limit).step_module(1, module)
    assert module.weight.grad[0, 0] == 3.0
    assert module.bias.grad[1] == 4.0


def test_a_schedule_gives_the_learning_rate_of_each_step():
    schedule = spacy.registry.resolve(
        {
            "rate": {
                "@schedules": "warmup_linear.v1",
                "initial_rate": 0.1,
                "warmup_steps": 2,
                "total_steps": 4,
            }
        }
    )["rate"]
    module, optimizer = make_module(), AdamW_v1(schedule, L2=0.0, grad_clip=0.0)
    lengths = []
    for _ in range(5):
        before = module.bias.detach().clone()
        set_gradients(module, np.ones((2, 2)), np.ones(2))
        optimizer.step_module(1, module)
        lengths.append(float(before[0] - module.bias.detach()[0]))
        optimizer.step_schedules()
    # With the same gradient in each step Adam's step is as long as the learning rate.
    assert lengths == pytest.approx([0.0, 0.05, 0.1, 0.05, 0.0], abs=1e-6)


def test_parameters_without_gradient_stay_as_they_are():
    module = make_module()
    module.weight.grad = torch.ones(2, 2)
    optimizer = AdamW_v1(0.1, L2=0.5)
    optimizer.step_module(1, module)
    assert module.bias.tolist() == BIAS.tolist()
    assert not torch.equal(module.weight.detach(), torch.tensor(MATRIX))


def test_frozen_parameters_stay_as_they_are():
    module = make_module()
    module.weight.requires_grad_(False)
    module.bias.grad = torch.ones(2)
    AdamW_v1(0.1, L2=0.5).step_module(1, module)
    assert module.weight.tolist() == MATRIX.tolist()
    assert module.bias.tolist() != BIAS.tolist()


def test_modules_under_different_keys_have_their_own_moments():
    optimizer = AdamW_v1(0.01, L2=0.0, grad_clip=0.0)
    first, second = make_module(), make_module()
    for d_matrix, d_bias in GRADIENTS:
        set_gradients(first, d_matrix, d_bias)
        optimizer.step_module(1, first)
    set_gradients(second, *GRADIENTS[0])
    optimizer.step_module(2, second)
    expected = BIAS - 0.01 * np.sign(GRADIENTS[0][1])
    np.testing.assert_allclose(second.bias.detach().numpy(), expected, atol=1e-6)


def test_thinc_layers_step_as_a_module_does():
    optimizer = AdamW_v1(0.01, L2=0.1, grad_clip=0.0)
    module, matrix, bias = make_module(), MATRIX.copy(), BIAS.copy()
    for d_matrix, d_bias in GRADIENTS:
        set_gradients(module, d_matrix, d_bias)
        optimizer.step_module(1, module)
        matrix, _ = optimizer((9, "W"), matrix, d_matrix.astype("float32"))
        bias, _ = optimizer((9, "b"), bias, d_bias.astype("float32"))
    # thinc decays the weights after its step rather than before: the square of the rate apart.
    np.testing.assert_allclose(matrix, module.weight.detach().numpy(), atol=0.1 * 3 * 0.01**2)
    np.testing.assert_allclose(bias, module.bias.detach().numpy(), atol=1e-6)


def test_thinc_matrices_decay_and_biases_do_not():
    optimizer = AdamW_v1(0.01, L2=0.1, grad_clip=0.0)
    matrix, _ = optimizer((9, "W"), MATRIX.copy(), np.zeros((2, 2), dtype="float32"))
    bias, _ = optimizer((9, "b"), BIAS.copy(), np.zeros(2, dtype="float32"))
    np.testing.assert_allclose(matrix, MATRIX * (1 - 0.01 * 0.1), rtol=1e-6)
    assert bias.tolist() == BIAS.tolist()
    assert optimizer.L2 == 0.1


def test_a_heads_factor_scales_its_step():
    gradient = np.array([0.3, -0.2], dtype="float32")
    steps = [
        BIAS - AdamW_v1(0.01)((9, "b"), BIAS.copy(), gradient.copy(), lr_scale=scale)[0]
        for scale in (1.0, 5.0)
    ]
    np.testing.assert_allclose(steps[1], 5 * steps[0], rtol=1e-4)


def test_the_registered_name_gives_the_optimizer_with_the_documented_defaults():
    config = {"optimizer": {"@optimizers": "spacy_biomed.AdamW.v1", "learn_rate": 0.5}}
    optimizer = spacy.registry.resolve(config)["optimizer"]
    settings = (optimizer.b1, optimizer.b2, optimizer.eps, optimizer.L2, optimizer.grad_clip)
    assert math.isclose(optimizer.learn_rate, 0.5)
    assert settings == (0.9, 0.999, 1e-8, 0.01, 1.0)
    assert optimizer.averages is None


def test_layer_decay_shrinks_the_step_once_for_each_layer_below_the_last():
    """Adam's first step is the learning rate whatever the gradient."""

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings = torch.nn.Linear(2, 2)
            self.layer = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(2)])
            self.norm = torch.nn.LayerNorm(2)

    encoder, optimizer = Encoder(), AdamW_v1(0.1, L2=0.0, grad_clip=0.0, layer_decay=0.5)
    before = {name: p.detach().clone() for name, p in encoder.named_parameters()}
    for p in encoder.parameters():
        p.grad = torch.full_like(p, 3.0)
    optimizer.step_module(1, encoder)
    steps = {name: before[name] - p.detach() for name, p in encoder.named_parameters()}
    expected = {"embeddings": 0.025, "layer.0": 0.05, "layer.1": 0.1, "norm": 0.1}
    for name, step in steps.items():
        prefix = name.rpartition(".")[0]
        np.testing.assert_allclose(step.numpy(), expected[prefix], rtol=1e-4)


def test_averages_follow_thincs_rule_for_modules_and_layers_alike():
    """The first average is the first weights; then it moves 9 / (t + 10) of the way."""
    module, optimizer = make_module(), AdamW_v1(0.1, use_averages=True)
    average = None
    for step, (d_matrix, d_bias) in enumerate(GRADIENTS, start=1):
        set_gradients(module, d_matrix, d_bias)
        optimizer.step_module(7, module)
        weights = module.weight.detach().numpy().copy()
        average = weights if average is None else average
        average = average + 9 / (step + 10) * (weights - average)
    np.testing.assert_allclose(optimizer.averages[7, "weight"], average, rtol=1e-5)
    assert set(optimizer.averages) == {(7, "weight"), (7, "bias")}
    assert not np.allclose(average, module.weight.detach().numpy())


@pytest.mark.parametrize("create", [AdamW_v1, Adamax_v1])
def test_averages_of_layers_begin_with_their_weights(create):
    optimizer, weights = create(0.1, use_averages=True), MATRIX.copy()
    weights, _ = optimizer((9, "W"), weights, np.ones_like(MATRIX))
    np.testing.assert_allclose(optimizer.averages[9, "W"], weights, rtol=1e-5)
    after, _ = optimizer((9, "W"), weights.copy(), np.ones_like(MATRIX))
    expected = weights + 9 / 12 * (after - weights)
    np.testing.assert_allclose(optimizer.averages[9, "W"], expected, rtol=1e-5)
    assert np.abs(weights - MATRIX).max() > 0.05


def test_without_averages_none_are_kept():
    module, optimizer = make_module(), AdamW_v1(0.1)
    set_gradients(module, *GRADIENTS[0])
    optimizer.step_module(7, module)
    assert optimizer.averages is None


def adamax_step(state, gradient, step, *, learn_rate, decay):
    """One step of algorithm 2 of Kingma and Ba (2015), in float64, and decoupled weight decay."""
    weights, mean, largest = state
    mean = 0.9 * mean + 0.1 * gradient
    largest = np.maximum(0.999 * largest, np.abs(gradient) + 1e-8)
    weights = weights * (1 - learn_rate * decay)
    return weights - learn_rate / (1 - 0.9**step) * mean / largest, mean, largest


def test_adamax_steps_modules_and_layers_by_the_formula():
    module, optimizer = make_module(), Adamax_v1(0.01, L2=0.1, grad_clip=0.0)
    of_layer = MATRIX.copy(), BIAS.copy()
    matrix, bias = (MATRIX.astype("float64"), 0.0, 0.0), (BIAS.astype("float64"), 0.0, 0.0)
    for step, (d_matrix, d_bias) in enumerate(GRADIENTS, start=1):
        set_gradients(module, d_matrix, d_bias)
        optimizer.step_module(1, module)
        optimizer((9, "W"), of_layer[0], d_matrix.astype("float32"))
        optimizer((9, "b"), of_layer[1], d_bias.astype("float32"))
        matrix = adamax_step(matrix, d_matrix, step, learn_rate=0.01, decay=0.1)
        bias = adamax_step(bias, d_bias, step, learn_rate=0.01, decay=0.0)
    for weights in (module.weight.detach().numpy(), of_layer[0]):
        np.testing.assert_allclose(weights, matrix[0], atol=1e-6)
    for weights in (module.bias.detach().numpy(), of_layer[1]):
        np.testing.assert_allclose(weights, bias[0], atol=1e-6)


def test_adamax_without_decay_is_pytorchs_and_clips_as_it_says():
    ours, theirs = make_module(), make_module()
    optimizer = Adamax_v1(0.01, beta1=0.8, beta2=0.99, eps=1e-6, L2=0.0, grad_clip=1.0)
    reference = torch.optim.Adamax(theirs.parameters(), lr=0.01, betas=(0.8, 0.99), eps=1e-6)
    check_same_steps(optimizer, ours, reference, theirs)


def test_adamax_scales_clips_and_averages_layers():
    gradient = np.array([3.0, 4.0], dtype="float32")
    optimizer = Adamax_v1(0.01, use_averages=True)
    weights, left = optimizer((9, "b"), BIAS.copy(), gradient, lr_scale=5.0)
    np.testing.assert_allclose(weights, BIAS - 0.05, rtol=1e-5)
    np.testing.assert_allclose(optimizer.mom2[9, "b"], [0.6, 0.8], rtol=1e-5)  # of norm 1
    np.testing.assert_allclose(optimizer.averages[9, "b"], weights, rtol=1e-5)
    assert not left.any()


def test_adamax_continues_from_its_saved_state():
    one, other = make_module(), make_module()
    first, second = Adamax_v1(0.01), Adamax_v1(0.01)
    for d_matrix, d_bias in GRADIENTS[:2]:
        set_gradients(one, d_matrix, d_bias)
        first.step_module(1, one)
    other.load_state_dict(one.state_dict())
    state = {name: value.clone() for name, value in first.torch_state()[1].items()}
    second.load_torch_state(5, other, state)
    for key, optimizer, module in ((1, first, one), (5, second, other)):
        set_gradients(module, *GRADIENTS[2])
        optimizer.step_module(key, module)
    assert torch.equal(one.weight, other.weight)
    assert torch.equal(one.bias, other.bias)


def make_layer(gradient):
    layer = Linear(2, 2).initialize()
    layer.set_grad("W", np.array(gradient, dtype="float32"))
    layer.set_grad("b", np.zeros(2, dtype="float32"))
    return layer


def test_an_encoder_and_its_heads_can_be_clipped_by_the_norm_of_all_their_gradients():
    """The norm is that of 3, 4 and 12: 13."""
    module, layer = make_module(), make_layer([[12.0, 0.0], [0.0, 0.0]])
    optimizer = AdamW_v1(0.01, grad_clip=1.0, clip_together=True)
    set_gradients(module, [[3.0, 0.0], [0.0, 0.0]], [0.0, 4.0])
    optimizer.clip_with([layer])
    optimizer.step_module(1, module)
    assert float(module.weight.grad[0, 0]) == pytest.approx(3 / 13, rel=1e-5)
    assert float(module.bias.grad[1]) == pytest.approx(4 / 13, rel=1e-5)
    assert layer.get_grad("W")[0, 0] == pytest.approx(12 / 13, rel=1e-5)
    set_gradients(module, [[3.0, 0.0], [0.0, 0.0]], [0.0, 4.0])
    optimizer.step_module(1, module)  # heads count once
    assert float(module.weight.grad[0, 0]) == pytest.approx(3 / 5, rel=1e-5)


def test_otherwise_an_encoder_is_clipped_alone():
    module, layer = make_module(), make_layer([[12.0, 0.0], [0.0, 0.0]])
    optimizer = AdamW_v1(0.01, grad_clip=1.0)
    set_gradients(module, [[3.0, 0.0], [0.0, 0.0]], [0.0, 4.0])
    optimizer.clip_with([layer])
    optimizer.step_module(1, module)
    assert float(module.weight.grad[0, 0]) == pytest.approx(3 / 5, rel=1e-5)
    assert layer.get_grad("W")[0, 0] == 12.0
