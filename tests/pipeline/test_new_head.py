"""A head of another package: a module and an entry point (`new_head/`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from head_corpora import write_corpora
from multitask_corpora import write_small_template
from spacy.util import load_config

NEW_HEAD = Path(__file__).with_name("new_head")

# Runs commands given as JSON in one process; "score" writes the scores of a pipeline.
RUN = """
import json, sys
import spacy
from spacy_biomed.cli import app
from spacy_biomed.studies.study import score_tasks

for command in json.loads(sys.argv[1]):
    if command[0] == "score":
        with open(command[2], "w") as file:
            json.dump(score_tasks(spacy.load(command[1])), file)
    else:
        app(command, standalone_mode=False)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_bert):
    """The folder of a training of the head alone, and of a multi-task run with `biomed_textcat`:
    configured, trained, compressed and with a model card."""
    folder = tmp_path_factory.mktemp("new_head")
    corpora = write_corpora(folder / "corpora", ["triage", "textcat_multilabel"])
    options = ["--encoder", str(tiny_bert), "--epochs", "30", "--batch-words", "100"]
    several = ["--tasks", "triage,textcat_multilabel", "--corpora-dir", "corpora"]
    several += ["--template", "multitask.cfg"]
    fast = ["--vars.learn_rate", "0.005", "--training.optimizer.use_averages", "false"]
    commands = [
        ["init-config", "corpora/triage", "alone.cfg", *options],
        ["train", "alone.cfg", "--output", "alone", *fast],
        ["init-config", "multitask", "run.cfg", *several, *options],
        ["train", "run.cfg", "--output", "trained", *fast],
        ["compress", "trained/model-best", "exported", "--precision", "fp32"],
        ["score", "exported", "scores.json"],
        ["card", "exported", "described", "--corpus", str(corpora[0]), "--metrics", "scores.json"],
    ]
    write_small_template(folder / "multitask.cfg")
    path = os.pathsep.join([str(NEW_HEAD), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    return folder


@pytest.mark.slow
def test_it_is_trained_alone_on_a_corpus_of_its_task(folder):
    config = load_config(folder / "alone.cfg")
    assert config["nlp"]["pipeline"] == ["biomed_transformer", "urgency"]
    assert config["components"]["urgency"]["model"]["tok2vec"]["pooling"] == "cls"
    assert config["training"]["score_weights"] == {"urgency_accuracy": 1.0}
    meta = json.loads((folder / "alone" / "model-best" / "meta.json").read_text())
    assert meta["performance"]["urgency_accuracy"] == 1.0


def test_it_joins_a_multi_task_run(folder):
    config = load_config(folder / "run.cfg")
    assert config["nlp"]["pipeline"] == ["biomed_transformer", "triage", "textcat_multilabel"]
    assert config["components"]["triage"]["factory"] == "urgency"
    weights = config["training"]["score_weights"]
    assert weights["urgency_triage_accuracy"] == weights["cats_textcat_multilabel_score"] == 0.5
    assert weights["urgency_accuracy"] is None


def test_it_learns_and_is_compressed(folder):
    assert json.loads((folder / "scores.json").read_text()) == {
        "urgency_triage_accuracy": 1.0,
        "cats_textcat_multilabel_score": pytest.approx(1.0),
    }
    config = load_config(folder / "exported" / "config.cfg")
    assert config["components"]["biomed_transformer"]["factory"] == "biomed_onnx_transformer"


def test_it_gets_a_card(folder):
    card = (folder / "described" / "README.md").read_text(encoding="utf8").splitlines()
    assert "Triage and document classification, trained on my_triage." in card
    assert 'print(doc.user_data["urgency"])' in card
    assert "| accuracy | 100.00 |" in card
