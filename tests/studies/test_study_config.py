"""Studies as files: what they say, and errors in one line with file and line."""

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.studies.study_config import find_study, list_studies, read_study

STUDY = """
[study]
title = "Two encoders"
statistic = "median"

[grid]
seeds = [0, 1]

[rows]

[rows.small]
encoder = "minilm"

[corpora]

[corpora.drugs]
groups = ["PubMed", "Entities"]

[corpora.topics]
groups = ["PubMed"]
"""


@pytest.fixture
def read(tmp_path):
    def read(text=STUDY, **overrides):
        (tmp_path / "study.cfg").write_text(text)
        return read_study(tmp_path / "study.cfg", overrides)

    return read


def test_sections_that_are_left_out_have_their_defaults(read):
    study = read()
    assert study.grid.seeds == [0, 1] and study.grid.epochs is None
    assert study.title("small") == "small" and study.rows["small"].training == "alone"
    assert study.groups == {"PubMed": ["drugs", "topics"], "Entities": ["drugs"]}


def test_settings_can_be_overridden_where_the_file_has_no_section(read):
    study = read(**{"grid.epochs": 2, "comparisons.resamples": 9, "rows.small.encoder": "mbert"})
    assert (study.grid.epochs, study.comparisons.resamples) == (2, 9)
    assert study.rows["small"].encoder == "mbert"


def test_a_study_takes_from_another_the_sections_that_it_has_not(read):
    study = read('[study]\nextends = "lewis_table_2"\ntitle = "Mine"\n\n[grid]\nseeds = [7]\n')
    whole = read_study("lewis_table_2")
    assert (study.study.title, study.study.statistic) == ("Mine", "median")
    assert study.grid.seeds == [7] and study.rows == whole.rows and study.corpora == whole.corpora


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("seeds", "seds", ":7: grid.seds: no such setting; did you mean seeds"),
        ("[0, 1]", '["x"]', ":7: grid.seeds = 'x': "),
        ('"median"', '"worst"', ":4: study.statistic = 'worst': "),
        ('encoder = "minilm"', "", ":11: rows.small.encoder: is missing; add it"),
        ("[corpora.topics]", "[corpora.drugs]", ":19: "),
        ('"Two encoders"', '"Two encoders"\nextends = "lewis_table_3"', "extends another study"),
        (
            '"minilm"',
            '"minilm"\ncompanions = ["drugs"]',
            'companions are for training = "together"',
        ),
        (
            '"minilm"',
            '"minilm"\ntraining = "apart"\ncompanions = ["drug"]',
            ":11: rows.small.companions has 'drug': did you mean drugs",
        ),
        ("[grid]", '[comparisons]\npairs = [["small", "smal"]]\n\n[grid]', "has 'smal': did you"),
        (
            "[corpora.drugs]",
            "[corpora.drugs]\nfolds = 2",
            ":17: corpora.drugs.folds: '2': give a number",
        ),
    ],
)
def test_an_error_is_one_line_with_the_place_in_the_file(read, tmp_path, old, new, problem):
    with pytest.raises(BiomedError) as raised:
        read(STUDY.replace(old, new, 1))
    message = str(raised.value)
    assert problem in message and "\n" not in message
    assert message.startswith(str(tmp_path / "study.cfg"))


def test_a_study_that_is_not_there_is_named_with_similar_ones():
    with pytest.raises(
        BiomedError, match="'peng_table2': no such study; .* some; did you mean peng_table_2"
    ):
        find_study("peng_table2")


def test_a_study_that_extends_a_number_is_refused(read):
    with pytest.raises(BiomedError, match="'5': no such study"):
        read("[study]\nextends = 5\n")


@pytest.mark.parametrize("name", list_studies())
def test_each_study_that_ships_can_be_read(name):
    study = read_study(name)
    assert all(row.encoder for row in study.rows.values())
