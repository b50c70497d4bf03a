"""Checks of numbers on the command line that typer's min and max cannot make."""

from __future__ import annotations

import math

import typer

LARGEST_SEED = 2**32 - 1  # of NumPy's generators


def above_zero(value: float | None) -> float | None:
    """Raise BadParameter if a value is zero, negative, infinite or not a number."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value} is not a number above 0")
    return value


def at_least_zero(value: float | None) -> float | None:
    """Raise BadParameter if a value is negative, infinite or not a number."""
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value} is not a number of 0 or more")
    return value


def from_0_to_1(value: float | None) -> float | None:
    """Raise BadParameter if a value is not a number from 0 to 1."""
    if value is not None and not 0 <= value <= 1:
        raise typer.BadParameter(f"{value} is not a number from 0 to 1")
    return value
