"""`spacy biomed distill`."""

import json
import sys

import pytest
from commands import call, error_line
from distillation_recipe import RECIPE

from spacy_biomed.errors import install_command


@pytest.fixture
def invoke(tmp_path, tiny_bert):
    """Call the command with the recipe, its paths, and further arguments."""
    (tmp_path / "recipe.cfg").write_text(RECIPE)
    (tmp_path / "text.txt").write_text("Aspirin reduced the risk of cancer.\n" * 20)
    paths = {"text": tmp_path / "text.txt", "teacher": tiny_bert, "output": tmp_path / "student"}

    def invoke(*arguments: str, **others: str):
        named = [(f"--paths.{name}", str(path)) for name, path in (paths | others).items()]
        given = [part for pair in named if pair[1] for part in pair]
        return call("distill", tmp_path / "recipe.cfg", *given, *arguments)

    return invoke


def test_a_student_is_written_and_what_it_came_to_is_printed(invoke, tmp_path):
    result = invoke()
    assert result.exit_code == 0, result.output
    config = json.loads((tmp_path / "student" / "config.json").read_text())
    assert (config["num_hidden_layers"], config["hidden_size"]) == (1, 16)
    line = result.output.splitlines()[-1]
    assert line.startswith(f"✔ Wrote {tmp_path}/student: 0.0")
    assert "; validation loss " in line and "(perplexity " in line
    assert line.endswith(" after step 2 of 2")


def test_settings_are_overridden_and_a_loss_that_is_no_perplexity_is_not_told_as_one(invoke):
    objective = ["--objective.name", "tinybert", "--objective.output_weight", "0"]
    result = invoke(*objective, "--training.steps", "1")
    assert result.exit_code == 0, result.output
    line = result.output.splitlines()[-1]
    assert line.endswith(" after step 1 of 1") and "perplexity" not in line


@pytest.mark.parametrize(
    ("arguments", "others", "problem"),
    [
        ([], {"text": ""}, "recipe.cfg:7: text.paths: is missing; give --paths.text"),
        ([], {"text": "none.txt"}, "text.paths: none.txt does not exist; correct the path"),
        ([], {"teacher": "/none"}, "/none: no such encoder directory; give a directory"),
        (["--student.layers", "3"], {}, "recipe.cfg:13: student: layers = 3: the student takes"),
        (["--objective.name", "x"], {}, "recipe.cfg:16: objective: there is no objective 'x'"),
        (
            ["--objective.name", "compact"],
            {},
            "recipe.cfg:11: teacher.name: has no head for masked language modelling",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(invoke, tmp_path, arguments, others, problem):
    result = invoke(*arguments, **others)
    assert problem in error_line(result) and "\n" not in error_line(result)
    assert not (tmp_path / "student").exists()


def test_without_the_extra_the_line_says_what_to_install(invoke, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy_biomed.language_models.distillation", None)
    result = invoke()
    assert error_line(result).endswith(install_command("train"))
