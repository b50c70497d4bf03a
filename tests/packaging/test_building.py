"""Recipes of pipelines: what is read and refused, the commands, and a build from end to end."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import spacy
import typer
from commands import call, error_line
from spacy.cli import app as spacy_app

from spacy_biomed.cli import app
from spacy_biomed.corpora.corpus_catalogue import find_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.building import Command, build, plan, run_command, ship
from spacy_biomed.packaging.pipeline_recipe import read_pipeline_recipe

REPOSITORY = Path(__file__).parents[2]
RECIPES = sorted((REPOSITORY / "configs" / "pipelines").glob("*.cfg"))
SMALL = (
    '{"vars.max_steps": 2, "vars.eval_frequency": 2, "vars.warmup_steps": 1, '
    '"components.biomed_transformer.model.accents": false}'
)

TINY = """
[corpus]
name = "both"

[corpora]

[corpora.chemical]
folder = "source/chemical"
format = "jsonl"
labels = ["DRUG"]
map = {"CHEMICAL": "DRUG"}

[corpora.disease]
folder = "source/disease"
format = "jsonl"
labels = ["DISEASE"]

[texts]
paths = ["source/text"]
words = 20

[teachers]

[teachers.large]
encoder = "ENCODER"
seeds = [0, 1]
epochs = 1
config = SMALL

[students]

[students.en_tiny]
encoder = "ENCODER"
epochs = 1
max_loss = 100
place = "assets/en_tiny"
config = SMALL

[card]
tests = ["disease"]
robustness = ["disease"]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory, tiny_bert) -> Path:
    """A folder with a recipe and its corpora and text."""
    folder = tmp_path_factory.mktemp("project")
    for number, name in enumerate(("chemical", "disease")):
        source = folder / "source" / name
        source.mkdir(parents=True)
        for part in ("train", "dev", "test"):
            text = (REPOSITORY / "assets" / "starter_en" / f"{part}.jsonl").read_text("utf8")
            lines = text.splitlines(keepends=True)[number:12:2]
            (source / f"{part}.jsonl").write_text("".join(lines), encoding="utf8")
    (folder / "source" / "text").mkdir()
    (folder / "source" / "text" / "all.txt").write_text(
        "Aspirin reduced the risk of stroke in mice with diabetes.\n" * 4, encoding="utf8"
    )
    filled = TINY.replace("ENCODER", str(tiny_bert)).replace("SMALL", SMALL)
    (folder / "tiny.cfg").write_text(filled, encoding="utf8")
    return folder


def run_here(command: Command) -> None:
    """Run a command in this process; a package is only a file here."""
    if command.words[0] == "package":
        (package,) = command.outputs
        (package / "tiny.whl").touch()
    elif command.words[0] == "biomed":
        result = call(*command.words[1:])
        assert result.exit_code == 0, (str(command), result.output, result.exception)
    else:
        typer.main.get_command(spacy_app).main(list(command.words), standalone_mode=False)


@pytest.fixture(scope="module")
def built(project):
    """The recipe, and the commands that its build runs."""
    ran: list[Command] = []

    def run(command: Command) -> None:
        ran.append(command)
        run_here(command)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        recipe = read_pipeline_recipe(Path("tiny.cfg"))
        build(recipe, Path("out"), run=run, steps=("corpora", "teachers", "students", "wheels"))
    return recipe, ran


def test_a_build_runs_every_command_once_and_in_order(built):
    recipe, ran = built
    assert ran == list(plan(recipe, Path("out")))
    names = [command.words[1 if command.words[0] == "biomed" else 0] for command in ran]
    assert names == [
        *["convert", "convert", "combine"],
        *["init-config", "train", "init-config", "train", "teach", "init-config", "train"],
        *["compress", "evaluate", "evaluate", "benchmark", "card", "package", "compress", "card"],
    ]


