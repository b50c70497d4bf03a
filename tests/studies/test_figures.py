"""The diagrams of the studies: positions of their parts, and readable names."""

import re
from xml.etree import ElementTree

import pytest

from spacy_biomed.studies.figures import (
    COLOURS,
    EFFECTS,
    Dot,
    ScoredRow,
    draw_effects,
    draw_scatter,
    draw_scores,
    effect,
)

SVG = "{http://www.w3.org/2000/svg}"
PANELS = [
    ("speed <words>", [Dot("a & $1$", 100, 50), Dot("b", 200, 60)]),
    ("size", [Dot("b", 4, 60)]),
]
CHANGES = {("a", "b<c"): 1.25, ("b<c", "a"): -0.5, ("a", "d"): 0.2, ("d", "a"): 0.0}
CHANGES |= {("b<c", "d"): 3.0, ("d", "b<c"): -4.0}


def read_texts(svg):
    return [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def find_dots(svg):
    """Position and colour of the dots, by panel and encoder."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if (group.get("id") or "").startswith("dot-"):
            [use] = group.iter(f"{SVG}use")
            colour = re.search("fill: (#[0-9a-f]{6})", use.get("style"))[1]
            found[group.get("id")] = float(use.get("x")), float(use.get("y")), colour
    return found


def test_dots_lie_where_their_values_are_in_every_panel():
    dots = find_dots(draw_scatter("title", "F1", PANELS))
    assert set(dots) == {"dot-0-0", "dot-0-1", "dot-1-1"}
    (left, low, _), (right, high, _) = dots["dot-0-0"], dots["dot-0-1"]
    assert left < right and low > high  # SVG's vertical axis points down
    assert dots["dot-1-1"][1] == high and dots["dot-1-1"][0] > right


def test_a_name_has_one_colour_in_every_panel():
    dots = find_dots(draw_scatter("title", "F1", PANELS))
    assert [colour for _, _, colour in dots.values()] == [COLOURS[0], COLOURS[1], COLOURS[1]]


def test_titles_and_names_are_text_whatever_characters_they_have():
    texts = read_texts(draw_scatter("Title $x$ <", "F1 & more", PANELS))
    assert {"Title $x$ <", "F1 & more", "speed <words>", "size", "a & $1$", "b"} <= set(texts)


def test_every_change_is_told_and_drawn_as_its_effect():
    svg = draw_effects(["a", "b<c", "d"], CHANGES, margin=0.5)
    texts = read_texts(svg)
    assert {"+1.2", "-0.5", "+0.2", "+0.0", "+3.0", "-4.0"} <= set(texts)
    assert {"a", "b<c", "d", "no effect (less than 0.5 points)"} <= set(texts)
    groups = [group.get("id") or "" for group in ElementTree.fromstring(svg).iter(f"{SVG}g")]
    kinds = [name.partition("-")[0] for name in groups]
    assert [kind for kind in kinds if kind in EFFECTS] == [effect(c, 0.5) for c in CHANGES.values()]


@pytest.mark.slow
def test_the_same_figures_give_the_same_bytes():
    assert draw_scatter("title", "F1", PANELS) == draw_scatter("title", "F1", PANELS)
    drawn = [draw_effects(["a", "b<c", "d"], CHANGES, 0.5) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("change", "expected"), [(0.5, "better"), (0.49, "same"), (-0.49, "same"), (-0.5, "worse")]
)
def test_less_than_the_margin_is_no_effect(change, expected):
    assert effect(change, 0.5) == expected


def test_rows_have_their_scores_and_the_published_figure():
    groups = {
        "a & b": [ScoredRow("one", 80.0, [79.0, 81.0], 85.0), ScoredRow("two", 70.0, [70.0], None)],
        "c": [ScoredRow("one", 60.0, [60.0], None)],
    }
    svg = draw_scores("Scores $1$", groups)
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    for name in ("Scores $1$", "a & b", "c", "one", "two", "published"):
        assert name in texts
    assert svg == draw_scores("Scores $1$", groups)
