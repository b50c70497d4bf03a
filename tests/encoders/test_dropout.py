import pytest
import torch

from spacy_biomed.encoders.torch.dropout import ByteDropout, use_byte_dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_is_zeroed_and_the_rest_scaled(dtype):
    torch.manual_seed(0)
    inputs = torch.ones(1000, 999, dtype=dtype, requires_grad=True)
    output = ByteDropout(0.1)(inputs)
    assert output.dtype == dtype
    zeroed = (output == 0).float().mean().item()
    assert zeroed == pytest.approx(26 / 256, abs=0.002)
    kept = output[output != 0].float()
    assert torch.allclose(kept, torch.full_like(kept, 256 / 230), rtol=1e-2)
    output.sum().backward()
    assert torch.equal(inputs.grad, output.detach())  # of ones: the same mask and scale


def test_every_bit_of_the_random_numbers_counts():
    """An eighth of the elements lie in the byte of a number's sign."""
    torch.manual_seed(0)
    output = ByteDropout(0.5)(torch.ones(80_000))
    for place in range(8):
        assert (output[place::8] == 0).float().mean().item() == pytest.approx(0.5, abs=0.02)


def test_nothing_is_zeroed_in_prediction_or_without_probability():
    inputs = torch.rand(10, 3)
    assert torch.equal(ByteDropout(0.5).eval()(inputs), inputs)
    assert torch.equal(ByteDropout(0.0)(inputs), inputs)


def test_the_seed_governs():
    inputs = torch.ones(100)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(ByteDropout(0.5)(inputs))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_layers_are_replaced_at_any_depth():
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.3))
    module = torch.nn.Sequential(inner, torch.nn.Dropout(0.2), torch.nn.Dropout(1.0))
    use_byte_dropout(module)
    assert [type(layer).__name__ for layer in (inner[1], module[1], module[2])] == [
        "ByteDropout",
        "ByteDropout",
        "Dropout",
    ]
    assert (inner[1].p, module[1].p) == (0.3, 0.2)


def test_layers_that_predict_go_on_predicting():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5)).eval()
    use_byte_dropout(module)
    assert isinstance(module[1], ByteDropout)
    assert not module[1].training
