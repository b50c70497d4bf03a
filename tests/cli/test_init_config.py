"""`spacy biomed init-config` for one corpus: the config that it writes, however it is called."""

import pytest
from typer.testing import CliRunner

from spacy_biomed.cli import app


def write_config(*arguments: object) -> str:
    output = arguments[-1]
    command = ["init-config", *map(str, arguments), "--encoder", "biobert", "--epochs", "2"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return output.read_text(encoding="utf8")


@pytest.mark.parametrize("template", ["ner", "ner_linear"])
def test_the_template_may_come_first_as_a_file_of_configs(tiny_corpus, tmp_path, template):
    now = write_config("--template", template, tiny_corpus, tmp_path / "now.cfg")
    then = write_config(f"configs/{template}.cfg", tiny_corpus, tmp_path / "then.cfg")
    assert now == then


def test_a_file_of_the_user_in_a_folder_of_that_name_is_the_template(
    tiny_corpus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "ner.cfg").write_text("[training]\ndropout = 0.25\n", encoding="utf8")
    written = write_config("configs/ner.cfg", tiny_corpus, tmp_path / "own.cfg")
    assert "\ndropout = 0.25\n" in written
    assert "[components.biomed_ner]" in written


def test_a_recipe_of_a_paper_brings_its_epochs(tiny_corpus, tmp_path):
    output = tmp_path / "recipe.cfg"
    command = ["init-config", tiny_corpus, output, "--encoder", "biobert"]
    command += ["--template", "papers/rohanian_ner"]
    result = CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "5 epochs of" in " ".join(result.output.split())
    written = output.read_text(encoding="utf8")
    assert '\n@batchers = "spacy.batch_by_sequence.v1"\nsize = 16\n' in written
    assert "[recipe]" not in written
