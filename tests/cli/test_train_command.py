"""`spacy biomed train`: killed and given again, it ends as `spacy train` that was not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from error_lines import error_line
from typer.testing import CliRunner

from spacy_biomed.cli import app
from spacy_biomed.outputs import MARKER

OVERRIDES = {"vars.max_steps": 30, "vars.eval_frequency": 5, "vars.learn_rate": 0.005}
OPTIONS = [part for name, value in OVERRIDES.items() for part in (f"--{name}", str(value))]


@pytest.fixture(scope="module")
def uninterrupted(run_spacy, tiny_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `spacy train` makes of the config, with as many threads as the runs compared to it."""
    output = tmp_path_factory.mktemp("uninterrupted")
    done = run_spacy("train", tiny_config, "--output", output, *OPTIONS)
    assert done.returncode == 0, done.stderr
    return output


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def kill_after_a_checkpoint(config: Path, output: Path) -> None:
    """Run the command, and kill it once it has written a checkpoint."""
    checkpoint = output / "checkpoint" / "training.safetensors"
    before = checkpoint.stat().st_mtime_ns if checkpoint.is_file() else 0
    command = [sys.executable, "-m", "spacy", "biomed", "train", config, "-o", output, *OPTIONS]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf8"},
    )
    while process.poll() is None:
        if checkpoint.is_file() and checkpoint.stat().st_mtime_ns > before:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.005)
    printed, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, printed
    assert checkpoint.is_file()


def test_a_run_that_is_killed_twice_ends_with_the_weights_of_spacys(
    run_spacy, tiny_config, uninterrupted, tmp_path
):
    output = tmp_path / "new" / "training"
    kill_after_a_checkpoint(tiny_config, output)
    kill_after_a_checkpoint(tiny_config, output)
    done = run_spacy("biomed", "train", tiny_config, "--output", output, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "Continuing after step" in done.stdout
    expected, made = files(uninterrupted), files(output)
    assert made.keys() == expected.keys()
    assert [name for name in made if made[name] != expected[name]] == []


@pytest.mark.parametrize(("option", "resume"), [("--resume", True), ("--no-resume", False)])
def test_its_options_and_overrides_reach_training(
    tiny_config, tmp_path, monkeypatch, option, resume
):
    called = {}
    monkeypatch.setattr(
        "spacy_biomed.training.resumable.train",
        lambda nlp, output, **settings: called.update(nlp=nlp, output=output, **settings),
    )
    arguments = ["train", str(tiny_config), "-o", str(tmp_path), option, "--vars.max_steps", "77"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert called["nlp"].config.interpolate()["training"]["max_steps"] == 77
    assert (called["output"], called["use_gpu"], called["resume"]) == (tmp_path, -1, resume)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("vars.max_step", "did you mean --vars.max_steps?"),
        ("paths.trian", "did you mean --paths.train?"),
        ("vars.zzz", "see what is there"),
    ],
)
def test_a_misspelt_variable_is_refused_in_one_line(tiny_config, tmp_path, name, advice):
    output = tmp_path / "out"
    arguments = ["train", str(tiny_config), "-o", str(output), f"--{name}", "7"]
    result = CliRunner().invoke(app, arguments)
    section = name.partition(".")[0]
    expected = f"--{name}: no such setting in [{section}] of {tiny_config}; {advice}"
    assert error_line(result) == expected
    assert not output.exists()


def test_without_a_gpu_one_is_refused_in_one_line(tiny_config, tmp_path, monkeypatch):
    def fail(gpu_id):
        raise ValueError("No GPU devices detected")

    monkeypatch.setattr("spacy.require_gpu", fail)
    result = CliRunner().invoke(app, ["train", str(tiny_config), "-o", str(tmp_path), "-g", "0"])
    assert error_line(result) == "--gpu-id 0: No GPU devices detected; -1 trains on the CPU"
