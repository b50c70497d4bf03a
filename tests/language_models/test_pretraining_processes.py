"""Runs with several processes, and resumed runs."""

import signal
import time

import pytest
from pretraining_recipes import losses, make_recipe, running, write_recipe
from safetensors.torch import load_file

from spacy_biomed.language_models.pretraining import pretrain
from spacy_biomed.language_models.run_folders import read_rows


@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_one_that_was_not(tmp_path):
    settings = {"training__steps": 40, "training__evaluate_every": 4}
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = make_recipe(tmp_path / "whole", **settings)
    report = pretrain(whole)
    path = write_recipe(tmp_path / "killed", **settings)
    killed = make_recipe(tmp_path / "killed", **settings)
    checkpoints = killed.output.work / "checkpoints"
    with running(path) as process:
        while process.poll() is None and not list(checkpoints.glob("checkpoint-*/complete")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not killed.output.directory.exists()
    assert not list(checkpoints.glob("checkpoint-40"))
    again = pretrain(killed)
    assert again.loss == pytest.approx(report.loss, abs=1e-3)
    for name, expected in losses(whole).items():
        assert losses(killed)[name] == pytest.approx(expected, abs=1e-3)
    first, second = (
        load_file(one.output.directory / "model.safetensors") for one in (whole, killed)
    )
    assert all(first[name].equal(second[name]) for name in first)
    pieces = [read_rows(one.output.work / "log.jsonl")[-1]["pieces"] for one in (whole, killed)]
    assert pieces[0] == pieces[1]


@pytest.mark.slow
def test_two_processes_have_the_loss_of_one_with_the_same_batch(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = make_recipe(tmp_path / "one", packing__across_documents=False)
    pretrain(one)
    path = write_recipe(tmp_path / "two", packing__across_documents=False)
    two = make_recipe(tmp_path / "two", packing__across_documents=False)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    with running(path, *launcher) as process:
        shown, _ = process.communicate(timeout=120)
    assert process.returncode == 0, shown
    assert len(losses(one)["loss"]) == 6
    for name, expected in losses(one).items():
        assert losses(two)[name] == pytest.approx(expected, abs=1e-3)
    assert shown.count("validation") == 2  # only from the main process
    card = (two.output.directory / "README.md").read_text(encoding="utf8")
    assert "| Computed on | 2 ×" in card
