"""`spacy_biomed.warmup_constant.v1` and `cosine.v1`, schedules that thinc does not have."""

from collections.abc import Iterator
from itertools import count
from math import cos, pi

from ..errors import BiomedError


def warmup_constant_v1(rate: float, warmup_steps: int) -> Iterator[float]:
    """Create a schedule that rises from 0 in a line and then stays, as for a learning rate.

    Without warm-up it is thinc's `constant.v1`; with a linear decline after it `warmup_linear.v1`.

    Args:
        rate: after the warm-up.
        warmup_steps: steps until then; 0 for none.

    Raises:
        BiomedError: if `warmup_steps` is negative.
    """
    if warmup_steps < 0:
        raise BiomedError(f"warmup_steps is {warmup_steps}: use 0 for none, or more")
    return (rate * step / warmup_steps if step < warmup_steps else rate for step in count())


def cosine_v1(rate: float, total_steps: int) -> Iterator[float]:
    """Create a schedule that falls from a rate to 0 as half a cosine, and stays there.

    Raises:
        BiomedError: if `total_steps` is not positive.
    """
    if total_steps < 1:
        raise BiomedError(f"total_steps is {total_steps}: use 1 or more")
    return (rate * (1 + cos(pi * min(step / total_steps, 1))) / 2 for step in count())
