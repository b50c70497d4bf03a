"""`spacy biomed pretrain`: overrides, what it says at the end, bad input."""

import sys

import pytest
from commands import call, error_line
from pretraining_recipes import write_recipe
from typer.testing import Result

from spacy_biomed.errors import install_command


def run(*arguments: object) -> Result:
    return call("pretrain", *arguments)


def test_an_encoder_is_written_with_the_settings_of_the_command_line(tmp_path):
    path = write_recipe(tmp_path)
    output = tmp_path / "mine"
    result = run(path, "--paths.output", output, "--training.steps", 2, "--training.device_batch=8")
    assert result.exit_code == 0, result.output
    assert (output / "model.safetensors").is_file()
    last = result.stdout.splitlines()[-1]
    assert last.startswith(f"✔ Wrote {output}: ")
    assert "after step 2 of 2" in last


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--training.steps", "none"], r"recipe\.cfg:\d+: training\.steps = 'none'"),
        (["--training.stepps", "3"], "training.stepps: no such setting; did you mean steps"),
        (
            ["--trainin.steps", "3"],
            "--trainin.steps: no section .*mean --training.steps",
        ),
        (["--paths.txt", "a.txt"], "--paths.txt: no such setting .*mean --paths.text"),
        (["--paths.text", "nowhere.txt"], "text.paths: nowhere.txt does not exist"),
        (["--steps", "3"], "see `.*--help`"),
    ],
)
def test_bad_settings_are_bad_input(tmp_path, options, message):
    result = run(write_recipe(tmp_path), *options)
    import re

    assert re.search(message, error_line(result))
    assert not (tmp_path / "output").exists()


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy_biomed.language_models.pretraining", None)
    result = run(write_recipe(tmp_path))
    assert install_command("train") in error_line(result)


def test_help_has_an_example():
    assert "spacy biomed pretrain configs" in " ".join(run("--help").stdout.split())
