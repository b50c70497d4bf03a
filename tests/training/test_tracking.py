"""The logger for MLflow and Weights & Biases: what is sent, and what is not."""

import sys
from types import SimpleNamespace

import pytest
import spacy
from multitask_corpora import convert_tasks
from spacy.training.initialize import init_nlp
from spacy.training.loop import train

from spacy_biomed.errors import BiomedError
from spacy_biomed.training.config import fill_config
from spacy_biomed.training.tracking import TrackingLogger_v1, list_private_settings


@pytest.fixture
def config(tiny_bert, tmp_path):
    folder = convert_tasks(tmp_path / "tasks") / "drugs"
    config = fill_config(folder, encoder=str(tiny_bert), epochs=1, batch_words=100)
    config["training"]["logger"] = {
        "@loggers": "spacy_biomed.TrackingLogger.v1",
        "to": "mlflow",
        "run_name": "one",
    }
    return config


@pytest.fixture
def sent(monkeypatch):
    """What MLflow is given, in a stand-in for it."""
    sent = {"params": {}, "metrics": {}, "models": [], "runs": []}
    mlflow = SimpleNamespace(
        start_run=lambda **options: sent["runs"].append(options["run_name"]),
        log_params=sent["params"].update,
        log_metric=lambda name, value: sent["metrics"].update({name: value}),
        log_metrics=sent["metrics"].update,
        log_artifact=None,
        end_run=lambda: sent["runs"].append("end"),
        spacy=SimpleNamespace(log_model=lambda *given: sent["models"].append(given)),
    )
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "mlflow.spacy", mlflow.spacy)
    return sent


def test_scores_and_settings_are_sent_but_no_path_and_no_pipeline(config, sent, tmp_path):
    with (tmp_path / "log").open("w") as log:
        train(init_nlp(config), tmp_path, stdout=log)
    assert sent["runs"] == ["one", "end"]
    assert "ents_f" in sent["metrics"] and sent["models"] == []
    assert sent["params"]["training.max_steps"] == config["vars"]["max_steps"]
    assert str(tmp_path) not in str(sent) and "/bert" not in str(sent["params"])
    assert not [name for name in sent["params"] if name.startswith(("paths", "corpora"))]


def test_private_settings_are_paths_and_what_was_found_in_a_corpus(tmp_path):
    config = {
        "paths": {"train": "x"},
        "vars": {"encoder": str(tmp_path), "seed": 0},
        "components": {"ner": {"labels": ["A"]}},
    }
    assert list_private_settings(config) == ["paths.train", "vars.encoder", "components.ner.labels"]


def test_without_the_package_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)

    with pytest.raises(BiomedError, match="pip install wandb"):
        TrackingLogger_v1("wandb")(spacy.blank("en"))
