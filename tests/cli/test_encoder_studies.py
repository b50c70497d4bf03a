"""`spacy biomed study encoders` and `spacy biomed study distillation`."""

import json

import pytest
from distillation_recipe import RECIPE
from error_lines import error_line
from multitask_corpora import convert_tasks
from typer.testing import CliRunner

from spacy_biomed.cli import app
from spacy_biomed.evaluation.benchmark import PipelineFigures


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    return convert_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture
def invoke(corpora):
    def invoke(*arguments, fails=False):
        options = ["--corpora-dir", corpora]
        arguments = [str(one) for one in ("study", *arguments, *options)]
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        if fails:
            return error_line(result)
        assert result.exit_code == 0, result.output
        return result.stdout

    return invoke


@pytest.fixture
def distil(invoke, tiny_bert, tmp_path):
    (tmp_path / "recipe.cfg").write_text(RECIPE)
    (tmp_path / "text.txt").write_text("Aspirin reduced the risk of cancer.\n" * 20)
    paths = ["--paths.text", tmp_path / "text.txt", "--paths.teacher", tiny_bert]
    paths += ["--paths.output", "unused"]

    def distil(*arguments, fails=False):
        command = ["distillation", tmp_path / "recipe.cfg", tmp_path / "study", *paths]
        return invoke(*command, *arguments, fails=fails)

    return distil


@pytest.fixture
def no_timing(monkeypatch):
    """Timing starts a process for each pipeline, which tests/evaluation/ does."""

    def time(pipelines, texts, **settings):
        assert settings == {"repeats": 1, "threads": 2}
        figures = [PipelineFigures(path, len(texts), words=100) for path in pipelines]
        for one in figures:
            one.pipe_seconds.append(2.0)
        return figures

    monkeypatch.setattr("spacy_biomed.studies.encoder_study.measure_speed", time)


def test_students_are_studied_beside_their_teacher_and_the_one_without_it(
    distil, no_timing, tmp_path
):
    options = ["--objectives", "mobilebert", "--tasks", "drugs=1", "--seeds", 1]
    options += ["--repeats", 1, "--threads", 2]
    printed = distil(*options)
    rows = (tmp_path / "study" / "encoders.md").read_text().splitlines()
    names = [row.split("|")[1].strip() for row in rows[2:5]]
    assert names == ["teacher", "no_distillation", "mobilebert"]
    assert rows[0].endswith("| against no_distillation |") and rows[0] in printed
    content = json.loads((tmp_path / "study" / "encoders.json").read_text())
    assert content["settings"]["epochs"] == {"drugs": 1}
    teacher, without, distilled = content["encoders"]
    assert without["parameters"] == distilled["parameters"] < teacher["parameters"]
    assert [one["words_per_second"] for one in content["encoders"]] == [50.0] * 3
    assert "✔ Wrote encoders.md, encoders.json and encoders.svg to" in printed


def test_without_tasks_students_are_only_trained_and_settings_are_overridden(distil, tmp_path):
    printed = distil("--objectives", "tinybert", "--training.steps", 3)
    assert f"✔ Wrote no_distillation, tinybert to {tmp_path}/study" in printed
    for name in ("no_distillation", "tinybert"):
        log = (tmp_path / "study" / "students" / name / "log.jsonl").read_text()
        assert json.loads(log.splitlines()[-1])["step"] == 3
    assert not (tmp_path / "study" / "encoders.md").exists()


def test_what_cannot_be_scored_is_found_before_students_are_trained(distil, tmp_path):
    assert "none" in distil("--tasks", "none", fails=True)
    problem = distil("--tasks", "drugs=0", fails=True)
    assert problem == "--tasks drugs=0: '0' is no number of epochs; give 1 or more"
    assert not (tmp_path / "study" / "students").exists()


def test_bad_names_of_encoders_are_one_line(invoke, tmp_path):
    problem = invoke(
        "encoders", tmp_path, "--encoders", "a=/none,a=/other", "--tasks", "drugs", fails=True
    )
    assert "two are called a" in problem


@pytest.mark.parametrize("name", ["encoders", "distillation"])
def test_the_help_has_an_example(name):
    result = CliRunner().invoke(app, ["study", name, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"python -m spacy biomed study {name}" in " ".join(result.stdout.split())
