"""Figures of named dots in panels that share their vertical axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple
from xml.sax.saxutils import escape

# By the place of a dot among all: colours that are told apart without red and green too (Okabe and
# Ito 2008, "Color Universal Design").
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
)

PANEL_WIDTH, PANEL_HEIGHT = 460.0, 340.0
LEFT, TOP, BOTTOM, GAP, RIGHT = 70.0, 50.0, 60.0, 50.0, 25.0
MARGIN = 0.08  # of an axis, beyond the outermost dots
RADIUS = 5.0
LABEL_DISTANCE, LABEL_HEIGHT, NEAR = 14.0, 15.0, 60.0
TICKS = 5  # about


class Dot(NamedTuple):
    """A name at a place, in the units of the axes."""

    name: str
    x: float
    y: float


class Scale(NamedTuple):
    """A linear map from values to places in the drawing.

    low, high: values at both ends. start, end: places of them.
    """

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within."""
        step = round_step((self.high - self.low) / TICKS)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def draw_scatter(title: str, vertical: str, panels: Sequence[tuple[str, Sequence[Dot]]]) -> str:
    """Draw panels beside each other.

    vertical: title of the vertical axis, which all panels share.
    panels: title of the horizontal axis, which begins at 0, and the dots. A dot has the same colour
        in all.
    RETURNS: an SVG document.
    """
    names = list(dict.fromkeys(dot.name for _, dots in panels for dot in dots))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    values = [dot.y for _, dots in panels for dot in dots]
    width = LEFT + len(panels) * (PANEL_WIDTH + GAP) - GAP + RIGHT
    height = TOP + PANEL_HEIGHT + BOTTOM
    y = create_scale(min(values), max(values), TOP + PANEL_HEIGHT, TOP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="{LEFT:g}" y="28" font-size="14">{escape(title)}</text>',
        f'<text transform="translate(20 {TOP + PANEL_HEIGHT / 2:g}) rotate(-90)" '
        f'text-anchor="middle">{escape(vertical)}</text>',
    ]
    for number, (horizontal, dots) in enumerate(panels):
        left = LEFT + number * (PANEL_WIDTH + GAP)
        x = create_scale(0.0, max(dot.x for dot in dots), left, left + PANEL_WIDTH)
        lines += _draw_axes(horizontal, x, y)
        lines += _draw_dots(dots, x, y, colours)
    return "\n".join([*lines, "</svg>\n"])


def create_scale(least: float, most: float, start: float, end: float) -> Scale:
    """A scale with some room beyond the values, but none below 0 for values from 0 on."""
    room = MARGIN * (most - least) or 1.0
    return Scale(least - room if least else 0.0, most + room, start, end)


def round_step(step: float) -> float:
    """The next of 1, 2 and 5 times a power of 10 that is no smaller."""
    power = 10.0 ** floor(log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _draw_axes(title: str, x: Scale, y: Scale) -> list[str]:
    right, bottom = x.end, y.start
    lines = [
        f'<rect x="{x.start:g}" y="{y.end:g}" width="{right - x.start:g}" '
        f'height="{bottom - y.end:g}" fill="none" stroke="#888888"/>',
        f'<text x="{(x.start + right) / 2:g}" y="{bottom + 42:g}" text-anchor="middle">'
        f"{escape(title)}</text>",
    ]
    for value in y.ticks():
        place = y.place(value)
        lines += [
            f'<path d="M{x.start:g} {place:.1f}H{right:g}" stroke="#e4e4e4"/>',
            f'<text x="{x.start - 6:g}" y="{place + 4:.1f}" text-anchor="end">{value:,g}</text>',
        ]
    for value in x.ticks():
        place = x.place(value)
        lines += [
            f'<path d="M{place:.1f} {bottom:g}v5" stroke="#888888"/>',
            f'<text x="{place:.1f}" y="{bottom + 19:g}" text-anchor="middle">{value:,g}</text>',
        ]
    return lines


def _draw_dots(dots: Sequence[Dot], x: Scale, y: Scale, colours: dict[str, str]) -> list[str]:
    """Dots with their names on the side where there is room, a thin line between the two."""
    lines = []
    middle = (x.start + x.end) / 2
    for names_on_right in (True, False):
        side = [dot for dot in dots if (x.place(dot.x) < middle) == names_on_right]
        heights = spread_labels([y.place(dot.y) for dot in side], y.end, y.start)
        shift, anchor = (LABEL_DISTANCE, "start") if names_on_right else (-LABEL_DISTANCE, "end")
        outermost = max if names_on_right else min
        places = [x.place(dot.x) for dot in side]
        for dot, height in zip(side, heights, strict=True):
            across, down, colour = x.place(dot.x), y.place(dot.y), colours[dot.name]
            # Beside all dots that are near, so that no name lies on one.
            label = shift + outermost(place for place in places if abs(place - across) < NEAR)
            lines += [
                f'<path d="M{across:.1f} {down:.1f}L{label - shift / 7:.1f} {height:.1f}" '
                f'stroke="{colour}" stroke-width="0.8"/>',
                f'<circle cx="{across:.1f}" cy="{down:.1f}" r="{RADIUS:g}" fill="{colour}"/>',
                f'<text x="{label:.1f}" y="{height + 4:.1f}" text-anchor="{anchor}" '
                f'fill="{colour}">{escape(dot.name)}</text>',
            ]
    return lines


def spread_labels(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Heights of labels, as near to those wanted as goes without one on another.

    wanted: heights in any order. top, bottom: between which they stay, if they all fit there.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    heights = [0.0] * len(wanted)
    last = top - LABEL_HEIGHT / 2
    for i in order:
        last = heights[i] = max(wanted[i], last + LABEL_HEIGHT)
    limit = bottom + LABEL_HEIGHT / 2
    for i in reversed(order):
        limit = heights[i] = min(heights[i], limit - LABEL_HEIGHT)
    return heights
