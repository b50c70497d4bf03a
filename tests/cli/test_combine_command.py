"""`spacy biomed combine`, and every step after it on a corpus that is annotated in parts."""

import json
from pathlib import Path

import pytest
import spacy
from commands import refuse, run

from spacy_biomed.annotations.annotation_scope import get_scope
from spacy_biomed.formats.spacy_docs import read_docs

REPOSITORY = Path(__file__).parents[2]
STARTER = REPOSITORY / "assets" / "starter_en"
SMALL = ["--vars.max_steps", "2", "--vars.eval_frequency", "2"]


def cells_of(line):
    return [cell.strip() for cell in line.strip("│").split("│")]


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Two corpora out of the starter corpus, of other texts and with one label each."""
    folder = tmp_path_factory.mktemp("halves")
    for number, label in enumerate(("CHEMICAL", "DISEASE")):
        source = folder / "source" / label
        source.mkdir(parents=True)
        for part in ("train", "dev", "test"):
            lines = (STARTER / f"{part}.jsonl").read_text(encoding="utf8").splitlines(True)
            (source / f"{part}.jsonl").write_text("".join(lines[number:16:2]), encoding="utf8")
        options = ["--format", "jsonl", "--labels", label]
        run("convert", label.lower(), source, folder / label.lower(), *options)
    return folder


@pytest.fixture(scope="module")
def combined(halves):
    """What the command prints, and the folder that it writes."""
    corpora = [halves / "chemical", halves / "disease"]
    maps = ["--map", "chemical:CHEMICAL=DRUG"]
    return run("combine", halves / "both", *corpora, *maps), halves / "both"


def test_it_prints_what_became_of_each_corpus(combined):
    rows = [cells_of(line) for line in combined[0].splitlines() if "│" in line]
    assert rows[0] == ["chemical", "DRUG", "train", "8"]  # no columns of zeros
    assert rows[3][:4] == ["disease", "DISEASE", "train", "8"]
    assert "train: 16 documents; " in combined[0]


def test_labels_with_brackets_are_printed_as_they_are(tmp_path):
    """They are not marks of colours and styles."""
    line = '{"text": "Aspirin helps.", "spans": [{"start": 0, "end": 7, "label": "[/red]"}]}\n'
    (tmp_path / "source").mkdir()
    for part in ("train", "dev", "test"):
        (tmp_path / "source" / f"{part}.jsonl").write_text(line.replace("helps", part))
    run("convert", "odd", tmp_path / "source", tmp_path / "odd", "--format", "jsonl")
    rows = [
        cells_of(line) for line in run("combine", tmp_path / "both", tmp_path / "odd").split("\n")
    ]
    assert ["odd", "[/red]", "train", "1"] in rows


def test_documents_say_what_they_annotate(combined):
    docs = list(read_docs(combined[1] / "train.spacy", spacy.blank("en").vocab))
    assert [get_scope(doc).labels for doc in docs] == [{"DRUG"}] * 8 + [{"DISEASE"}] * 8
    assert {ent.label_ for doc in docs for ent in doc.ents} == {"DRUG", "DISEASE"}


@pytest.fixture(scope="module")
def trained(combined, tiny_bert):
    """A pipeline that was trained on it for two steps."""
    folder = combined[1].parent
    config = folder / "config.cfg"
    run("init-config", combined[1], config, "--encoder", tiny_bert, "--epochs", "1")
    run("train", config, "--output", folder / "training", *SMALL)
    return folder / "training" / "model-last"


@pytest.mark.slow
def test_the_pipeline_has_the_labels_of_both(trained):
    assert spacy.load(trained).get_pipe("biomed_ner").labels == ("DISEASE", "DRUG")


@pytest.mark.slow
def test_evaluation_scores_what_is_annotated(trained, combined, run_spacy, tmp_path):
    metrics = tmp_path / "metrics.json"
    scored = run_spacy("evaluate", trained, combined[1] / "test.spacy", "--output", metrics)
    assert scored.returncode == 0, scored.stderr
    assert set(json.loads(metrics.read_text())["ents_per_type"]) == {"DISEASE", "DRUG"}


@pytest.mark.slow
def test_it_can_be_taught_and_checked_and_described(trained, combined, tmp_path):
    taught = tmp_path / "taught"
    run("teach", trained, combined[1], taught)
    docs = list(read_docs(taught / "train.spacy", spacy.blank("en").vocab))
    assert [get_scope(doc).labels for doc in docs] == [{"DRUG"}] * 8 + [{"DISEASE"}] * 8
    check = ["--check", combined[1] / "dev.spacy", "--max-loss", "100"]
    run("compress", trained, tmp_path / "compressed", *check)
    (tmp_path / "metrics.json").write_text('{"ents_p": 0.5, "ents_r": 0.5, "ents_f": 0.5}')
    run(
        "card",
        trained,
        tmp_path / "card",
        "--corpus",
        combined[1],
        "--metrics",
        tmp_path / "metrics.json",
    )
    assert json.loads((tmp_path / "card" / "meta.json").read_text())["name"] == "both"


@pytest.mark.parametrize("pair", ["chemical", ":A=B", "chemical:A"])
def test_a_map_that_is_none_is_refused(halves, tmp_path, pair):
    arguments = ["combine", tmp_path / "out", halves / "chemical", "--map", pair]
    assert f"--map {pair}" in refuse(*arguments).replace("chemical: ", "chemical:")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_convert_maps_labels(tmp_path):
    maps = ["--map", "CHEMICAL=DRUG", "--map", "DISEASE=?DRUG"]
    printed = run("convert", "starter_en", STARTER, tmp_path / "out", *maps)
    (row,) = [cells_of(line) for line in printed.splitlines() if "neither right nor" in line]
    assert int(row[1].replace(",", "")) > 100
    described = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert "DRUG" in described["annotated_labels"]
    assert not {"CHEMICAL", "DISEASE"} & set(described["annotated_labels"])
