"""Measuring a pipeline in separate processes."""

import json
from pathlib import Path

import pytest
import spacy

from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.benchmark import (
    MEASURES,
    PipelineFigures,
    count_parts,
    describe_machine,
    measure_pipelines,
    to_json,
)
from spacy_biomed.evaluation.pipeline_worker import directory_size, spread

TEXTS = ["Aspirin reduced pain.", "No symptoms.", "He was given metformin for diabetes."]
WORDS = 4 + 3 + 7


@pytest.fixture(scope="module")
def blank_pipeline(tmp_path_factory) -> Path:
    """A pipeline of spaCy's tokenizer and `sentencizer`."""
    path = tmp_path_factory.mktemp("pipelines") / "blank"
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(path)
    return path


@pytest.fixture(scope="module")
def splitting_pipeline(tmp_path_factory) -> Path:
    """A pipeline whose tokenizer splits only at white space."""
    path = tmp_path_factory.mktemp("pipelines") / "splitting"
    nlp = spacy.blank("en", config={"nlp": {"batch_size": 2}})
    nlp.tokenizer = spacy.tokenizer.Tokenizer(nlp.vocab)
    nlp.to_disk(path)
    return path


@pytest.fixture(scope="module")
def measured(blank_pipeline, splitting_pipeline) -> tuple[list[PipelineFigures], list[str]]:
    parts = []
    pipelines = [str(blank_pipeline), str(splitting_pipeline)]
    figures = measure_pipelines(pipelines, TEXTS, repeats=2, threads=1, progress=parts.append)
    return figures, parts


def value(name: str, figures: PipelineFigures) -> float:
    return next(measure for measure in MEASURES if measure.name == name).value(figures)


def test_documents_and_words_are_counted_with_each_pipelines_own_tokenizer(measured):
    [figures, splitting], _ = measured
    assert (figures.documents, figures.words) == (len(TEXTS), WORDS)
    assert (splitting.documents, splitting.words) == (len(TEXTS), WORDS - len(TEXTS))


def test_every_repeat_is_measured_once(measured):
    for figures in measured[0]:
        assert len(figures.pipe_seconds) == len(figures.load_seconds) == 2
        assert len(figures.first_seconds) == 2
        assert len(figures.single_seconds) == 2 * len(TEXTS)
        times = figures.pipe_seconds + figures.load_seconds + figures.single_seconds
        assert min(times) > 0


def test_the_first_sentence_takes_longer_than_loading(measured):
    for figures in measured[0]:
        for load, first in zip(figures.load_seconds, figures.first_seconds, strict=True):
            assert first > load


def test_progress_is_reported_as_often_as_announced(measured):
    assert len(measured[1]) == count_parts(pipelines=2, repeats=2)


def test_sizes_and_settings_are_those_of_the_pipeline(measured, blank_pipeline):
    [figures, splitting], _ = measured
    assert figures.disk_bytes == directory_size(blank_pipeline) > 0
    assert figures.peak_bytes > 10e6
    assert figures.components == ["sentencizer"]
    assert splitting.batch_size == 2


def test_the_form_for_training_does_not_count(tmp_path):
    (tmp_path / "trainable").mkdir()
    for name in ("config.cfg", "trainable/config.cfg", "trainable/model"):
        (tmp_path / name).write_text("[nlp]")
    assert directory_size(tmp_path) == 5


def test_speeds_are_counts_by_seconds():
    figures = PipelineFigures("one", documents=10, words=300, pipe_seconds=[2.0, 1.0, 4.0])
    assert value("words_per_second", figures) == 150
    assert value("documents_per_second", figures) == 5
    [measure] = [measure for measure in MEASURES if measure.name == "words_per_second"]
    assert measure.spread(figures) == [75, 300]


def test_latency_is_the_median_and_the_99th_percentile_of_single_documents():
    figures = PipelineFigures("one", single_seconds=[float(i) for i in range(101)])
    assert value("median_latency", figures) == 50
    assert value("p99_latency", figures) == 99


def test_times_better_is_above_one_for_what_is_faster_and_for_what_is_smaller():
    ours = PipelineFigures("a", 1, words=100, pipe_seconds=[1.0], disk_bytes=10, peak_bytes=50)
    other = PipelineFigures("b", 1, words=100, pipe_seconds=[4.0], disk_bytes=40, peak_bytes=None)
    better = {measure.name: measure.times_better(ours, other) for measure in MEASURES}
    assert better["words_per_second"] == better["disk_bytes"] == 4
    assert better["peak_bytes"] is better["load_seconds"] is None
    worse = {measure.name: measure.times_better(other, ours) for measure in MEASURES}
    assert worse["words_per_second"] == worse["disk_bytes"] == 0.25


def test_json_holds_the_figures_and_what_they_were_measured_with(measured):
    figures, _ = measured
    content = json.loads(json.dumps(to_json(figures, texts=Path("t.txt"), repeats=2, threads=1)))
    assert [one["words"] for one in content["pipelines"]] == [one.words for one in figures]
    speeds = [one["figures"]["words_per_second"]["value"] for one in content["pipelines"]]
    assert content["times_better"]["words_per_second"] == pytest.approx(speeds[0] / speeds[1])
    assert content["machine"]["versions"]["spacy"] == spacy.__version__


def test_the_machine_is_described_without_packages_that_are_not_installed():
    machine = describe_machine(["spacy", "no-such-package"])
    assert set(machine["versions"]) == {"python", "spacy"}
    assert machine["processor"]


def test_a_pipeline_that_is_not_there_is_said_in_one_line(tmp_path):
    with pytest.raises(BiomedError, match="neither an installed pipeline") as caught:
        measure_pipelines([str(tmp_path / "nowhere")], TEXTS, repeats=1)
    assert "\n" not in str(caught.value)


def test_a_pipeline_that_fails_is_said_in_one_line(tmp_path):
    config = spacy.blank("en").config
    config["nlp"]["pipeline"] = ["x"]
    config["components"]["x"] = {"factory": "no_such_factory"}
    config.to_disk(tmp_path / "config.cfg")
    (tmp_path / "meta.json").write_text(json.dumps(spacy.blank("en").meta))
    with pytest.raises(BiomedError, match="'no_such_factory' is not among the factories") as caught:
        measure_pipelines([str(tmp_path)], TEXTS, repeats=1)
    assert "\n" not in str(caught.value)


def test_texts_are_chosen_evenly():
    assert spread(list("abcdefgh"), 4) == list("aceg")
    assert spread(list("abc"), 100) == list("abc")
