"""The figure of a pairwise study: tasks in a circle, an arrow for what each brings the other."""

from __future__ import annotations

from math import cos, hypot, pi, sin
from xml.sax.saxutils import escape

# Green, red and grey as in the paper; the dashes tell them apart without colour.
COLOURS = {"better": "#1b7f3b", "worse": "#c0392b", "same": "#9a9a9a"}
DASHES = {"better": "", "worse": "7 4", "same": "2 4"}
LEGEND = {"better": "improves", "worse": "worsens", "same": "no effect"}

# Of the circle, which grows with the tasks on it, and what is around it.
SMALLEST_RADIUS, RADIUS_PER_TASK = 215.0, 48.0
SIDE, TOP, BOTTOM = 205.0, 70.0, 100.0
NODE_HEIGHT = 30.0
CHARACTER_WIDTH = 8.2
BEND = 26.0  # of an arrow, so that the two of a pair do not lie on each other

Point = tuple[float, float]


def draw_figure(tasks: list[str], changes: dict[tuple[str, str], float], margin: float) -> str:
    """Draw an arrow to each task from each that it was trained with.

    Green arrows stand for better scores, red dashed ones for worse, grey dotted ones for no effect,
    as in figure 2 of Peng et al. 2020, with the change in points beside each.

    tasks: names, in the order of the circle.
    changes: by task and companion, the points that the companion brings the task.
    margin: smallest change, in points, that counts as an effect.
    RETURNS: an SVG document.
    """
    radius = max(SMALLEST_RADIUS, RADIUS_PER_TASK * len(tasks))
    width, height = 2 * (SIDE + radius), TOP + 2 * radius + BOTTOM
    places = {task: _place(i, len(tasks), radius) for i, task in enumerate(tasks)}
    arrows = [
        line
        for (task, companion), change in changes.items()
        for line in _draw_arrow(places[companion], places[task], task, change, margin)
    ]
    nodes = [line for task, place in places.items() for line in _draw_node(place, task)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        'font-family="sans-serif" font-size="13">'
    )
    return "\n".join(
        [
            head,
            "<title>What training together brings each task, in points</title>",
            f"<defs>{''.join(map(_draw_marker, COLOURS))}</defs>",
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *arrows,
            *nodes,
            *_draw_legend(margin, height - 25),
            "</svg>\n",
        ]
    )


def effect(change: float, margin: float) -> str:
    """Whether a change of so many points is "better", "worse" or the "same"."""
    if abs(change) < margin:
        return "same"
    return "better" if change > 0 else "worse"


def _place(number: int, count: int, radius: float) -> Point:
    angle = 2 * pi * number / count - pi / 2
    return SIDE + radius * (1 + cos(angle)), TOP + radius * (1 + sin(angle))


def _draw_marker(kind: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{COLOURS[kind]}"/>'
        "</marker>"
    )


def _draw_arrow(start: Point, end: Point, task: str, change: float, margin: float) -> list[str]:
    """A curve bent to the left of its direction, with the change beside it nearer its head."""
    kind = effect(change, margin)
    length = hypot(end[0] - start[0], end[1] - start[1])
    along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
    aside = (along[1], -along[0])
    control = _at(start, end, 0.5, aside, 2 * BEND)
    tip = _leave_node(end, control, task)
    dash = f' stroke-dasharray="{DASHES[kind]}"' if DASHES[kind] else ""
    label = _at(start, end, 0.66, aside, 1.45 * BEND)
    return [
        f'<path d="M{start[0]:.1f} {start[1]:.1f}Q{control[0]:.1f} {control[1]:.1f} '
        f'{tip[0]:.1f} {tip[1]:.1f}" fill="none" stroke="{COLOURS[kind]}" stroke-width="2"{dash} '
        f'marker-end="url(#{kind})"/>',
        f'<text x="{label[0]:.1f}" y="{label[1]:.1f}" text-anchor="middle" '
        f'fill="{COLOURS[kind]}" font-size="11">{change:+.1f}</text>',
    ]


def _at(start: Point, end: Point, share: float, aside: Point, distance: float) -> Point:
    """A point on the way from start to end, and so far aside."""
    x, y = (start[i] + share * (end[i] - start[i]) + distance * aside[i] for i in (0, 1))
    return x, y


def _leave_node(centre: Point, towards: Point, task: str) -> Point:
    """Where the line from a node's centre leaves its box."""
    x, y = towards[0] - centre[0], towards[1] - centre[1]
    half_width, half_height = _width(task) / 2 + 2, NODE_HEIGHT / 2 + 2
    scale = min(
        half_width / abs(x) if x else float("inf"), half_height / abs(y) if y else float("inf")
    )
    return centre[0] + scale * x, centre[1] + scale * y


def _width(task: str) -> float:
    return max(CHARACTER_WIDTH * len(task) + 18, 60.0)


def _draw_node(place: Point, task: str) -> list[str]:
    width = _width(task)
    return [
        f'<rect x="{place[0] - width / 2:.1f}" y="{place[1] - NODE_HEIGHT / 2:.1f}" '
        f'width="{width:.1f}" height="{NODE_HEIGHT:g}" rx="8" fill="#f3f6fa" stroke="#34495e"/>',
        f'<text x="{place[0]:.1f}" y="{place[1] + 4.5:.1f}" text-anchor="middle">'
        f"{escape(task)}</text>",
    ]


def _draw_legend(margin: float, y: float) -> list[str]:
    lines = []
    for i, (kind, meaning) in enumerate(LEGEND.items()):
        x = 40 + 200 * i
        dash = f' stroke-dasharray="{DASHES[kind]}"' if DASHES[kind] else ""
        text = f"{meaning} (less than {margin:g} points)" if kind == "same" else meaning
        lines += [
            f'<path d="M{x} {y}h40" stroke="{COLOURS[kind]}" stroke-width="2"{dash} '
            f'marker-end="url(#{kind})"/>',
            f'<text x="{x + 50}" y="{y + 4}">{escape(text)}</text>',
        ]
    return lines