def test_the_pipeline_and_its_card_are_of_the_recipe(built, project):
    folder = project / "out" / "pipelines" / "en_tiny"
    meta = json.loads((folder / "meta.json").read_text(encoding="utf8"))
    assert (meta["lang"], meta["name"], meta["version"]) == ("en", "tiny", "0.1.0")
    assert set(spacy.load(folder).get_pipe("biomed_ner").labels) == {"DRUG", "DISEASE"}
    card = (folder / "README.md").read_text(encoding="utf8")
    assert "both" in card and "disease" in card and "in capitals" in card
    taught = json.loads((project / "out/corpora/both_large/corpus.json").read_text(encoding="utf8"))
    assert taught["taught"]["unlabelled_documents"] > 0


def test_a_boolean_setting_of_the_recipe_reaches_the_pipeline(built, project):
    config = spacy.util.load_config(project / "out/pipelines/en_tiny/config.cfg")
    assert config["components"]["biomed_transformer"]["model"]["accents"] is False


def test_a_second_build_runs_what_has_changed_and_no_more(built, project, monkeypatch):
    recipe, _ = built
    monkeypatch.chdir(project)
    skipped: list[Command] = []
    build(recipe, Path("out"), run=pytest.fail, skipped=skipped.append)
    assert skipped == list(plan(recipe, Path("out")))
    (project / "out/metrics/en_tiny/disease.json").unlink()
    again: list[str] = []

    def run(command: Command) -> None:
        again.append(" ".join(command.words[:2]))
        run_here(command)

    build(recipe, Path("out"), run=run)
    # The scores have the speed of their run, and the cards have not: the package stays.
    evaluated, *others = again
    assert evaluated == "evaluate out/compressed/en_tiny"
    assert others == ["biomed card", "biomed card"]


def test_a_new_recipe_setting_reruns_what_depends_on_it(built, project, monkeypatch):
    monkeypatch.chdir(project)
    other = read_pipeline_recipe(Path("tiny.cfg"), {"card.version": "0.2.0"})
    again: list[str] = []
    build(other, Path("out"), run=lambda command: again.append(command.words[1]))
    assert again == ["card", "card"]


def test_ship_replaces_both_forms(built, project, monkeypatch):
    recipe, _ = built
    monkeypatch.chdir(project)
    (project / "assets" / "en_tiny" / "old").mkdir(parents=True)
    build(recipe, Path("out"), steps=("ship",), run=pytest.fail)
    assert not (project / "assets" / "en_tiny" / "old").exists()
    assert spacy.load("assets/en_tiny").pipe_names == spacy.load("out/pipelines/en_tiny").pipe_names
    assert spacy.load("assets/en_tiny/trainable").pipe_names[0] == "biomed_transformer"
    assert sorted(path.name for path in (project / "assets").iterdir()) == ["en_tiny"]
    shutil.rmtree(project / "assets")


def test_a_pipeline_that_is_not_built_replaces_nothing(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "kept").touch()
    with pytest.raises(BiomedError, match="none: not built yet; run the steps before `ship`"):
        ship(tmp_path / "pipelines" / "none", tmp_path / "place")
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "kept"]


