"""The site's first page, what its configuration lists, and the picture of the rooms."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


def read_blocks(page: str) -> list[str]:
    text = (REPOSITORY / page).read_text(encoding="utf8")
    return re.findall(r"^```\w+\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_commands_and_the_code_of_the_quick_start_are_the_readmes():
    quick_start = read_blocks("docs/index.md")
    assert quick_start
    assert set(quick_start) <= set(read_blocks("README.md"))


def test_every_room_with_public_names_has_a_page_in_the_reference():
    rooms = [
        ".".join(path.relative_to(REPOSITORY).parent.parts)
        for path in (REPOSITORY / "spacy_biomed").rglob("__init__.pyi")
    ]
    site = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf8")
    pages = re.findall(r"reference/(spacy_biomed[\w.]*)\.md", site)
    assert sorted(pages) == sorted(rooms)


def test_the_picture_of_the_rooms_shows_the_layers_of_the_contract():
    """Where it does not: python docs/draw_rooms.py"""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    picture = (REPOSITORY / "docs" / "rooms.svg").read_text(encoding="utf8")
    shown = re.findall(r'y="(\d+)" font-weight="bold">(\w+)<', picture)
    rows = [[room for y, room in shown if y == row] for row in dict.fromkeys(y for y, _ in shown)]
    assert rows == [layer.split(" | ") for layer in layers]
