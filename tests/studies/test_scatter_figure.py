"""Figures of named dots: where they lie, and that their names can be read."""

from xml.etree import ElementTree

import pytest

from spacy_biomed.studies.scatter_figure import (
    COLOURS,
    LABEL_HEIGHT,
    PANEL_HEIGHT,
    TOP,
    Dot,
    Scale,
    create_scale,
    draw_scatter,
    round_step,
    spread_labels,
)

SVG = "{http://www.w3.org/2000/svg}"


def read(panels):
    return ElementTree.fromstring(draw_scatter("Title <", "F1 & more", panels))


def test_values_lie_between_the_ends_of_a_scale_in_their_order():
    scale = Scale(10, 30, 100, 300)
    assert [scale.place(value) for value in (10, 15, 30)] == [100, 150, 300]


def test_a_scale_that_runs_upwards_places_larger_values_higher():
    scale = create_scale(50, 60, 400, 100)
    assert (scale.low, scale.high) == (pytest.approx(49.2), pytest.approx(60.8))
    assert 100 < scale.place(60) < scale.place(50) < 400


def test_one_value_alone_has_a_scale():
    scale = create_scale(50, 50, 400, 100)
    assert scale.place(50) == 250


def test_a_scale_from_0_begins_there():
    assert create_scale(0, 20, 0, 1).low == 0


@pytest.mark.parametrize(("step", "round"), [(0.9, 1), (1, 1), (1.2, 2), (3, 5), (51, 100)])
def test_steps_are_round(step, round):
    assert round_step(step) == pytest.approx(round)


def test_ticks_are_round_values_within_the_scale():
    assert Scale(48.4, 61.0, 0, 1).ticks() == [50, 55, 60]
    assert Scale(0, 20000, 0, 1).ticks() == [0, 5000, 10000, 15000, 20000]


def test_labels_that_have_room_stay_where_they_are_wanted():
    assert spread_labels([100, 40, 70], 0, 200) == [100, 40, 70]


def test_labels_that_would_lie_on_each_other_are_moved_apart_in_their_order():
    wanted = [100, 100, 99, 101]
    heights = spread_labels(wanted, 0, 200)
    order = [heights[i] for i in (2, 0, 1, 3)]
    assert [b - a for a, b in zip(order, order[1:], strict=False)] == [LABEL_HEIGHT] * 3


def test_labels_stay_in_the_panel():
    heights = spread_labels([198, 199, 200], 0, 200)
    assert heights[2] == 200 - LABEL_HEIGHT / 2
    assert min(heights) == heights[2] - 2 * LABEL_HEIGHT


def test_dots_lie_where_their_values_are_in_every_panel():
    root = read([("speed", [Dot("a", 100, 50), Dot("b", 200, 60)]), ("size", [Dot("b", 4, 60)])])
    circles = root.findall(f"{SVG}circle")
    places = [(float(one.get("cx")), float(one.get("cy"))) for one in circles]
    colours = [one.get("fill") for one in circles]
    assert len(circles) == 3
    by_colour = dict(zip(colours[:2], places[:2], strict=True))
    assert by_colour[COLOURS[0]][0] < by_colour[COLOURS[1]][0]
    assert by_colour[COLOURS[0]][1] > by_colour[COLOURS[1]][1]
    assert places[2][1] == by_colour[COLOURS[1]][1] and colours[2] == COLOURS[1]
    assert all(TOP < y < TOP + PANEL_HEIGHT for _, y in places)


def test_titles_and_names_are_there_whatever_characters_they_have():
    root = read([("size <MB>", [Dot("a & b", 1, 2), Dot("c", 5, 2)])])
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"Title <", "F1 & more", "size <MB>", "a & b", "c"} <= set(texts)
    anchors = {text.text: text.get("text-anchor") for text in root.iter(f"{SVG}text")}
    assert (anchors["a & b"], anchors["c"]) == ("start", "end")


def test_names_of_dots_that_are_near_each_other_lie_beside_all_of_them():
    dots = [Dot("a", 90, 5), Dot("b", 100, 5.01), Dot("far", 60, 5)]
    root = read([("speed", dots)])
    centres = dict(zip("abf", [float(c.get("cx")) for c in root.iter(f"{SVG}circle")], strict=True))
    ends = {text.text: float(text.get("x", "0")) for text in root.iter(f"{SVG}text")}
    assert ends["a"] == ends["b"] < centres["a"] < centres["b"]
    assert ends["far"] < centres["f"] < ends["a"]