def test_students_start_from_a_pipeline_or_learn_from_none(project, tmp_path):
    text = (project / "tiny.cfg").read_text(encoding="utf8")
    begin, end = text.split("[students]\n")
    (tmp_path / "two.cfg").write_text(
        begin
        + '[teachers.before]\npipeline = "assets/en_tiny"\n\n[students]\n\n'
        + '[students.en_more]\nsource = "assets/en_tiny"\nteachers = ["before"]\nepochs = 2\n'
        + "source_share = 0.4\n\n"
        + '[students.en_alone]\nencoder = "mine"\nteachers = []\n'
        + end[end.index("\n[card]") :],
        encoding="utf8",
    )
    commands = list(plan(read_pipeline_recipe(tmp_path / "two.cfg"), Path("out")))
    students = [" ".join(command.words) for command in commands if command.step == "students"]
    assert students[0].startswith("biomed teach assets/en_tiny out/corpora/both out/corpora/both_b")
    assert students[1] == (
        "biomed init-config out/corpora/both_before out/students/en_more/config.cfg --task ner "
        "--source assets/en_tiny --seed 0 --epochs 2"
    )
    assert students[3] == (
        "biomed average out/students/en_more/averaged assets/en_tiny "
        "out/students/en_more/model-best --share 0.4 --share 0.6"
    )
    compressed = [" ".join(one.words) for one in commands if one.words[1] == "compress"]
    assert compressed[0].startswith("biomed compress out/students/en_more/averaged out/compressed")
    assert compressed[2].startswith("biomed compress out/students/en_alone/model-best out/")
    assert students[4] == (
        "biomed init-config out/corpora/both out/students/en_alone/config.cfg --task ner "
        "--encoder mine --seed 0"
    )
    assert len(students) == 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = [0, 1]", "seeds = []", "tiny.cfg:26: teachers.large.seeds = "),
        ("words = 20", "wordz = 20", "tiny.cfg:20: texts.wordz: no such setting; did you mean"),
        ('tests = ["disease"]', 'tests = ["diseaze"]', "card.tests has 'diseaze': did you mean"),
        ('name = "both"', 'name = "disease"', "is one of the corpora"),
        ("max_loss = 100", 'source = "x"', "give a student either an encoder or a source"),
        ("max_loss = 100", "source_share = 0.5", "source_share is for a student that goes on"),
        ("[students.en_tiny]", "[students.tiny]", "tiny"),
        ('name = "both"', "", "corpus.name: is missing"),
    ],
)
def test_a_wrong_recipe_is_one_line(project, tmp_path, old, new, message):
    text = (project / "tiny.cfg").read_text(encoding="utf8")
    assert old in text
    (tmp_path / "tiny.cfg").write_text(text.replace(old, new), encoding="utf8")
    result = call("build", tmp_path / "tiny.cfg", "--dry-run")
    assert message in error_line(result)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("corpora.disease.folder", "gone", "corpora.disease: gone: not there; .*--download"),
        ("texts.paths", ["gone"], "texts.paths: gone: missing; put text"),
        ("students.en_tiny.encoder", "biobrt", "en_tiny.encoder: .*did you mean"),
    ],
)
def test_nothing_runs_if_an_input_is_missing(project, monkeypatch, setting, value, message):
    monkeypatch.chdir(project)
    recipe = read_pipeline_recipe(Path("tiny.cfg"), {setting: value})
    with pytest.raises(BiomedError, match=message) as error:
        build(recipe, Path("never"), run=pytest.fail)
    assert "\n" not in str(error.value)
    assert not Path("never").exists()


def test_the_command_prints_what_it_would_run(project, monkeypatch):
    monkeypatch.chdir(project)
    arguments = ["build", "tiny.cfg", "--dry-run", "--step", "corpora", "--texts.words", "7"]
    lines = call(*arguments).stdout.splitlines()
    assert len(lines) == 3
    assert lines[0] == (
        "python -m spacy biomed convert chemical source/chemical build/tiny/corpora/chemical "
        "--format jsonl --labels DRUG --map CHEMICAL=DRUG"
    )
    refused = call("build", "tiny.cfg", "--step", "corpus")
    assert "did you mean corpora" in error_line(refused)


def test_a_damaged_record_of_a_build_is_one_line(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    (tmp_path / "build.json").write_text("{", encoding="utf8")
    with pytest.raises(BiomedError, match=r"build\.json:1: not JSON"):
        build(read_pipeline_recipe(Path("tiny.cfg")), tmp_path, run=run_here)


def test_a_command_that_fails_ends_the_build_with_its_status(project, monkeypatch):
    monkeypatch.chdir(project)
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_command(Command("corpora", ("biomed", "corpora", "nothing"), (), ()))
    assert error.value.returncode == 1


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_that_ship_can_be_read_and_parsed(path):
    recipe = read_pipeline_recipe(path)
    commands = list(plan(recipe, Path("out")))
    known = typer.main.get_command(app).commands
    for command in commands:
        name, *words = command.words[1:]
        # The others look at files that are not there yet.
        if command.words[0] == "biomed" and name not in ("init-config", "train"):
            known[name].make_context(name, words)
    for name, corpus in recipe.corpora.items():
        labels = find_corpus(name).labels
        assert set(corpus.map) <= set(labels) or name == "nlm_gene", name
    made: set[Path] = set()
    for command in commands:
        ours = [path for path in command.inputs if path.parts[0] == "out"]
        assert all(
            any(path.is_relative_to(one) for one in made)
            for path in ours
            if "metrics" not in path.parts
        )
        made.update(command.outputs)
