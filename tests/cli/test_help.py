"""`python -m spacy biomed --help` and what the command line imports."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest
import typer
from commands import call, run
from without_training import HEAVY, WITHOUT_TRAINING, run_code

from spacy_biomed.cli import app
from spacy_biomed.errors import install_command

COMMANDS = typer.main.get_command(app).commands


def test_spacy_shows_the_sub_commands(run_spacy):
    done = run_spacy("biomed", "--help")
    assert done.returncode == 0
    for name in ("corpora", "encoders", "convert", "init-config", "annotate"):
        assert f"  {name} " in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_sub_command_has_an_example(name):
    printed = run(name, "--help", columns=200)
    assert f"python -m spacy biomed {name} " in " ".join(printed.split())


def test_the_package_imports_neither_spacy_nor_what_training_needs():
    loaded = run_code(
        f"import sys, spacy_biomed; print({{*{('spacy', *HEAVY)}}} & sys.modules.keys())"
    )
    assert loaded.strip() == "set()"


@pytest.mark.slow
def test_the_command_line_imports_nothing_heavy_that_spacys_own_does_not():
    heavy = (*HEAVY, "tokenizers", "onnxruntime", "fastapi", "uvicorn")
    loaded = run_code(
        "import sys, spacy.cli; before = set(sys.modules); import spacy_biomed.cli\n"
        f"print({{*{heavy}}} & (sys.modules.keys() - before))"
    )
    assert loaded.strip() == "set()"


@pytest.mark.slow
def test_every_registered_name_is_there_without_the_extra():
    names = run_code(
        WITHOUT_TRAINING + "nlp = spacy.blank('en')\n"
        "nlp.add_pipe('biomed_ner')\n"
        "for point in importlib.metadata.distribution('spacy-biomed').entry_points:\n"
        "    loaded = point.load()\n"
        "    assert callable(loaded) or type(loaded).__name__ == 'Format'\n"
        "    print(point.name)"
    ).split()
    assert {"biomed", "biomed_ner", "biomed_transformer", "spacy_biomed.AdamW.v1"} <= set(names)


@pytest.mark.slow
def test_without_the_extra_the_encoder_says_how_to_install_it():
    line = run_code(
        WITHOUT_TRAINING + "from spacy_biomed.errors import BiomedError\n"
        "try:\n    spacy.blank('en').add_pipe('biomed_transformer')\n"
        "except BiomedError as error:\n    print(error)"
    ).strip()
    assert install_command("train") in line
    assert "\n" not in line


def test_the_version_lists_what_is_installed_and_only_that(monkeypatch):
    installed = {"spacy-biomed": "1", "spacy": "3.8", "thinc": "8.3", "onnxruntime": "1.2"}

    def find(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(sys.modules["spacy_biomed.cli.info"], "version", find)
    printed = run("--version")
    expected = ["spacy-biomed 1", f"Python {platform.python_version()}", "spacy 3.8", "thinc 8.3"]
    assert printed.splitlines() == [*expected, "onnxruntime 1.2"]


def test_info_names_the_machine_and_how_to_add_what_an_extra_lacks(monkeypatch):
    def find(name: str) -> str:
        if name == "ray":
            raise PackageNotFoundError(name)
        return {"torch": "1.0", "onnx": "1.99"}.get(name) or version(name)

    monkeypatch.setattr(sys.modules["spacy_biomed.cli.info"], "version", find)
    monkeypatch.setattr("shutil.which", lambda name: None)
    lines = call("info").stdout.splitlines()
    assert f"spacy {version('spacy')}" in lines and "no NVIDIA GPU" in lines
    assert f"ray: lacks ray>=2.52; {install_command('ray')}" in lines
    assert f"train: lacks torch>=2.6; {install_command('train')}" in lines
    assert "serve: installed" in lines
