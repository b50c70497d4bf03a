"""Studies of encoders: which trainings run, which files stay, and when a training is repeated."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from multitask_corpora import SMALL_MODEL, convert_tasks
from safetensors.torch import load_file
from spacy.util import load_config

from spacy_biomed.encoders.loading import load_pretrained
from spacy_biomed.errors import BiomedError
from spacy_biomed.studies import encoder_study, trainings
from spacy_biomed.studies.encoder_study import (
    Contestant,
    Corpus,
    EncoderStudySettings,
    check_corpora,
    parse_contestants,
    study_encoders,
    write_random_encoder,
)
from spacy_biomed.training.config import TEMPLATES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return convert_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    config = load_config(TEMPLATES / "ner.cfg")
    config["heads"] = {"biomed_ner": {"model": SMALL_MODEL}}
    path = tmp_path_factory.mktemp("template") / "ner.cfg"
    config.to_disk(path)
    return EncoderStudySettings(path, batch_words=60, learn_rate=0.005, seeds=(0,))


@pytest.fixture
def contestants(tiny_bert):
    return parse_contestants([f"small={tiny_bert}", f"none=random:{tiny_bert}"])


@pytest.fixture
def corpora(folder):
    return [Corpus(folder / "drugs", 2)]


class Figures:
    """The attributes of `benchmark.PipelineFigures` that the study uses."""

    words, pipe_seconds = 100, [0.5, 2.0, 1.0]

    def to_json(self):
        return {}


@pytest.fixture(autouse=True)
def watched(monkeypatch):
    """Count trainings and timings, replace real timings, and raise before a given training."""
    made = {"trained": [], "timed": [], "stop_at": None}
    train = trainings.train

    def count(nlp, place, **kwargs):
        if len(made["trained"]) == made["stop_at"]:
            raise RuntimeError("stopped")
        made["trained"].append(f"{place.parent.parent.name} {place.parent.name}")
        train(nlp, place, **kwargs)

    def time(pipelines, texts, **kwargs):
        assert all((Path(path) / "meta.json").is_file() for path in pipelines)
        made["timed"].append((len(pipelines), len(texts)))
        return [Figures() for _ in pipelines]

    monkeypatch.setattr(trainings, "train", count)
    monkeypatch.setattr(encoder_study, "measure_speed", time)
    return made


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a study, filled by the first test that needs it."""
    return tmp_path_factory.mktemp("study") / "output"


@pytest.fixture
def output(done, contestants, corpora, settings, watched, tmp_path):
    """A copy of a finished study."""
    if not done.exists():
        study_encoders(contestants, corpora, done, settings, baseline="none")
        assert len(watched["trained"]) == 2 and watched["timed"] == [(2, 3)]
        watched["trained"].clear(), watched["timed"].clear()
    return Path(shutil.copytree(done, tmp_path / "copy"))


def test_encoders_are_called_as_their_directories_unless_they_are_given_a_name(tmp_path):
    path = tmp_path / "starter"
    assert parse_contestants([str(path), f"random:{path}", "mine=random:minilm"]) == [
        Contestant("starter", str(path)),
        Contestant("starter_random", str(path), is_random=True),
        Contestant("mine", "minilm", is_random=True),
    ]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a=x", "a=y"], "two are called a; give one as NAME=y"),
        (["a/b=x"], "'a/b' is not a valid name"),
    ],
)
def test_names_that_cannot_be_told_apart_or_are_no_folders_are_refused(names, problem):
    with pytest.raises(BiomedError, match=problem):
        parse_contestants(names)


