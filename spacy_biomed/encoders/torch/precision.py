"""The number format of the encoder's matrix products."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache, partial
from timeit import repeat
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Precision = Literal["auto", "fp32", "bf16", "fp16"]


def resolve_precision(precision: Precision, device: torch.device) -> str:
    """Resolve "auto": bf16 if the device computes it faster than fp32, else fp32.

    "fp16", which needs a GPU, is resolved the same way on other devices, so that a pipeline trained
    with it opens on any machine.
    """
    if precision != "auto" and not (precision == "fp16" and device.type != "cuda"):
        return precision
    return "bf16" if _bf16_is_faster(device.type) else "fp32"


@lru_cache
def _bf16_is_faster(device_type: str) -> bool:
    """Time the matrix product that dominates a small encoder in both formats.

    Processors without bf16 instructions emulate them, many times slower. The ratio is far from 1 in
    either case, so timing noise does not affect the choice.
    """
    import torch

    if device_type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device_type != "cpu":
        return False
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        left = torch.ones((1024, 384), dtype=dtype)
        right = torch.ones((384, 1536), dtype=dtype)
        seconds[dtype] = min(repeat(partial(torch.matmul, left, right), number=1, repeat=5))
    return seconds[torch.bfloat16] < 0.8 * seconds[torch.float32]


def autocast(precision: str, device: torch.device) -> AbstractContextManager:
    import torch

    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "fp32")
