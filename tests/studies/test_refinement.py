"""The study of refinement: which encoders are trained, which files stay, and the report."""

import json
from dataclasses import replace

import pytest
import spacy

from spacy_biomed.errors import BiomedError
from spacy_biomed.studies.pairwise import study_pairs
from spacy_biomed.studies.refinement import (
    ALONE,
    APART,
    TOGETHER,
    FineTuning,
    Refinement,
    count_runs,
    create_table,
    study_refinement,
)
from spacy_biomed.studies.task_runs import run_tasks
from spacy_biomed.studies.task_scores import score_tasks

FINE_TUNING = FineTuning(epochs=1, learn_rate=0.002)


@pytest.fixture(scope="module")
def refined(corpora, settings, tmp_path_factory):
    """A study of two tasks, and its folder."""
    output = tmp_path_factory.mktemp("study")
    folders = [corpora / "drugs", corpora / "topics"]
    return study_refinement(folders, output, settings, FINE_TUNING), output


def test_the_scores_together_are_those_of_the_pipeline_that_stays(refined):
    study, output = refined
    scores = score_tasks(spacy.load(output / "runs" / "drugs+topics" / "seed_0" / "model-best"))
    assert study.scores[TOGETHER] == {
        "drugs": [scores["spans_drugs_f"]],
        "topics": [scores["cats_topics_score"]],
    }


def test_a_task_is_fine_tuned_from_the_encoder_that_all_have_trained(
    refined, folders, settings, tmp_path
):
    study, output = refined
    encoder = output / "runs" / "drugs+topics" / "seed_0" / "model-best/biomed_transformer/encoder"
    own = replace(settings, encoder=str(encoder), epochs=1, learn_rate=0.002)
    for folder in folders:
        run = run_tasks([folder], tmp_path / folder.name, own, 0)
        assert study.scores[APART][folder.name] == [run.scores[folder.name]]


def test_it_writes_a_table_and_all_scores(refined):
    study, output = refined
    table = (output / "refinement.md").read_text()
    assert table.splitlines()[0] == "|  | drugs | topics | mean |"
    results = json.loads((output / "refinement.json").read_text())
    assert results["scores"] == study.scores
    assert results["metrics"] == {"drugs": "spans_drugs_f", "topics": "cats_topics_score"}


def test_a_pairwise_study_in_the_same_folder_shares_its_runs(refined, folders, settings, trainings):
    study, output = refined
    pairs = study_pairs(folders, output, settings)
    assert pairs.alone == study.scores[ALONE]
    assert [pairs.together["drugs", "topics"]] == [study.scores[TOGETHER]["drugs"]]
    assert trainings[0] == []
    assert study_refinement(folders, output, settings, FINE_TUNING) == study
    assert trainings[0] == []


def test_a_study_that_was_stopped_makes_what_is_left(
    refined, folders, settings, trainings, tmp_path
):
    made, stop_at = trainings
    stop_at.append(3)
    reported = []
    with pytest.raises(RuntimeError, match="stopped"):
        study_refinement(folders, tmp_path, settings, FINE_TUNING)
    assert not (tmp_path / "refinement.md").exists()
    stop_at.clear()
    study = study_refinement(folders, tmp_path, settings, FINE_TUNING, progress=reported.append)
    assert study == refined[0]
    assert made == ["drugs", "topics", "drugs+topics", "drugs", "topics"]
    assert len(reported) == count_runs(folders, settings) == 5


def test_the_table_has_the_stages_in_points_and_their_mean(settings):
    study = Refinement(
        {"a": "spans_a_f", "b": "cats_b_score"},
        {
            ALONE: {"a": [0.80, 0.82], "b": [0.5, 0.5]},
            TOGETHER: {"a": [0.83, 0.83], "b": [0.5, 0.48]},
            APART: {"a": [0.84, 0.84], "b": [0.6, 0.6]},
        },
    )
    lines = create_table(study, settings, FINE_TUNING).splitlines()
    assert lines[2:5] == [
        "| alone | 81.00 | 50.00 | 65.50 |",
        "| together | 83.00 | 49.00 | 66.00 |",
        "| together, then apart | 84.00 | 60.00 | 72.00 |",
    ]
    assert "a: `spans_a_f`, b: `cats_b_score`" in lines[-1]


def test_one_task_is_too_few(corpora, settings, tmp_path):
    with pytest.raises(BiomedError, match="at least two"):
        study_refinement([corpora / "drugs"], tmp_path / "out", settings, FINE_TUNING)
    assert not (tmp_path / "out").exists()
