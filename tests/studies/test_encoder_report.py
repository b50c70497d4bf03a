"""The report of a study of encoders, compared with values calculated by hand."""

import json
from xml.etree import ElementTree

import pytest

from spacy_biomed.studies.encoder_report import (
    EncoderFigures,
    create_table,
    describe_settings,
    write_report,
)

SETTINGS = {
    "epochs": {"x": 2, "y": 1},
    "learn_rate": 2e-4,
    "batch_words": 1400,
    "seeds": [0, 1],
    "texts": "9 texts (test part of x)",
    "threads": None,
    "repeats": 5,
}


@pytest.fixture
def figures():
    return [
        EncoderFigures(
            "large",
            22_700_000,
            23_100_000,
            4321.6,
            {"x": [0.8, 0.7], "y": [0.5, 0.6]},
            {"x": [0.79, 0.71], "y": [0.5, 0.5]},
        ),
        EncoderFigures(
            "small", 5_040_000, 5_200_000, 12345.6, {"x": [0.7, 0.7], "y": [0.4, 0.4]}, {"x": [0.5]}
        ),
    ]


def test_the_mean_is_over_corpora_of_means_over_seeds(figures):
    assert figures[0].mean == pytest.approx(100 * (0.75 + 0.55) / 2)
    assert figures[0].int8_mean == pytest.approx(100 * (0.75 + 0.5) / 2)


def test_a_row_of_the_table_has_every_figure_and_the_difference_from_the_baseline(figures):
    rows = create_table(figures, "small").splitlines()
    assert rows[0] == (
        "| encoder | parameters | fp16 | int8 | words/s | x | y | mean F1 | int8: mean F1 "
        "| against small |"
    )
    assert rows[2] == (
        "| large | 22.70 M | 45.4 MB | 23.1 MB | 4,322 | 75.00 (80.00, 70.00) "
        "| 55.00 (50.00, 60.00) | 65.00 | 62.50 | +10.00 |"
    )
    assert rows[3].endswith("| 55.00 | 50.00 |  |")
    assert {row.count("|") for row in rows} == {11}


def test_without_a_baseline_and_with_one_seed_the_table_has_no_more_than_the_scores():
    one = EncoderFigures("a", 1_000_000, 900_000, 10.0, {"x": [0.5]}, {"x": [0.4]})
    rows = create_table([one], None).splitlines()
    assert rows[2] == "| a | 1.00 M | 2.0 MB | 0.9 MB | 10 | 50.00 | 50.00 | 40.00 |"


def test_the_paragraph_says_what_is_the_same_for_all():
    text = describe_settings(SETTINGS)
    assert "seeds (0, 1 in this order); epochs: x 2, y 1; learning rate 0.0002" in text
    assert "test parts, seed 3; epochs" in describe_settings({**SETTINGS, "seeds": [3]})
    assert "batches of 1,400 words" in text and "on 9 texts (test part of x)." in text


def test_all_figures_and_a_figure_are_written(figures, tmp_path):
    write_report(figures, tmp_path, "small", SETTINGS)
    results = json.loads((tmp_path / "encoders.json").read_text())
    assert results["baseline"] == "small"
    first = results["encoders"][0]
    assert (first["mean"], first["fp16_bytes"], first["f1"]["x"]) == (65.0, 45_400_000, [0.8, 0.7])
    ElementTree.parse(tmp_path / "encoders.svg")
    assert (tmp_path / "encoders.md").read_text().startswith("| encoder |")