def test_a_random_encoder_has_shape_and_vocabulary_and_other_weights(tiny_bert, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_random_encoder(str(tiny_bert), tmp_path / name, seed)
    a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    given, (tokenizer, model) = (
        load_pretrained(str(tiny_bert)),
        load_pretrained(str(tmp_path / "a")),
    )
    assert tokenizer.to_str() == given[0].to_str()
    shapes = {name: weight.shape for name, weight in given[1].state_dict().items()}
    assert {name: weight.shape for name, weight in model.state_dict().items()} == shapes
    name = "embeddings.word_embeddings.weight"
    assert (a[name] == b[name]).all() and (a[name] != c[name]).any()
    assert (a[name] != given[1].state_dict()[name]).any()


def test_a_study_has_each_score_and_keeps_the_pipelines_that_are_timed(output, contestants):
    records = [json.loads(line) for line in (output / "runs.jsonl").read_text().splitlines()]
    assert [(one["encoder"], one["corpus"], one["seed"]) for one in records] == [
        ("small", "drugs", 0),
        ("none", "drugs", 0),
    ]
    small, none = json.loads((output / "encoders.json").read_text())["encoders"]
    assert small["f1"] == {"drugs": [records[0]["f1"]]}
    assert none["int8_f1"] == {"drugs": [records[1]["int8_f1"]]}
    assert small["words_per_second"] == 100.0
    [exported] = (output / "pipelines" / "small").rglob("model.onnx")
    assert small["int8_bytes"] == exported.stat().st_size
    parameters = load_pretrained(contestants[0].encoder)[1].embeddings.word_embeddings.weight
    assert parameters.numel() < small["parameters"] == none["parameters"]
    assert {path.name for path in output.iterdir()} == {
        "encoders.json",
        "encoders.md",
        "encoders.svg",
        "pipelines",
        "random",
        "runs.jsonl",
        "speeds.json",
    }


def test_a_study_that_is_done_trains_and_times_nothing_again(
    output, contestants, corpora, settings, watched
):
    before = (output / "encoders.json").read_text()
    study_encoders(contestants, corpora, output, settings, baseline="none")
    assert (watched["trained"], watched["timed"]) == ([], [])
    assert (output / "encoders.json").read_text() == before


def test_a_study_that_was_stopped_makes_what_is_left(
    output, contestants, corpora, settings, watched, tmp_path
):
    other = tmp_path / "other"
    watched["stop_at"] = 1
    with pytest.raises(RuntimeError, match="stopped"):
        study_encoders(contestants, corpora, other, settings)
    watched["stop_at"] = None
    figures = study_encoders(contestants, corpora, other, settings)
    assert watched["trained"] == ["small drugs", "none drugs"]
    unbroken = json.loads((output / "encoders.json").read_text())["encoders"]
    assert [one.f1 for one in figures] == [one["f1"] for one in unbroken]


def test_what_was_trained_but_not_scored_is_not_trained_again(
    contestants, corpora, settings, watched, tmp_path, monkeypatch
):
    write = encoder_study.write_compressed
    monkeypatch.setattr(encoder_study, "write_compressed", None)
    with pytest.raises(TypeError):
        study_encoders(contestants[:1], corpora, tmp_path, settings)
    monkeypatch.setattr(encoder_study, "write_compressed", write)
    study_encoders(contestants[:1], corpora, tmp_path, settings)
    assert watched["trained"] == ["small drugs"]


def test_another_corpus_and_other_settings_train_and_time_what_they_concern(
    output, contestants, corpora, settings, watched, folder
):
    more = [*corpora, Corpus(folder / "diseases", 1)]
    figures = study_encoders(contestants[:1], more, output, settings)
    assert watched["trained"] == ["small diseases"] and list(figures[0].f1) == ["drugs", "diseases"]
    shorter = [corpora[0]._replace(epochs=1)]
    study_encoders(contestants[:1], shorter, output, settings)
    assert watched["trained"][1:] == ["small drugs"]
    # Timed once because a pipeline is missing, and once because a pipeline has changed.
    assert watched["timed"] == [(1, 3), (1, 3)]
    study_encoders(contestants[:1], corpora, output, settings)
    assert len(watched["trained"]) == 2 and len(watched["timed"]) == 3


def test_the_same_files_elsewhere_are_the_same_training(
    output, contestants, corpora, settings, watched, tmp_path
):
    moved = Path(shutil.copytree(contestants[0].encoder, tmp_path / "elsewhere"))
    folders = [shutil.copytree(corpus.folder, tmp_path / corpus.name) for corpus in corpora]
    there = [corpus._replace(folder=at) for corpus, at in zip(corpora, folders, strict=True)]
    study_encoders([replace(contestants[0], encoder=str(moved))], there, output, settings)
    assert watched["trained"] == []
    config = json.loads((moved / "config.json").read_text()) | {"layer_norm_eps": 1e-3}
    (moved / "config.json").write_text(json.dumps(config))
    study_encoders([replace(contestants[0], encoder=str(moved))], there, output, settings)
    assert watched["trained"] == ["small drugs"]


def test_bad_input_is_found_before_anything_is_trained(
    contestants, corpora, settings, watched, tmp_path
):
    with pytest.raises(BiomedError, match="--baseline x: no such encoder; use one of small"):
        study_encoders(contestants, corpora, tmp_path, settings, baseline="x")
    with pytest.raises(BiomedError, match="a study needs one of each"):
        study_encoders(contestants, [], tmp_path, settings)
    with pytest.raises(BiomedError, match="no such encoder directory"):
        study_encoders([Contestant("a", "/none")], corpora, tmp_path, settings)
    with pytest.raises(BiomedError, match="two corpora are called drugs"):
        check_corpora([corpora[0], corpora[0]], settings)
    with pytest.raises(BiomedError, match="none"):
        check_corpora([Corpus(tmp_path / "none", 1)], settings)
    (tmp_path / "runs.jsonl").write_text('{"f1": 0.5}\n')
    with pytest.raises(BiomedError, match=r"runs.jsonl:1: not the record of a training"):
        study_encoders(contestants, corpora, tmp_path, settings)
    assert watched["trained"] == []


def test_a_part_without_mentions_is_refused(corpora, folder, settings, tmp_path):
    changed = Path(shutil.copytree(corpora[0].folder, tmp_path / "drugs"))
    shutil.copyfile(folder / "topics" / "test.spacy", changed / "test.spacy")
    with pytest.raises(BiomedError, match=r"drugs/test.spacy: no mentions to score"):
        check_corpora([Corpus(changed, 1)], settings)
