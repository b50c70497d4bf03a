"""`spacy biomed init-config multitask` and `spacy biomed study`."""

import json

import pytest
from commands import refuse, run
from multitask_corpora import TASKS_STUDY
from spacy.util import load_config


def test_a_config_for_several_corpora_is_written(corpora, tmp_path):
    output = tmp_path / "out.cfg"
    options = ["--corpora-dir", corpora, "--schedule", "proportional", "--batch-words", 30]
    options += ["--epochs", 2, "--seed", 3, "--learn-rate", 0.1, "--encoder", "biobert"]
    printed = run(
        "init-config",
        "multitask",
        "--tasks",
        "drugs, topics",
        *options,
        output,
    )
    config = load_config(output, interpolate=True)
    assert config["nlp"]["pipeline"] == ["biomed_transformer", "drugs", "topics"]
    assert config["training"]["batcher"]["@batchers"] == "spacy_biomed.proportional.v1"
    assert config["training"]["seed"] == 3
    assert config["vars"]["learn_rate"] == 0.1
    assert "drugs: ner, biomed_ner" in printed
    assert "topics: textcat_multilabel, biomed_textcat" in printed
    assert f"{config['vars']['max_steps']} steps, 2 epochs" in " ".join(printed.split())


def test_without_epochs_a_config_has_those_of_its_template(corpora, tmp_path):
    options = ["--corpora-dir", corpora, "--tasks", "drugs,topics", "--encoder", "biobert"]
    printed = run("init-config", "multitask", *options, tmp_path / "out.cfg")
    assert "steps, 10 epochs of" in " ".join(printed.split())


@pytest.mark.parametrize("word", [[], ["corpus"]])
def test_the_config_of_one_corpus_is_written_as_ever(corpora, tmp_path, word):
    output = tmp_path / "out.cfg"
    run(
        "init-config",
        *word,
        corpora / "drugs",
        output,
        "--encoder",
        "biobert",
        "--epochs",
        4,
    )
    assert load_config(output)["paths"]["train"] == (corpora / "drugs" / "train.spacy").as_posix()


def test_options_may_come_first_too(corpora, tmp_path):
    output = tmp_path / "out.cfg"
    run("init-config", "--encoder", "biobert", corpora / "drugs", output)
    assert output.is_file()


def test_help_tells_of_both_forms():
    printed = " ".join(run("init-config", "--help").split())
    assert "init-config corpus/ncbi_disease" in printed
    assert "init-config multitask --tasks" in printed
    for name in ("corpus", "multitask"):
        assert "Example: python -m spacy biomed init-config" in " ".join(
            run("init-config", name, "--help").split()
        )
    for name in ("scores", "run"):
        assert f"Example: python -m spacy biomed study {name}" in " ".join(
            run("study", name, "--help").split()
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init-config"], "Missing command; see `"),
        (["init-config", "multitask", "x.cfg", "--encoder", "x"], "Missing option '--tasks'"),
        (["init-config", "x.cfg", "--tasks", "a"], "No such option"),
        (
            [
                "init-config",
                "multitask",
                "x.cfg",
                "--tasks",
                "a",
                "--encoder",
                "x",
                "--template",
                "t",
            ],
            "t: no such config",
        ),
        (["study", "scores", "no/pipeline"], "no/pipeline: neither an installed pipeline"),
        # Before a pipeline is looked for.
        (["study", "scores", "no/pipeline", "--output", "."], ".: this is a directory"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    line = refuse(*arguments)
    assert line.startswith(message)
    assert "\n" not in line
    assert list(tmp_path.iterdir()) == []


TOGETHER = """
[rows.with]
encoder = "{encoder}"
training = "together"
companions = "each"
template = "{template}"
"""


def test_a_study_of_tasks_and_the_scores_of_a_pipeline(corpora, template, tiny_bert, tmp_path):
    study = (TASKS_STUDY + TOGETHER).format(encoder=tiny_bert, template=template)
    (tmp_path / "study.cfg").write_text(study)
    output = tmp_path / "study"
    printed = run("study", "run", tmp_path / "study.cfg", output, "--corpora-dir", corpora)
    assert "| corpus | alone | apart | with drugs | with topics |" in printed
    results = json.loads((output / "results.json").read_text())
    found = {(cell["row"], cell["corpus"]): cell["mean"] for cell in results["cells"]}
    assert ("with_drugs", "drugs") not in found
    [pipeline] = (output / "pipelines").iterdir()
    file = tmp_path / "scores.json"
    printed = run("study", "scores", pipeline, "--output", file)
    scores = json.loads(file.read_text())
    assert 100 * scores["spans_drugs_f"] == found["with_topics", "drugs"]
    assert 100 * scores["cats_topics_score"] == found["with_drugs", "topics"]
    assert f"{100 * scores['cats_topics_score']:.2f}" in printed
