"""Pairwise studies: which trainings run, which files stay, and what the report has."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train

from spacy_biomed.errors import BiomedError
from spacy_biomed.studies import task_runs
from spacy_biomed.studies.pairwise import PairwiseStudy, create_table, plan_runs, study_pairs
from spacy_biomed.studies.task_scores import read_part, score_tasks
from spacy_biomed.training.multitask_config import create_multitask_config


@pytest.fixture(scope="module")
def done(corpora, settings, tmp_path_factory):
    """A study of two tasks, and its folder."""
    output = tmp_path_factory.mktemp("study")
    return study_pairs([corpora / "drugs", corpora / "topics"], output, settings), output


def test_every_task_is_trained_alone_and_every_pair_together_with_each_seed():
    a, b, c = map(Path, "abc")
    assert plan_runs([a, b, c], (0, 1)) == [
        (chosen, seed) for chosen in [(a,), (b,), (c,), (a, b), (a, c), (b, c)] for seed in (0, 1)
    ]


def test_scores_are_those_of_the_pipelines_that_training_makes(done, folders, settings, tmp_path):
    """Compare with a separate training and scoring, without the study's code."""
    study, _ = done
    config, _ = create_multitask_config(
        folders,
        encoder=settings.encoder,
        template=settings.template,
        schedule="proportional",
        epochs=1,
        batch_words=100,
    )
    with (tmp_path / "log").open("w") as log:
        train(init_nlp(config), tmp_path, stdout=log)
    scores = score_tasks(spacy.load(tmp_path / "model-best"))
    assert study.together["drugs", "topics"] == [scores["spans_drugs_f"]]
    assert study.together["topics", "drugs"] == [scores["cats_topics_score"]]
    assert study.tasks == ["drugs", "topics"]
    assert set(study.alone) == {"drugs", "topics"}


def test_it_writes_a_table_all_scores_and_a_figure_and_keeps_no_pipeline(done):
    study, output = done
    table = (output / "pairwise.md").read_text()
    assert table.splitlines()[0] == "|  | drugs | topics |"
    results = json.loads((output / "pairwise.json").read_text())
    assert results["tasks"]["drugs"] == {"metric": "spans_drugs_f", "alone": study.alone["drugs"]}
    assert [(pair["task"], pair["with"]) for pair in results["pairs"]] == [
        ("drugs", "topics"),
        ("topics", "drugs"),
    ]
    assert results["pairs"][0]["change"] == pytest.approx(study.change("drugs", "topics"), abs=1e-3)
    ElementTree.parse(output / "pairwise.svg")
    files = {path.name for path in (output / "runs").rglob("*") if path.is_file()}
    assert files == {"config.cfg", "log.txt", "scores.json"}


def test_finished_runs_are_kept(done, folders, settings, trainings):
    study, output = done
    assert study_pairs(folders, output, settings) == study
    assert trainings[0] == []


def test_a_study_that_was_stopped_makes_what_is_left(done, folders, settings, trainings, tmp_path):
    made, stop_at = trainings
    stop_at.append(2)
    with pytest.raises(RuntimeError, match="stopped"):
        study_pairs(folders, tmp_path, settings)
    assert not (tmp_path / "pairwise.md").exists()
    stop_at.clear()
    assert study_pairs(folders, tmp_path, settings) == done[0]
    assert made == ["drugs", "topics", "drugs+topics"]


def test_other_corpora_settings_or_encoders_make_other_runs(corpora, settings, tmp_path):
    folder, encoder = corpora / "drugs", tmp_path / "encoder"
    shutil.copytree(settings.encoder, encoder)

    def digest(**changes):
        own = replace(settings, encoder=str(encoder), **changes)
        return task_runs._digest(*task_runs._create_config([folder], own, 0), own)

    first = digest()
    digests = {first, digest(part="dev"), digest(epochs=2)}
    for path in (folder / "train.spacy", encoder / "config.json"):
        original = path.read_bytes()
        try:
            path.write_bytes(original + b" ")
            digests.add(digest())
        finally:
            path.write_bytes(original)
    assert len(digests) == 5
    assert digest() == first


def test_the_table_has_the_changes_in_points_over_the_seeds(settings):
    study = PairwiseStudy(
        {"a": "spans_a_f", "b": "cats_b_score"},
        {"a": [0.80, 0.82], "b": [0.5, 0.5]},
        {("a", "b"): [0.83, 0.83], ("b", "a"): [0.5, 0.48]},
    )
    lines = create_table(study, settings).splitlines()
    assert lines[2:5] == [
        "| alone | 81.00 | 50.00 |",
        "| with a |  | -1.00 |",
        "| with b | +2.00 |  |",
    ]
    assert "a: `spans_a_f`, b: `cats_b_score`" in lines[-1]


def test_one_task_is_no_study(corpora, settings, tmp_path):
    with pytest.raises(BiomedError, match="needs at least two corpora"):
        study_pairs([corpora / "drugs"], tmp_path, settings)


def test_a_part_that_is_not_there_is_named_before_anything_is_trained(
    folders, settings, trainings, tmp_path
):
    with pytest.raises(BiomedError, match="--part 'tests': use test or dev"):
        study_pairs(folders, tmp_path, replace(settings, part="tests"))
    assert (trainings[0], list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("config", "part", "message"),
    [
        (
            {"corpora": {"dev": {"@readers": "spacy.Corpus.v1"}}},
            "test",
            "no spacy_biomed.MultiTask",
        ),
        ({}, "test", "no spacy_biomed.MultiTaskCorpus.v1 in corpora.dev"),
        (
            {"@readers": "spacy_biomed.MultiTaskCorpus.v1", "paths": {}},
            "tests",
            "--part tests: use",
        ),
    ],
)
def test_what_has_no_tasks_to_score_is_refused(config, part, message):
    if "paths" in config:
        config = {"corpora": {"dev": config}}
    with pytest.raises(BiomedError, match=message):
        read_part(config, part)


def test_a_limit_of_training_is_none_of_the_scored_part(folders):
    paths = {folder.name: str(folder / "dev.spacy") for folder in folders}
    reader = {"@readers": "spacy_biomed.MultiTaskCorpus.v1", "paths": paths, "limit": 1}
    corpus = read_part({"corpora": {"dev": reader}}, "test")
    for folder in folders:
        documents = len(DocBin().from_disk(folder / "test.spacy"))
        assert documents > 1
        nlp = spacy.blank("en")
        assert len(list(corpus.corpora[folder.name](nlp))) == documents
