"""Draw `docs/rooms.svg` from the layers in `pyproject.toml` and the docstrings of the packages.

Run it when rooms or their layers change: python docs/draw_rooms.py
"""

from __future__ import annotations

import ast
import textwrap
from html import escape
from pathlib import Path

import tomllib

REPOSITORY = Path(__file__).parents[1]
PICTURE = REPOSITORY / "docs" / "rooms.svg"

# In pixels.
WIDTH, GAP, MARGIN = 800, 10, 20
LINE, LETTER = 16, 6.4
COLOURS = ("#e8eef7", "#d5e2f2")


def read_layers() -> list[list[str]]:
    """The rooms of each layer, the highest first."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [layer.split(" | ") for layer in layers]


def read_description(room: str) -> str:
    """The first line of the docstring of a package; nothing for a module."""
    path = REPOSITORY / "spacy_biomed" / room / "__init__.py"
    if not path.exists():
        return ""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf8"))) or ""
    return docstring.partition("\n")[0].replace("`", "")


def draw() -> str:
    """Draw each layer as a row of boxes."""
    top, rows = MARGIN, []
    for number, rooms in enumerate(read_layers()):
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        letters = int((width - 2 * GAP) / LETTER)
        texts = [textwrap.wrap(read_description(room), letters) for room in rooms]
        height = LINE * (1 + max(map(len, texts))) + GAP
        for place, (room, lines) in enumerate(zip(rooms, texts, strict=True)):
            left = MARGIN + place * (width + GAP)
            rows.append(draw_box(left, top, width, height, COLOURS[number % 2], room, lines))
        top += height + GAP
    height = top - GAP + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            ' font-family="sans-serif" font-size="12" fill="#1a1a1a">',
            "<title>The rooms of spacy_biomed: each imports from those below it</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *rows,
            "</svg>\n",
        ]
    )


def draw_box(
    left: float, top: int, width: float, height: int, colour: str, room: str, lines: list[str]
) -> str:
    """Draw one room: its name, and its description below."""
    x = f"{left + GAP:.0f}"
    texts = [
        f'<text x="{x}" y="{top + LINE * (number + 2)}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{height}" rx="4"'
            f' fill="{colour}" stroke="#7a8ba3"/>',
            f'<text x="{x}" y="{top + LINE}" font-weight="bold">{escape(room)}</text>',
            *texts,
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf8")
