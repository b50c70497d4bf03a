"""Faster dropout on a CPU, with fewer random numbers."""

import torch


class ByteDropout(torch.nn.Module):
    """Dropout (Srivastava et al. 2014) that uses one random byte per element.

    On a CPU, PyTorch's dropout draws a 64-bit number per element, one after the other, which takes
    a tenth of the time of fine-tuning. The probability is rounded to a multiple of 1/256, and the
    kept elements are scaled accordingly, so the expectation stays exact.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.threshold = min(round(256 * p), 255)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.training or self.threshold == 0:
            return inputs
        count = inputs.numel()
        # From the smallest integer up, so that all 64 bits are random.
        words = torch.empty(-(-count // 8), dtype=torch.int64)
        words.random_(-(2**63), None)
        kept = words.view(torch.uint8)[:count].view(inputs.shape) >= self.threshold
        return inputs * kept.to(inputs.dtype).mul_(256 / (256 - self.threshold))


def use_byte_dropout(module: torch.nn.Module) -> None:
    """Replace all dropout layers of a module that computes on a CPU."""
    for name, layer in module.named_children():
        if isinstance(layer, torch.nn.Dropout) and layer.p < 1.0:
            setattr(module, name, ByteDropout(layer.p).train(layer.training))
        else:
            use_byte_dropout(layer)
