"""The diagrams of the studies, as reproducible SVG with text as text."""

from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from itertools import cycle
from math import cos, pi, sin
from typing import NamedTuple

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

# Colours of dots by index, which colour-blind people can distinguish (Okabe and Ito 2008, "Color
# Universal Design").
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")

# Effects: green, red and grey as in figure 2 of Peng et al. 2020. The line styles distinguish them
# without colour.
EFFECTS = {
    "better": ("#1b7f3b", "solid", "improves"),
    "worse": ("#c0392b", "dashed", "worsens"),
    "same": ("#9a9a9a", "dotted", "no effect"),
}
BEND = 0.18  # curvature of an arrow, so that the two arrows of a pair do not overlap

# Text as text, and identifiers of parts that do not change between runs.
SVG_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "spacy-biomed"}

Point = tuple[float, float]


class Dot(NamedTuple):
    """A named point, in the units of the axes."""

    name: str
    x: float
    y: float


def draw_scatter(title: str, vertical: str, panels: Sequence[tuple[str, Sequence[Dot]]]) -> str:
    """Draw panels of dots next to each other, as an SVG document.

    Args:
        vertical: title of the vertical axis, which all panels share.
        panels: title of the horizontal axis, which starts at 0, and the dots. Dots with the same
            name have the same colour in all panels.
    """
    colours = _give_colours(dot.name for _, dots in panels for dot in dots)
    numbers = {name: number for number, name in enumerate(colours)}
    figure = Figure(figsize=(5 * len(panels) + 2, 4.5), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for place, (panel, (horizontal, dots)) in enumerate(zip(axes, panels, strict=True)):
        for dot in dots:
            identifier = f"dot-{place}-{numbers[dot.name]}"
            panel.scatter(dot.x, dot.y, color=colours[dot.name], gid=identifier)
        panel.set_xlabel(horizontal)
        panel.set_xlim(left=0)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel(vertical)
    figure.suptitle(title)
    markers = [axes[0].plot([], [], "o", color=colour)[0] for colour in colours.values()]
    _add_legend(figure, markers, list(colours))
    return _to_svg(figure)


def draw_curves(horizontal: str, panels: Mapping[str, Mapping[str, Sequence[Point]]]) -> str:
    """Draw panels of curves, by their titles, one below the other, as an SVG document."""
    figure = Figure(figsize=(8, 3 * len(panels)), layout="constrained")
    several = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, curves) in zip(several, panels.items(), strict=True):
        for points, colour in zip(curves.values(), cycle(COLOURS), strict=False):
            axes.plot(*zip(*points, strict=True), ".-", color=colour)
        axes.legend(axes.lines, [*curves])
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
    several[-1].set_xlabel(horizontal)
    return _to_svg(figure)


class ScoredRow(NamedTuple):
    """The scores of a row of a study with a corpus, of 100 points.

    Attributes:
        value: a large dot.
        scores: of the single runs, which are small dots.
        published: what a paper has, which is a cross; None for none.
    """

    name: str
    value: float
    scores: Sequence[float]
    published: float | None


def draw_scores(title: str, groups: Mapping[str, Sequence[ScoredRow]]) -> str:
    """Draw groups of scores, a line for each, as an SVG document.

    Args:
        groups: rows by the name of the group. Rows with the same name have the same colour.
    """
    colours = _give_colours(row.name for rows in groups.values() for row in rows)
    height = sum(len(rows) + 1 for rows in groups.values())
    figure = Figure(figsize=(9, 1.8 + 0.22 * height), layout="constrained")
    axes = figure.subplots()
    place, ticks = 0, []
    for rows in groups.values():
        ticks.append(place + (len(rows) - 1) / 2)
        for row in rows:
            colour = colours[row.name]
            axes.axhline(place, color="#e5e5e5", linewidth=0.7, zorder=0)
            axes.plot(row.value, place, "o", color=colour, markersize=7)
            axes.plot(row.scores, [place] * len(row.scores), ".", color=colour, markersize=4)
            if row.published is not None:
                axes.plot(row.published, place, "x", color=colour, markersize=7)
            place += 1
        place += 1
    axes.set_yticks(ticks, list(groups))
    axes.invert_yaxis()
    axes.set_xlabel("score on the test part")
    axes.grid(axis="x", alpha=0.3)
    figure.suptitle(title)
    styles = [*(("o", colour) for colour in colours.values()), ("x", "black")]
    marks = [axes.plot([], [], mark, color=colour)[0] for mark, colour in styles]
    _add_legend(figure, marks, [*colours, "published"])
    return _to_svg(figure)


