"""Commands that show their progress, in a terminal of 80 x 24: a bar needs its size."""

import json
import shutil
from pathlib import Path

import pytest
import spacy
from distillation_recipe import RECIPE
from multitask_corpora import STUDY
from pretraining_recipes import write_recipe, write_text
from terminal import COLUMNS, run_in_terminal

REPOSITORY = Path(__file__).parents[2]
CONTINUE = "Interrupted: run the same command again to continue"


@pytest.fixture(scope="module", autouse=True)
def _needs_a_terminal():
    pytest.importorskip("pty", reason="this system has no pseudo-terminals")


@pytest.mark.slow
def test_spacy_train_in_a_terminal_shows_a_bar_and_saves_what_can_go_on(tiny_config, tmp_path):
    shown = run_in_terminal("train", tiny_config, "--output", tmp_path / "out")
    assert shown.status == 0, shown.text
    assert "/3 [" in shown.text and "Traceback" not in shown.text
    header = next(line for line in shown.text.splitlines() if "WORDS/S" in line)
    assert header.split()[-4:] == ["SCORE", "BEST", "WORDS/S", "LEFT"]
    assert len(header) <= COLUMNS
    # Which fails on a config with variables.
    assert spacy.load(tmp_path / "out" / "model-best").resume_training().learn_rate == 0


@pytest.mark.slow
def test_a_training_that_is_interrupted_says_how_to_continue_and_continues(tiny_config, tmp_path):
    options = ["--vars.max_steps", "40", "--vars.eval_frequency", "5"]
    command = ["biomed", "train", tiny_config, "--output", tmp_path / "out", *options]
    shown = run_in_terminal(*command, interrupt_after="10/40")  # after a checkpoint
    assert shown.status == 130, shown.text
    assert shown.text.splitlines()[-1] == CONTINUE
    assert "Traceback" not in shown.text
    shown = run_in_terminal(*command)
    assert shown.status == 0, shown.text
    assert "Continuing after step" in shown.text and "/40 [" in shown.text
    nlp = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.resume_training().learn_rate == 0


@pytest.mark.slow
def test_the_workflows_training_in_a_terminal_ends_well(tiny_config, tiny_corpus, tmp_path):
    shutil.copy(REPOSITORY / "project.yml", tmp_path)
    (tmp_path / "training" / "tiny").mkdir(parents=True)
    shutil.copy(tiny_config, tmp_path / "training" / "tiny" / "config.cfg")
    shutil.copytree(tiny_corpus, tmp_path / "corpus" / "tiny")
    shown = run_in_terminal("project", "run", "train", ".", "--vars.corpus", "tiny", cwd=tmp_path)
    assert shown.status == 0, shown.text
    assert "/3 [" in shown.text
    assert (tmp_path / "training" / "tiny" / "model-best").is_dir()


def test_pretraining_that_is_interrupted_says_how_to_continue(tmp_path):
    recipe = write_recipe(tmp_path, training__steps=5000, training__evaluate_every=2)
    shown = run_in_terminal("biomed", "pretrain", recipe, interrupt_after="step 2 of")
    assert shown.status == 130, shown.text
    assert shown.text.splitlines()[-1] == CONTINUE
    assert "Traceback" not in shown.text


@pytest.mark.slow
def test_a_study_that_is_interrupted_says_how_to_continue(tiny_bert, corpora, tmp_path):
    (tmp_path / "study.cfg").write_text(STUDY.format(encoder=tiny_bert))
    command = ["biomed", "study", "run", tmp_path / "study.cfg", tmp_path / "out"]
    command += ["--corpora-dir", corpora, "--jobs", "2", "--grid.seeds", "[0, 1]"]
    shown = run_in_terminal(*command, interrupt_after="0/2")
    assert shown.status == 130, shown.text
    # A process of the study may still print the end of what it had begun.
    assert CONTINUE in shown.text.splitlines()
    assert "Traceback" not in shown.text
    shown = run_in_terminal(*command)
    assert shown.status == 0, shown.text
    assert "Wrote" in shown.text


@pytest.mark.slow
def test_annotation_that_is_interrupted_says_how_to_continue(tiny_pipeline, tmp_path):
    (tmp_path / "notes.txt").write_text("Aspirin reduced the risk of stroke.\n" * 40_000)
    command = ["biomed", "annotate", tiny_pipeline, tmp_path / "notes.txt", tmp_path / "out.jsonl"]
    command += ["--shard-size", "10"]
    shown = run_in_terminal(*command, interrupt_after="Annotating, ")
    assert shown.status == 130, shown.text
    assert shown.text.splitlines()[-1] == CONTINUE
    assert "Traceback" not in shown.text


@pytest.fixture(scope="module")
def folder(tiny_corpus, tiny_bert, tiny_pipeline, tmp_path_factory) -> Path:
    """A folder with a corpus in columns, texts, recipes, and the tiny encoder and pipeline."""
    folder = tmp_path_factory.mktemp("terminal")
    shutil.copytree(tiny_corpus.parent / "source", folder / "source")
    shutil.copytree(tiny_corpus, folder / "tiny")
    shutil.copytree(tiny_bert, folder / "encoder")
    shutil.copytree(tiny_pipeline, folder / "pipeline")
    write_text(folder / "texts.txt")
    write_recipe(folder, output__directory="pretrained")
    (folder / "distil.cfg").write_text(RECIPE)
    notes = ({"text": f"Aspirin was given on day {number}."} for number in range(30))
    (folder / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("convert mine source converted --format conll", "converted/train.spacy"),
        ("pretrain recipe.cfg --paths.output pretrained", "pretrained/model.safetensors"),
        (
            "distill distil.cfg --paths.text texts.txt --paths.teacher encoder --paths.output "
            "distilled",
            "distilled/model.safetensors",
        ),
        ("compress pipeline compressed --check tiny/dev.spacy --max-loss 100", "compressed"),
        ("calibrate pipeline calibrated --dev tiny/dev.spacy", "calibrated"),
        ("annotate pipeline notes.jsonl annotated.jsonl --shard-size 10", "annotated.jsonl"),
        ("deidentify pipeline notes.jsonl safe.jsonl --kind C=name", "safe.jsonl"),
        ("clean texts.txt --output clean.txt --lang en", "clean.txt"),
        ("vocabulary texts.txt --output vocabulary --size 100", "vocabulary/tokenizer.json"),
        ("benchmark pipeline texts.txt --repeats 1 --output figures.json", "figures.json"),
        ("teach pipeline tiny taught --texts texts.txt", "taught/train.spacy"),
    ],
)
def test_a_command_in_a_terminal_ends_well(folder, command, made):
    shown = run_in_terminal("biomed", *command.split(), cwd=folder)
    assert shown.status == 0, shown.text
    assert "Traceback" not in shown.text
    assert (folder / made).exists()
