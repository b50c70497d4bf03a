"""project.yml: every step is there, every command runs something real, and the files chain."""

import re
import shlex
from pathlib import Path

import pytest
import srsly
import typer
from weasel.util.config import load_project_config

from spacy_biomed.cli import app
from spacy_biomed.training.corpus import list_learners

REPOSITORY = Path(__file__).parents[2]
PROJECT = srsly.read_yaml(REPOSITORY / "project.yml")
COMMANDS = {command["name"]: command for command in PROJECT["commands"]}
SUB_COMMANDS = typer.main.get_command(app).commands
BIOMED = re.compile(r"python -m spacy biomed (\S+)(.*)")
VARIABLE = re.compile(r"\$\{vars\.(\w+)\}")
NESTED = re.compile(r"python -m spacy project run (\S+) \.(.*)")

# Workflows of one task.
ALIASES = ("ner", "textcat", "pair", "similarity", "relations", "qa")

# Made by the user or by `spacy biomed corpora --download`, or part of the repository.
GIVEN = ("assets/",)


def scripts() -> list[tuple[str, str]]:
    return [(name, line) for name, command in COMMANDS.items() for line in command["script"]]


def fill(path: str, **variables: str) -> str:
    """A path with the project's variables, or these instead, put in."""
    values = {**PROJECT["vars"], **variables}
    while VARIABLE.search(path):  # a variable may have others
        path = VARIABLE.sub(lambda match: str(values[match.group(1)]), path)
    return path


@pytest.mark.parametrize("workflow", sorted(PROJECT["workflows"]))
def test_every_step_of_a_workflow_is_a_command(workflow):
    assert set(PROJECT["workflows"][workflow]) <= set(COMMANDS)


def test_spacy_reads_the_files_of_a_step_as_they_are_meant():
    variables = {"corpus": "mine", "teacher": "theirs", "texts": "some.txt"}
    overrides = {f"vars.{name}": value for name, value in variables.items()}
    for command in load_project_config(REPOSITORY, overrides=overrides)["commands"]:
        for kind in ("deps", "outputs"):
            meant = COMMANDS[command["name"]].get(kind, [])
            assert command.get(kind, []) == [fill(path, **variables) for path in meant]


def test_no_two_commands_share_a_name():
    assert len(COMMANDS) == len(PROJECT["commands"])


@pytest.mark.parametrize(("name", "line"), scripts())
def test_variables_are_defined(name, line):
    used = set(VARIABLE.findall(line) + re.findall(r"--vars\.(\w+)", line))
    assert used <= set(PROJECT["vars"])


def parse(line: str) -> tuple[str, list[str]]:
    """The sub-command of a line, and its arguments as the shell would split them."""
    name, rest = BIOMED.match(line).groups()
    return name, shlex.split(fill(rest))


@pytest.mark.parametrize("line", [line for _, line in scripts() if BIOMED.match(line)])
def test_a_sub_command_exists_and_takes_the_arguments(line, tmp_path, monkeypatch):
    name, arguments = parse(line)
    assert name in SUB_COMMANDS
    monkeypatch.chdir(tmp_path)
    for path in map(Path, arguments):
        if path.suffix == ".cfg":  # a step before it makes it
            path.parent.mkdir(parents=True)
            path.touch()
    SUB_COMMANDS[name].make_context(name, arguments)  # raises a usage error


def test_a_workflow_that_is_called_after_a_task_configures_its_head():
    learners = list_learners()
    heads = {name: learners[task_of(f"config_{name}")].default_name for name in ALIASES}
    assert heads == {
        "ner": "biomed_ner",
        "textcat": "biomed_textcat",
        "pair": "biomed_textcat",
        "similarity": "biomed_similarity",
        "relations": "biomed_relations",
        "qa": "biomed_qa",
    }
    assert task_of("config") == ""
    for name in ALIASES:
        steps = [step.replace("config_" + name, "config") for step in PROJECT["workflows"][name]]
        if name == "ner":  # whose cards have its robustness
            steps = [step.replace("describe_ner", "describe") for step in steps]
            steps.remove("robustness")
        assert steps == PROJECT["workflows"]["pipeline"]


def task_of(command: str) -> str:
    (line,) = COMMANDS[command]["script"]
    arguments = parse(line)[1]
    return arguments[arguments.index("--task") + 1]


@pytest.mark.parametrize("line", [line for _, line in scripts() if NESTED.match(line)])
def test_a_nested_run_names_a_workflow_or_command(line):
    assert NESTED.match(line).group(1) in {*PROJECT["workflows"], *COMMANDS}


@pytest.mark.parametrize("workflow", sorted(PROJECT["workflows"]))
def test_what_a_step_needs_is_given_or_made_by_a_step_before_it(workflow):
    made = list(GIVEN) + ([fill("${vars.encoder}")] if workflow != "all" else [])
    if workflow == "student":  # of a corpus that `ner` has been run for
        made += map(fill, ("training/${vars.teacher}", "corpus/${vars.teacher}", "${vars.texts}"))
    for step in PROJECT["workflows"][workflow]:
        command = COMMANDS[step]
        for needed in map(fill, command.get("deps", ())):
            assert any(f"{needed}/".startswith(f"{path.rstrip('/')}/") for path in made), needed
        made += map(fill, command.get("outputs", ()))


def test_every_command_that_is_not_repeated_says_what_it_makes():
    for command in COMMANDS.values():
        assert command.get("no_skip") or command.get("outputs"), command["name"]


@pytest.mark.parametrize(("name", "line"), scripts())
def test_configs_and_folders_of_the_repository_that_a_script_names_are_there(name, line):
    for path in re.findall(r"(?:configs|assets/terms)/[\w./]+", fill(line)):
        assert (REPOSITORY / path).exists(), path


def test_the_wheels_of_the_starters_are_those_that_are_installed():
    made = {
        fill(path)
        for step in PROJECT["workflows"]["all"]
        for path in COMMANDS[step].get("outputs", ())
        if path.startswith("packages/")
    }
    assert made == set(COMMANDS["install_starters"]["deps"])
    (line,) = COMMANDS["install_starters"]["script"]
    assert set(parse(line)[1]) == made