def draw_effects(tasks: list[str], changes: dict[tuple[str, str], float], margin: float) -> str:
    """Draw tasks in a circle, with arrows from their companions, as an SVG document.

    Green arrows mean better scores, red dashed arrows worse scores, grey dotted arrows no effect,
    as in figure 2 of Peng et al. 2020. The change in points is next to each arrow.

    Args:
        tasks: names, in the order of the circle.
        changes: by task and companion, the change of the task's score in points.
        margin: smallest change, in points, that counts as an effect.
    """
    side = 5 + 0.5 * len(tasks)
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
    axes.set_axis_off()
    places = {task: _place(number, len(tasks)) for number, task in enumerate(tasks)}
    for number, ((task, companion), change) in enumerate(changes.items()):
        kind = effect(change, margin)
        _draw_arrow(axes, places[companion], places[task], change, kind, f"{kind}-{number}")
    for task, place in places.items():
        box = {"boxstyle": "round", "facecolor": "#f3f6fa", "edgecolor": "#34495e"}
        axes.text(*place, task, ha="center", va="center", bbox=box)
    for colour, style, _ in EFFECTS.values():
        axes.plot([], [], color=colour, linestyle=style)
    meanings = [meaning for _, _, meaning in EFFECTS.values()]
    meanings[-1] += f" (less than {margin:g} points)"
    _add_legend(figure, axes.lines, meanings)
    figure.suptitle("What training together brings each task, in points")
    return _to_svg(figure)


def effect(change: float, margin: float) -> str:
    """Classify a change in points as "better", "worse" or "same" (less than the margin)."""
    if abs(change) < margin:
        return "same"
    return "better" if change > 0 else "worse"


def _place(number: int, count: int) -> Point:
    """A point on the circle of radius 1: the first at the top, the others clockwise."""
    angle = pi / 2 - 2 * pi * number / count
    return cos(angle), sin(angle)


def _draw_arrow(axes: Axes, start: Point, end: Point, change: float, kind: str, name: str) -> None:
    """Draw an arrow that curves to the left, with the change near its head; `name` is its id."""
    colour, style, _ = EFFECTS[kind]
    bent = {"connectionstyle": f"arc3,rad={-BEND}", "shrinkA": 18, "shrinkB": 22}
    head = {"arrowstyle": "-|>", "mutation_scale": 12}
    line = {"color": colour, "linestyle": style, "gid": name}
    axes.add_patch(FancyArrowPatch(start, end, **bent, **head, **line))
    x, y = end[0] - start[0], end[1] - start[1]
    label = start[0] + 0.66 * x - 0.75 * BEND * y, start[1] + 0.66 * y + 0.75 * BEND * x
    axes.text(*label, f"{change:+.1f}", color=colour, ha="center", va="center", fontsize=9)


def _give_colours(names: Iterable[str]) -> dict[str, str]:
    return dict(zip(dict.fromkeys(names), cycle(COLOURS), strict=False))


def _add_legend(figure: Figure, handles: Sequence[Artist], names: list[str]) -> None:
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))


def _to_svg(figure: Figure) -> str:
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    file = StringIO()
    with matplotlib.rc_context(SVG_SETTINGS):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
