"""What a checkpoint holds: weights, moments, generators; and what it was made from."""

import random
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from thinc.api import SGD, Linear, PyTorchShim

from spacy_biomed.errors import BiomedError
from spacy_biomed.training import checkpoint as module
from spacy_biomed.training.checkpoint import Checkpoint, Progress, fingerprint
from spacy_biomed.training.optimizer import AdamW_v1


@pytest.fixture
def nlp():
    """A pipeline of a small tagger."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger").add_label("X")
    nlp.initialize()
    return nlp


def step(module: torch.nn.Module, optimizer, key: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step_module(key, module)
    module.zero_grad()


@pytest.mark.parametrize("layer_decay", [1.0, 0.5])
def test_adamw_goes_on_with_its_moments_under_another_key(layer_decay):
    def make():
        layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        return torch.nn.ModuleDict({"layer": layers}), AdamW_v1(0.01, layer_decay=layer_decay)

    (known, optimizer), (again, other) = make(), make()
    for seed in range(3):
        step(known, optimizer, 1, seed)
    again.load_state_dict(known.state_dict())
    state = {name: value.clone() for name, value in optimizer.torch_state()[1].items()}
    other.load_torch_state(7, again, state)
    for seed in range(3, 6):
        step(known, optimizer, 1, seed)
        step(again, other, 7, seed)
    for one, same in zip(known.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, same)


def test_the_generators_go_on_where_they_were(nlp, tmp_path):
    def draw() -> tuple:
        return random.random(), np.random.normal(), random.gauss(0, 1), float(torch.rand(1))

    draw()  # leaves a second normal deviate in numpy's and Python's generators
    Checkpoint.take(nlp, SGD(0.1), Progress({})).write(tmp_path / "file")
    expected = draw()
    draw()
    Checkpoint.read(tmp_path / "file").restore(nlp, SGD(0.1))
    assert draw() == expected


def test_scores_come_back_to_the_last_digit(nlp, tmp_path):
    scores = [0.1 + 0.2, 1 / 3, float(np.float64(2 / 3))]
    progress = Progress({"a": "b"}, step=3, scores=scores, epochs=[random.getstate()])
    Checkpoint.take(nlp, SGD(0.1), progress).write(tmp_path / "file")
    assert Checkpoint.read(tmp_path / "file").progress == progress


def test_tied_weights_are_written(nlp, tmp_path):
    tied = torch.nn.ModuleDict({"one": torch.nn.Linear(2, 2), "other": torch.nn.Linear(2, 2)})
    tied["other"].weight = tied["one"].weight
    nlp.get_pipe("tagger").model.shims.append(PyTorchShim(tied))
    expected = tied["one"].weight.detach().clone()
    Checkpoint.take(nlp, SGD(0.1), Progress({})).write(tmp_path / "file")
    torch.nn.init.zeros_(tied["one"].weight)
    Checkpoint.read(tmp_path / "file").restore(nlp, SGD(0.1))
    assert torch.equal(tied["one"].weight, expected)
    assert tied["other"].weight is tied["one"].weight


def test_a_checkpoint_does_not_fit_a_pipeline_of_another_shape(nlp, tmp_path):
    Checkpoint.take(nlp, SGD(0.1), Progress({})).write(tmp_path / "file")
    checkpoint = Checkpoint.read(tmp_path / "file")
    assert checkpoint.fits(nlp)
    other = spacy.blank("en")
    tagger = other.add_pipe("tagger")
    tagger.add_label("X")
    tagger.add_label("Y")
    other.initialize()
    assert not checkpoint.fits(other)


def test_parameters_that_no_component_has_are_refused(nlp):
    optimizer, stray = SGD(0.1, use_averages=True), Linear(2, 2).initialize()
    stray.set_grad("W", np.ones((2, 2), dtype="float32"))
    stray.finish_update(optimizer)
    with pytest.raises(BiomedError, match="belongs to no component's model"):
        Checkpoint.take(nlp, optimizer, Progress({}))


def test_a_checkpoint_that_could_not_be_written_leaves_the_one_before(nlp, tmp_path, monkeypatch):
    path = tmp_path / "checkpoint" / "file"
    Checkpoint.take(nlp, SGD(0.1), Progress({}, step=1)).write(path)

    def fill_the_disk(tensors, partial, metadata):
        Path(partial).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "save_file", fill_the_disk)
    with pytest.raises(BiomedError, match="No space"):
        Checkpoint.take(nlp, SGD(0.1), Progress({}, step=2)).write(path)
    assert Checkpoint.read(path).progress.step == 1
    assert [file.name for file in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", None])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "file"
    if content is None:
        module.save_file({"a": torch.zeros(1)}, path)  # somebody else's
    else:
        path.write_bytes(content)
    with pytest.raises(BiomedError, match="not a readable checkpoint"):
        Checkpoint.read(path)


def changed(nlp, before: dict[str, str]) -> list[str]:
    now = fingerprint(nlp)
    return sorted(name for name in {*now, *before} if now.get(name) != before.get(name))


def test_the_fingerprint_is_of_the_config_but_for_the_logger(nlp):
    before = fingerprint(nlp)
    nlp.config["training"]["logger"] = {"@loggers": "spacy_biomed.RichLogger.v1"}
    assert changed(nlp, before) == []
    nlp.config["training"]["max_steps"] = 7
    assert changed(nlp, before) == ["the config"]


def test_the_fingerprint_is_of_the_labels(nlp):
    other = spacy.blank("en")
    other.add_pipe("tagger").add_label("Y")
    assert changed(other, fingerprint(nlp)) == ["the labels"]


def test_the_fingerprint_is_of_the_contents_of_files_and_folders(nlp, tmp_path):
    folder, file = tmp_path / "parts" / "more", tmp_path / "dev.spacy"
    folder.mkdir(parents=True)
    file.write_bytes(b"dev")
    (folder / "a.spacy").write_bytes(b"a")
    nlp.config["corpora"] = {
        "train": {"@readers": "spacy.Corpus.v1", "path": str(folder.parent)},
        "dev": {"@readers": "spacy.Corpus.v1", "path": str(file)},
    }
    before = fingerprint(nlp)
    assert fingerprint(nlp) == before
    file.write_bytes(b"Dev")
    assert changed(nlp, before) == [str(file)]
    file.write_bytes(b"dev")
    (folder / "a.spacy").rename(folder / "b.spacy")
    assert changed(nlp, before) == [str(folder.parent)]


def test_a_folder_named_as_a_factory_is_no_input(nlp, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = fingerprint(nlp)
    (tmp_path / "tagger").mkdir()
    assert changed(nlp, before) == []
